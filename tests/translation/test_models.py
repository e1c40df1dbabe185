"""Neural engines on tiny random models of each family, and how these are given their languages."""

import json
from itertools import pairwise

import pytest

pytest.importorskip("sentencepiece", reason="the extra translate is not installed")

import tiny_models
import tiny_translators

from modenc.errors import BaseModelError, LanguageError
from modenc.translation import Chain, Translation
from modenc.translation.neural import Model, NeuralStep, language_tags

TEXTS = [*tiny_models.sentences("en")[:3], "The new book"]
FAMILIES = ("nllb", "m2m100", "marian")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Family → folder of a tiny model of it."""
    folder = tmp_path_factory.mktemp("translators")
    return {name: str(getattr(tiny_translators, f"save_tiny_{name}")(folder / name)) for name in FAMILIES}


def _chain(name, *languages):
    model = Model(name)
    return Chain("transformers", tuple(NeuralStep(model, *pair) for pair in pairwise(languages)))


@pytest.mark.parametrize(
    ("family", "tags"),
    [("nllb", ("eng_Latn", "kaz_Cyrl")), ("m2m100", ("en", "__kk__")), ("marian", None)],
)
def test_each_family_translates_by_its_tags(models, family, tags):
    chain = _chain(models[family], "eng", "kk")
    assert chain.steps[0].tags == tags
    assert str(chain) == f"transformers ({family})"
    found = chain.translate(TEXTS)
    # Whether a random Marian writes anything but blanks depends on the version of transformers.
    assert any(result.text for result in found) or family == "marian"
    # The same alone as among others.
    assert [chain.translate([text])[0] for text in TEXTS] == found
    if tags:
        other = _chain(models[family], "en", "az")
        assert [result.text for result in other.translate(TEXTS)] != [result.text for result in found]


def test_the_target_is_the_first_token_and_the_source_before_the_text(models):
    step = _chain(models["nllb"], "en", "kk").steps[0]
    tokenizer, seen = step.model.tokenizer, []
    generate = step.model.model.generate
    step.model.model.generate = lambda **options: seen.append(options) or generate(**options)
    step.translate(["The new book"])
    names = tokenizer.convert_ids_to_tokens(seen[0]["input_ids"][0].tolist())
    assert (names[0], names[-1]) == ("eng_Latn", "</s>")
    assert tokenizer.convert_ids_to_tokens(seen[0]["forced_bos_token_id"]) == "kaz_Cyrl"


def test_a_text_that_is_too_long_is_no_translation(models):
    chain = _chain(models["nllb"], "en", "kk")
    short, long = chain.translate(["the book", "the new book " * 50])
    assert not short.failed
    assert long == Translation("", failed=True)


def test_a_chain_has_a_step_between_its_languages(models):
    chain = _chain(models["nllb"], "en", "tr", "az")
    assert [step.tags for step in chain.steps] == [("eng_Latn", "tur_Latn"), ("tur_Latn", "azj_Latn")]
    assert chain.steps[0].model is chain.steps[1].model
    assert len(chain.translate(TEXTS)) == len(TEXTS)


class NllbTokenizerFast:
    src_lang = ""

    def __init__(self, *tags):
        self._tags = tags

    def get_vocab(self):
        return dict.fromkeys(("word", "<s>", *self._tags), 0)


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("az", "azj_Latn"),
        ("azb", "azb_Arab"),
        ("zh", "zho_Hans"),
        ("zho_Hant", "zho_Hant"),
        ("zh-TW", "zho_Hant"),
        ("ar", "arb_Arab"),
        ("arz_Arab", "arz_Arab"),
        ("sw", "swh_Latn"),
    ],
)
def test_of_several_tags_of_a_language_the_usual_script_counts(code, tag):
    known = ("azj_Latn", "azb_Arab", "zho_Hans", "zho_Hant", "arb_Arab", "arb_Latn", "arz_Arab", "swh_Latn")
    assert language_tags(NllbTokenizerFast(*known, "eng_Latn"), "en", code, "m") == ("eng_Latn", tag)


def test_languages_and_models_that_are_not_known():
    tokenizer = NllbTokenizerFast("kaz_Cyrl", "eng_Latn")
    with pytest.raises(LanguageError, match="language that it has, found 'fr'; it has eng_Latn, kaz_Cyrl"):
        language_tags(tokenizer, "en", "fr", "m")
    with pytest.raises(LanguageError, match="NLLB, M2M100 or Marian, found a tokenizer of class Nllb"):
        language_tags(NllbTokenizerFast(), "en", "fr", "m")


def test_models_that_are_not_there(tmp_path, tiny_xlmr):
    with pytest.raises(BaseModelError, match=r"none: expected a translation model's folder, or its id"):
        Model(str(tmp_path / "none"))
    with pytest.raises(BaseModelError, match="or its id on Hugging Face; found"):
        Model("nobody/nothing@0123456789012345678901234567890123456789")
    with pytest.raises(BaseModelError, match="or its id on Hugging Face; found Unrecognized configuration"):
        Model(str(tiny_xlmr))
    (tmp_path / "adapter_config.json").write_text(json.dumps({}))
    with pytest.raises(BaseModelError, match="is a peft adapter"):
        Model(str(tmp_path))
