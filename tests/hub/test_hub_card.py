from __future__ import annotations

import json

import pytest
from tiny_languages import make_card

from modenc.errors import HubError
from modenc.hub.card import Card
from modenc.hub.readme import readme
from modenc.hub.seal import SEAL, sealed_text

CARD = make_card("kk", files={"a/b.json": {"sha256": "00", "bytes": 2}})


def test_json_round_trip() -> None:
    assert Card.from_json(CARD.to_json()) == CARD
    assert CARD.to_json().endswith("}\n")


def test_wrong_keys_are_all_named() -> None:
    content = json.loads(CARD.to_json())
    del content["seed"], content[SEAL]
    content |= {"licenses": [], "scores": [1], "recipe": True, "files": {"x": {"bytes": "2"}}}
    with pytest.raises(HubError) as error:
        Card.from_json(sealed_text(content), where="kk/card.json")
    message = str(error.value)
    for part in (
        "kk/card.json: missing key 'seed'",
        "unknown key 'licenses' (did you mean 'licences'?)",
        "scores: expected dict, found [1]",
        "recipe: expected str, found True",
        "files: expected sha256 and bytes for 'x', found {'bytes': '2'}",
        "update modenc, or install the language again",
    ):
        assert part in message


@pytest.mark.parametrize("inside", [{}, {"files": dict.fromkeys(map(str, range(30)), 1)}])
def test_the_first_faults_of_many_are_named(inside: dict[str, object]) -> None:
    content = {**json.loads(CARD.to_json()), **(inside or dict.fromkeys((f"k{i}" for i in range(30)), 1))}
    with pytest.raises(HubError, match=r"; and more\. The card may") as error:
        Card.from_json(sealed_text(content))
    assert str(error.value).count(";") == 20


def test_the_seal_is_checked_before_the_keys() -> None:
    changed = CARD.to_json().replace('"seed"', '"sead"')
    with pytest.raises(HubError, match="expected the text that was sealed"):
        Card.from_json(changed)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "expected readable JSON, found"), ("[]", r"a JSON object, found list")]
)
def test_what_is_no_json_object_is_refused(text: str, message: str) -> None:
    with pytest.raises(HubError, match=message):
        Card.from_json(text)


def test_readme_has_front_matter_and_tables() -> None:
    yaml = pytest.importorskip("yaml")
    text = readme(CARD)
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
    assert "| sentence_encoding_dev_after_sts | 76.25 |" in body
    assert "| paraphrases | pairs.tsv | 1000 | CC BY-SA 4.0 |" in body


def test_readme_of_norwegian_several_licences_and_a_bundled_base() -> None:
    yaml = pytest.importorskip("yaml")
    card = make_card("nb", licences=["MIT", 'made by "us"'], base_id="me5-small", scores={}, data=[])
    text = readme(card)
    front = yaml.safe_load(text.split("---\n", 2)[1])
    assert front["license"] == "other"
    assert front["license_name"] == 'MIT; made by "us"'
    assert front["base_model"] == "intfloat/multilingual-e5-small"
    assert "## Scores" not in text
    local = readme(make_card("nb", base_id="/models/base", licences=[]))
    assert "base_model" not in local
    assert "Licence: not stated" in local
