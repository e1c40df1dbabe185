"""Neural engines on tiny random models of each family, and how these are given their languages."""

import json

import pytest

pytest.importorskip("sentencepiece", reason="the extra translate is not installed")

import tiny_models
import tiny_translators

from modenc.errors import BaseModelError, DataError, LanguageError
from modenc.translation.neural import find_model, language_tags, model_chain, model_fingerprint

TEXTS = [*tiny_models.sentences("en")[:3], "The new book"]
FAMILIES = ("nllb", "m2m100", "madlad", "marian")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Family → folder of a tiny model of it."""
    folder = tmp_path_factory.mktemp("translators")
    return {name: getattr(tiny_translators, f"save_tiny_{name}")(folder / name) for name in FAMILIES}


def tags_of(chain):
    return [step["tags"] for step in chain.describe()]


@pytest.mark.parametrize(
    ("family", "tags"),
    [
        ("nllb", ["eng_Latn", "kaz_Cyrl"]),
        ("m2m100", ["en", "__kk__"]),
        ("madlad", ["<2kk>"]),
        ("marian", [">>kaz<<"]),
    ],
)
def test_each_family_translates_by_its_tags(models, family, tags):
    chain = model_chain([str(models[family])], ["eng", "kk"], beams=1, batch_size=2)
    assert tags_of(chain) == [tags]
    assert chain.describe()[0]["name"] == family
    found = chain.translate(TEXTS)
    assert any(result.text for result in found)
    # The same alone as among others, and again.
    alone = model_chain([str(models[family])], ["en", "kaz_Cyrl"], beams=1, batch_size=1)
    assert alone.translate(TEXTS) == found
    other = model_chain([str(models[family])], ["en", "az"], beams=1)
    assert [result.text for result in other.translate(TEXTS)] != [result.text for result in found]


def test_the_target_is_the_first_token_and_the_source_before_the_text(models):
    step = model_chain([str(models["nllb"])], ["en", "kk"]).steps[0]
    (tokens,) = step.tokenize(["The new book"])
    names = step.model.tokenizer.convert_ids_to_tokens(tokens)
    assert (names[0], names[-1]) == ("eng_Latn", "</s>")
    assert step.model.tokenizer.convert_ids_to_tokens(step.target_id) == "kaz_Cyrl"
    seen = []
    generate = step.model.model.generate
    step.model.model.generate = lambda **options: seen.append(options) or generate(**options)
    step.translate(TEXTS)
    assert seen[0]["forced_bos_token_id"] == step.target_id
    assert (seen[0]["num_beams"], seen[0]["do_sample"]) == (4, False)


@pytest.mark.parametrize(("family", "tag"), [("madlad", "<2kk>"), ("marian", ">>kaz<<")])
def test_the_targets_tag_is_one_token_before_the_text(models, family, tag):
    step = model_chain([str(models[family])], ["en", "kk"]).steps[0]
    (tokens,) = step.tokenize(["The new book"])
    names = step.model.tokenizer.convert_ids_to_tokens(tokens)
    assert tag in names[:2]
    assert names[-1] == "</s>"
    assert step.target_id is None


def test_a_long_text_is_cut_with_its_end_kept(models):
    step = model_chain([str(models["nllb"])], ["en", "kk"], beams=1).steps[0]
    (tokens,) = step.tokenize(["the new book " * 50])
    assert len(tokens) > 32
    cut = step.truncate(tokens)
    assert (len(cut), cut[0], cut[-1]) == (32, tokens[0], tokens[-1])
    short, long = step.translate(["the book", "the new book " * 50])
    assert (short.cut, long.cut) == (False, True)


def test_a_chain_has_one_model_or_one_for_each_step(models):
    nllb, m2m100 = str(models["nllb"]), str(models["m2m100"])
    chain = model_chain([nllb], ["en", "tr", "az"], beams=1)
    assert tags_of(chain) == [["eng_Latn", "tur_Latn"], ["tur_Latn", "azj_Latn"]]
    assert chain.steps[0].model is chain.steps[1].model
    chain = model_chain([m2m100, nllb], ["en", "tr", "az"], beams=1)
    assert tags_of(chain) == [["en", "__tr__"], ["tur_Latn", "azj_Latn"]]
    assert len(chain.translate(TEXTS)) == len(TEXTS)
    with pytest.raises(DataError, match="one for each of the 3 steps; found 2"):
        model_chain([nllb, nllb], ["en", "tr", "az", "kk"])


def test_a_marian_model_of_one_language_has_no_tags(tmp_path):
    folder = tiny_translators.save_tiny_marian(tmp_path / "opus", tags=())
    assert tags_of(model_chain([str(folder)], ["en", "kk"])) == [[]]


class FakeTokenizer:
    def __init__(self, *tags):
        self._tags = tags

    def get_vocab(self):
        return dict.fromkeys(("word", "<s>", *self._tags), 0)


class NllbTokenizerFast(FakeTokenizer):
    pass


class T5Tokenizer(FakeTokenizer):
    pass


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
    assert language_tags(NllbTokenizerFast(*known, "eng_Latn"), "en", code, "m").target == tag


def test_languages_and_models_that_are_not_known():
    with pytest.raises(
        LanguageError, match="m: expected a language that it has, found 'fr'; it has kk, zh_Latn"
    ):
        language_tags(T5Tokenizer("<2kk>", "<2zh_Latn>", "<2>"), "en", "fr", "m")
    with pytest.raises(LanguageError, match="NLLB, M2M100, MADLAD, Marian, found a tokenizer of class Fake"):
        language_tags(FakeTokenizer(), "en", "fr", "m")
    with pytest.raises(LanguageError, match=r"it has $"):
        language_tags(T5Tokenizer(), "en", "fr", "m")


def test_models_that_are_not_there(tmp_path, tiny_xlmr):
    with pytest.raises(BaseModelError, match=r"none: expected a translation model's folder, or its id"):
        find_model(str(tmp_path / "none"))
    with pytest.raises(BaseModelError, match="or its id on Hugging Face; found"):
        find_model("nobody/nothing@0123456789012345678901234567890123456789")
    with pytest.raises(BaseModelError, match="or its id on Hugging Face; found Unrecognized configuration"):
        model_chain([str(tiny_xlmr)], ["en", "kk"])
    (tmp_path / "adapter_config.json").write_text(json.dumps({}))
    with pytest.raises(BaseModelError, match="is a peft adapter"):
        find_model(str(tmp_path))


def test_a_model_is_told_from_another_of_its_name(models, tmp_path):
    for place, tags in (("a", (">>kaz<<",)), ("b", (">>kaz<<", ">>uzb<<"))):
        tiny_translators.save_tiny_marian(tmp_path / place / "opus", tags)

    def described(place, **search):
        return model_chain([str(tmp_path / place / "opus")], ["en", "kk"], **search).describe()

    (one,), (other,) = described("a"), described("b")
    assert one["name"] == other["name"]
    assert one["data"] != other["data"]
    assert described("a") == [one]
    assert described("a", batch_size=3) != [one]
    (tmp_path / "a" / "opus" / "README.md").write_text("Read me.")
    assert described("a") == [one]


def test_a_fetched_model_is_known_by_its_commit(tmp_path):
    folder = tmp_path / "snapshots" / ("0a" * 20)
    folder.mkdir(parents=True)
    assert model_fingerprint(folder) == "0a" * 20
