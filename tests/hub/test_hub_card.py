from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tiny_languages import make_card

from modenc.errors import HubError
from modenc.hub.card import Card, is_worse_than_base
from modenc.hub.page import language_page

CARD = make_card("kk", files={"a/b.json": {"sha256": "00", "bytes": 2}}, version="v-0123abcd")


def test_json_round_trip() -> None:
    assert Card.from_json(CARD.to_json()) == CARD
    assert CARD.to_json().endswith("}\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"license": []}, "kk/card.json: expected the keys lang, .*, found a difference in license; correct"),
        ({"stages": [1]}, r"stages: expected dict, found \[1\]"),
        ({"recipe": True}, "recipe: expected str, found True"),
        ({"files": {"x": {"bytes": "2"}}}, "files: x: expected the keys sha256, bytes, found .* in sha256"),
        ({"files": {"x": {"sha256": "", "bytes": "2"}}}, "files: x: bytes: expected int, found '2'"),
        ({"comparison": {"base": 1}}, "comparison: base: expected dict, found 1"),
        ({"comparison": {"base": {"sts": "1"}}}, "comparison: base: sts: expected float, found '1'"),
    ],
)
def test_a_damaged_card_is_said_clearly(changes: dict[str, object], message: str) -> None:
    text = json.dumps(json.loads(CARD.to_json()) | changes)
    with pytest.raises(HubError, match=message):
        Card.from_json(text, where="kk/card.json")


def test_readme_has_front_matter_and_tables() -> None:
    yaml = pytest.importorskip("yaml")
    text = language_page(replace(CARD, comparison={}))
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front) == {
        "language": "kk",
        "library_name": "modenc",
        "license": "cc-by-sa-4.0",
        "base_model": "tiny/base",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "modular", "adapters"],
    }
    assert "# Kazakh (kk)" in body
    assert 'ModularEncoder("path/to/hub")' in body
    assert "| paraphrases | pairs.tsv | 1000 | CC BY-SA 4.0 |" in body


def test_readme_of_norwegian_several_licenses_and_a_bundled_base() -> None:
    yaml = pytest.importorskip("yaml")
    card = make_card("nb", licenses=["MIT", 'made by "us"'], base_id="me5-small", data=[])
    text = language_page(card)
    front = yaml.safe_load(text.split("---\n", 2)[1])
    assert front["license"] == "other"
    assert front["base_model"] == "intfloat/multilingual-e5-small"
    for folder in ("/models/base", "./base", "../base"):
        local = language_page(make_card("nb", base_id=folder, licenses=[]))
        assert "base_model" not in local
        assert "License: not stated" in local


COMPARISON = {
    "rows": {"sts": 200, "retrieval": 200, "tokens": 200},
    "base": {"sts": 72.5, "retrieval": 97.5, "tokens": 39.64},
    "modules": {"sts": 81.94, "retrieval": 95.0, "tokens": 47.9},
    "align=False": {"sts": 83.0, "retrieval": 90.0, "tokens": 47.9},
}


def test_a_comparison_is_stored_and_shown() -> None:
    card = replace(CARD, comparison=COMPARISON)
    assert Card.from_json(card.to_json()) == card
    assert "Compared with the base" not in language_page(replace(CARD, comparison={}))
    text = language_page(card)
    assert "## Compared with the base alone" in text
    assert "| held-out data | rows | base | modules | align=False |" in text
    assert "| similarity within the language (Spearman x 100) | 200 | 72.5 | 81.9 | 83.0 |" in text
    assert "| mean |  | 85.0 | 88.5 | 86.5 |" in text
    assert "| tokens a sentence (fewer are better) | 200 | 39.6 | 47.9 | 47.9 |" in text


def test_modules_lose_where_the_mean_of_shared_metrics_is_lower() -> None:
    assert not is_worse_than_base({})
    assert not is_worse_than_base(COMPARISON)
    assert is_worse_than_base(
        {"base": {"sts": 70.0, "retrieval": 90.0}, "modules": {"sts": 71.0, "retrieval": 88.0}}
    )
    # A metric that one of them lacks does not count, nor does the number of tokens.
    assert not is_worse_than_base({"base": {"sts": 70.0, "retrieval": 90.0}, "modules": {"sts": 70.0}})
    assert not is_worse_than_base({"base": {"tokens": 3.0}, "modules": {"tokens": 2.0}})
