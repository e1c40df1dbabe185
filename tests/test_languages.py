from __future__ import annotations

import pytest

from modenc.errors import LanguageError
from modenc.langid import expected_scripts
from modenc.languages import _find_code, find_code, is_undetermined, normalize_code, script_of_code


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("kk", "kk"), ("KK", "kk"), ("kaz", "kk"), ("kaz_Cyrl", "kk"), ("kk-KZ", "kk"), (" kk ", "kk"),
        ("azj_Latn", "az"), ("aze", "az"), ("uzn_Latn", "uz"), ("uig_Arab", "ug"), ("eng", "en"),
        ("zho_Hans", "zh"), ("cmn", "zh"), ("swh", "sw"), ("khk", "mn"), ("iw", "he"), ("ces", "cs"),
        ("hbs", "sr"), ("nob_Latn", "nb"), ("lmo", "lmo"),
    ],
)  # fmt: skip
def test_codes_of_one_language_are_one_code(code: str, expected: str) -> None:
    assert normalize_code(code) == expected
    assert normalize_code(expected) == expected


@pytest.mark.parametrize("code", ["", "zz", "und", "mul", "zxx", "qaa", "123", "x-foo", "kaz_Cyrl_x"])
def test_what_is_no_language_is_refused(code: str) -> None:
    with pytest.raises(
        LanguageError, match="expected a language code such as 'kk', 'kaz' or 'kaz_Cyrl', found"
    ):
        normalize_code(code)


def test_endless_codes_are_refused_and_not_kept() -> None:
    before = _find_code.cache_info().currsize
    for number in range(3):
        assert find_code(f"kk-x-{number}" + "a" * 1000) is None
    assert _find_code.cache_info().currsize == before


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(LanguageError, match="or 'kaz_Cyrl', found None; codes are listed"):
        normalize_code(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        ("kk", {"Cyrl"}), ("az", {"Latn"}), ("ug", {"Arab"}), ("uz", {"Latn", "Cyrl"}), ("uz_Cyrl", {"Cyrl"}),
        ("sr", {"Cyrl", "Latn"}), ("zh", {"Hani"}), ("zho_Hant", {"Hani"}), ("ja", {"Hira", "Kana", "Hani"}),
        ("ko", {"Hang", "Hani"}), ("am", {"Ethi"}), ("kzk", set()),
    ],
)  # fmt: skip
def test_expected_scripts(code: str, scripts: set[str]) -> None:
    assert expected_scripts(code).keys() == scripts


def test_a_second_script_is_less_likely() -> None:
    assert expected_scripts("uz")["Cyrl"] < expected_scripts("uz")["Latn"] == 0
    assert set(expected_scripts("ja").values()) == {0}


def test_script_of_code() -> None:
    assert script_of_code("kaz_Cyrl") == "Cyrl"
    assert script_of_code("kk-Latn-KZ") == "Latn"
    assert script_of_code("kk-KZ") is None


@pytest.mark.parametrize(
    "code", ["und", "UND", "mul", "mis", "zxx", "und-Latn", "und_Cyrl", " und ", "", " "]
)
def test_codes_that_say_the_language_is_not_known(code: str) -> None:
    assert is_undetermined(code)


@pytest.mark.parametrize("code", ["kk", "unknown", "undx", "mus", None, 3])
def test_other_codes_do_not(code: object) -> None:
    assert not is_undetermined(code)
