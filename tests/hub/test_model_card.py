from __future__ import annotations

import math
from dataclasses import replace

import pytest
from huggingface_hub import ModelCard
from tiny_languages import INFO, make_card

from modenc.hub.page import hub_page

FILES = {"se/adapter_config.json": {"sha256": "", "bytes": 1}}
KK = {"base": {"sts": 70.0}, "modules": {"sts": 85.84, "retrieval": 97.25, "cross_sts": math.nan}}


def page(*cards: object, **info: object) -> ModelCard:
    return ModelCard(hub_page("org/hub", replace(INFO, **info), cards))  # type: ignore[arg-type]


def test_the_front_matter_says_what_the_cards_say() -> None:
    card = page(make_card("en", licenses=["CC0-1.0"]), make_card("kk", comparison=KK, licenses=["CC0-1.0"]))
    found = card.data.to_dict()
    assert found["language"] == ["en", "kk"]
    assert (found["base_model"], found["base_model_relation"]) == ("tiny/base", "adapter")
    assert (found["library_name"], found["pipeline_tag"]) == ("modenc", "sentence-similarity")
    assert {"sentence-transformers", "feature-extraction", "sentence-similarity"} <= set(found["tags"])
    assert found["license"] == "cc0-1.0"
    assert "| [Kazakh](kk/README.md) | kk |" in card.text
    assert "sts 85.8, cross_sts nan, retrieval 97.2" in card.text
    assert 'encode(["..."], lang="kk")' in card.text


@pytest.mark.parametrize(
    ("licenses", "expected"),
    [
        ([], {}),
        (["MIT"], {"license": "mit"}),
        (["Flickr30k (research)"], {"license": "other"}),
        (["MIT", "CC0-1.0"], {"license": "other"}),
    ],
)
def test_licenses(licenses: list[str], expected: dict[str, str]) -> None:
    found = page(make_card("kk", licenses=licenses)).data.to_dict()
    assert {key: value for key, value in found.items() if key.startswith("license")} == expected


def test_older_cards_and_other_bases() -> None:
    found = page(make_card("kk"), base_id="/home/me/base").data.to_dict()
    assert "base_model" not in found
    assert page(make_card("en"), base_id="me5-small").data.base_model == "intfloat/multilingual-e5-small"
