from __future__ import annotations

from pathlib import Path

import pytest

from modenc.errors import LanguageError
from modenc.langid import (
    UNDETERMINED,
    FastTextIdentifier,
    Identification,
    Py3LangidIdentifier,
    get_identifier,
)

HUB = ("en", "az", "kk", "ky", "ug", "uz")


@pytest.fixture(scope="module")
def identifier() -> Py3LangidIdentifier:
    return Py3LangidIdentifier()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Good morning", "en"), ("GOOD MORNING", "en"), ("How are you?", "en"), ("Thank you", "en"),
        ("Қайырлы таң", "kk"), ("ҚАЙЫРЛЫ ТАҢ", "kk"), ("Сәлем", "kk"), ("Иә", "kk"),
        ("Кутмандуу таң", "ky"), ("Бир киши гитарада ойнойт.", "ky"),
        ("خەيرلىك ئەتىگەن", "ug"), ("سالام", "ug"),
        ("Sabahınız xeyir", "az"), ("Necəsən?", "az"),
        ("Salom", "uz"), ("Xayrli tong", "uz"), ("Bir kishi gitara chalmoqda.", "uz"),
    ],
)  # fmt: skip
def test_short_texts_among_a_hubs_languages(identifier: Py3LangidIdentifier, text: str, code: str) -> None:
    (match,) = identifier.match([text], HUB)
    assert match.modules == code
    assert 0.3 < match.confidence <= 1.0


def test_script_decides_before_the_model(identifier: Py3LangidIdentifier) -> None:
    assert identifier.match(["Привет, как дела?"], ["en", "kk"])[0].code == "ru"
    assert identifier.match(["안녕"], ["en", "ko"])[0].modules == "ko"


def test_all_known_languages_compete(identifier: Py3LangidIdentifier) -> None:
    german, korean = identifier.identify(["Das ist ein ganz gewöhnlicher deutscher Satz.", "안녕하세요"])
    assert (german.code, korean.code) == ("de", "ko")
    assert german.confidence <= 1.0
    assert set(HUB) <= identifier.languages_known
    assert "zxx" not in identifier.languages_known
    assert len(identifier.languages_known) == 139  # as README says


def test_languages_the_model_does_not_know_are_never_given(identifier: Py3LangidIdentifier) -> None:
    assert identifier.match(["Good morning"], ["smn", "en"])[0].modules == "en"
    with pytest.raises(LanguageError, match=r"py3langid cannot identify any of: smn; name .* lang="):
        identifier.match(["Good morning"], ["smn"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Das ist ein ganz gewöhnlicher deutscher Satz.", "de"),
        ("Я не знаю, где он живёт.", "ru"),
        ("لا أعرف أين يسكن الآن.", "ar"),
        ("我不知道他住在哪里，也不知道他的名字。", "zh"),
        ("نمی‌دانم الان کجا زندگی می‌کند.", "fa"),
    ],
)
def test_other_languages_match_none_of_a_hubs(identifier: Py3LangidIdentifier, text: str, code: str) -> None:
    (match,) = identifier.match([text], HUB)
    assert (match.code, match.modules) == (code, None)
    assert 0.5 < match.confidence <= 1.0


def test_languages_of_the_hub_have_a_prior(identifier: Py3LangidIdentifier) -> None:
    # Of all languages "Salom" is likeliest in another; of a hub with Uzbek, Uzbek is likelier.
    (of_all,), (match,) = identifier.identify(["Salom"]), identifier.match(["Salom"], HUB)
    assert of_all.code not in HUB
    assert (match.code, match.modules) == ("uz", "uz")


def test_a_language_that_is_not_sure_enough_has_no_modules(identifier: Py3LangidIdentifier) -> None:
    (match,) = identifier.match(["Salom"], HUB)
    assert identifier.match(["Salom"], HUB, match.confidence)[0].modules == "uz"
    unsure = identifier.match(["Salom"], HUB, match.confidence + 1e-3)[0]
    assert (unsure.code, unsure.confidence, unsure.modules) == ("uz", match.confidence, None)


def test_a_batch_matches_as_single_texts_do(identifier: Py3LangidIdentifier) -> None:
    texts = ["Good morning", "Қайырлы таң", "", "Xayrli tong", "안녕하세요", "Guten Morgen zusammen"]
    together = identifier.match(texts, HUB)
    for text, match in zip(texts, together, strict=True):
        (alone,) = identifier.match([text], HUB)
        assert (alone.code, alone.modules) == (match.code, match.modules)
        assert alone.confidence == pytest.approx(match.confidence, abs=1e-5)
    assert identifier.match([], HUB) == []


@pytest.mark.parametrize(
    ("text", "modules"), [("", HUB[0]), ("12:30", HUB[0]), ("😀!", HUB[0]), ("\x00", HUB[0]), ("ꦲꦏ꧀ꦱꦫ", None)]
)
def test_texts_without_letters_have_the_first_languages_modules(
    identifier: Py3LangidIdentifier, text: str, modules: str | None
) -> None:
    assert identifier.match([text], HUB) == [Identification(UNDETERMINED, 0.0, modules)]


def test_get_identifier(tmp_path: Path) -> None:
    assert isinstance(get_identifier(), Py3LangidIdentifier)
    assert get_identifier() is get_identifier()
    with pytest.raises(LanguageError, match=r"none\.bin: expected a fastText model file .*glotlid"):
        get_identifier(tmp_path / "none.bin")


def test_a_file_of_another_kind_is_no_fasttext_model(tmp_path: Path) -> None:
    pytest.importorskip("fasttext")
    path = tmp_path / "model.bin"
    path.write_bytes(b"not a model")
    with pytest.raises(LanguageError, match="expected a fastText model, found"):
        FastTextIdentifier(path)


@pytest.fixture(scope="module")
def fasttext_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with GlotLID-style labels, trained on a few words."""
    fasttext = pytest.importorskip("fasttext")
    folder = tmp_path_factory.mktemp("fasttext")
    lines = [
        *["__label__eng_Latn good morning to you all"] * 30,
        *["__label__kaz_Cyrl қайырлы достар мен қайырлы"] * 30,
        *["__label__kir_Cyrl кутмандуу достор менен кутмандуу"] * 30,
        *["__label__zxx_Zzzz 1234"] * 5,
    ]
    (folder / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    model = fasttext.train_supervised(
        str(folder / "train.txt"),
        dim=8,
        epoch=100,
        lr=0.05,
        minn=2,
        maxn=3,
        bucket=200_000,
        # With fewer, fastText leaves part of its table uninitialized.
        thread=10,
        verbose=0,
    )
    model.save_model(str(folder / "model.bin"))
    return folder / "model.bin"


def test_fasttext_labels_are_codes(fasttext_model: Path) -> None:
    identifier = get_identifier(fasttext_model)
    assert isinstance(identifier, FastTextIdentifier)
    assert identifier.languages_known == {"en", "kk", "ky"}
    found = identifier.identify(["good morning", "қайырлы\nтаң", "кутмандуу таң", "", "42"])
    assert [item.code for item in found[:3]] == ["en", "kk", "ky"]
    assert [item.confidence for item in found[3:]] == [0.0, 0.0]


def test_fasttext_matches_among_all_its_labels(fasttext_model: Path) -> None:
    identifier = FastTextIdentifier(fasttext_model)
    kyrgyz, english, digits = identifier.match(["кутмандуу достор", "good morning", "42"], ["en", "kk"])
    assert (kyrgyz.code, kyrgyz.modules) == ("ky", None)
    assert (english.code, english.modules) == ("en", "en")
    assert digits == Identification(UNDETERMINED, 0.0, "en")
