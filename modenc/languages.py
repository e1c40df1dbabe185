"""Language codes, names and scripts: ``kk`` = ``kaz`` = ``kaz_Cyrl`` = ``kk-KZ``."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cache, lru_cache

import regex
from langcodes import Language, standardize_tag
from langcodes.data_dicts import ALL_SCRIPTS, LIKELY_SUBTAGS
from langcodes.tag_parser import LanguageTagError

from modenc.errors import LanguageError

BASE = "base"
"""Value in place of a language code: the base's own tokenizer and weights, without modules."""

_LONGEST_CODE = 100

# No code, and subtags of no language: undetermined, multiple, uncoded, no linguistic content.
_NO_LANGUAGE = frozenset({"", "und", "mul", "mis", "zxx"})

# Codes of writing systems that mix several Unicode scripts or narrow one down.
_WRITING_SYSTEMS: dict[str, frozenset[str]] = {
    "Hans": frozenset({"Hani"}),
    "Hant": frozenset({"Hani"}),
    "Jpan": frozenset({"Hira", "Kana", "Hani"}),
    "Kore": frozenset({"Hang", "Hani"}),
}

# Languages in daily use in more scripts than CLDR's likely one.
_SEVERAL_SCRIPTS: dict[str, frozenset[str]] = {
    "bs": frozenset({"Latn", "Cyrl"}),
    "crh": frozenset({"Latn", "Cyrl"}),
    "ks": frozenset({"Arab", "Deva"}),
    "ku": frozenset({"Latn", "Arab"}),
    "mn": frozenset({"Cyrl", "Mong"}),
    "pa": frozenset({"Guru", "Arab"}),
    "sd": frozenset({"Arab", "Deva"}),
    "sr": frozenset({"Cyrl", "Latn"}),
    "uz": frozenset({"Latn", "Cyrl"}),
}


def normalize_code(code: str) -> str:
    """Return the shortest standard code of a language, without script and region.

    ``KK``, ``kaz``, ``kaz_Cyrl`` and ``kk-KZ`` give ``kk``; ``azj_Latn`` gives ``az``.

    Raises:
        LanguageError: ``code`` names no language.
    """
    if (language := find_code(code)) is None:
        raise LanguageError(
            f"expected a language code such as 'kk', 'kaz' or 'kaz_Cyrl', found {code!r:.80}; "
            "codes are listed at https://iso639-3.sil.org"
        )
    return language


def find_code(code: str) -> str | None:
    """Return :func:`normalize_code` of a code, or None if it names no language; guesses nothing."""
    # Longer ones must not fill the cache's memory.
    return _find_code(code) if isinstance(code, str) and len(code) <= _LONGEST_CODE else None


@lru_cache(maxsize=4096)
def _find_code(code: str) -> str | None:
    try:
        # Replaces deprecated codes, and those that a macrolanguage covers.
        language = Language.get(standardize_tag(code.strip(), macro=True)).language
    except LanguageTagError:
        return None
    return language if language and language not in _NO_LANGUAGE and _is_known(language) else None


def is_undetermined(code: object) -> bool:
    """Say whether a code says that the language is not known: ``und``, ``mul``, ``mis``, ``zxx``, or blank.

    Upper case and further subtags (``und-Latn``) are allowed.
    """
    return isinstance(code, str) and code.strip().replace("_", "-").partition("-")[0].lower() in _NO_LANGUAGE


def language_name(code: str) -> str:
    """Return the English name of a language (``kk`` gives ``Kazakh``).

    Raises:
        LanguageError: ``code`` names no language.
    """
    return str(Language.get(normalize_code(code)).display_name("en"))


@lru_cache(maxsize=1024)
def expected_scripts(code: str) -> frozenset[str]:
    """Return the ISO 15924 codes of the Unicode scripts that a language is usually written in.

    A script given in the code itself is the only one expected: ``uz_Cyrl`` gives ``{"Cyrl"}``.
    Composite writing systems are split into what letters can be: ``ja`` gives
    ``{"Hira", "Kana", "Hani"}``. Empty where no script is known.

    Raises:
        LanguageError: ``code`` names no language.
    """
    language = normalize_code(code)
    if language in _SEVERAL_SCRIPTS and script_of_code(code) is None:
        return _SEVERAL_SCRIPTS[language]
    return main_scripts(code)


@lru_cache(maxsize=1024)
def main_scripts(code: str) -> frozenset[str]:
    """Return :func:`expected_scripts` without secondary ones: ``uz`` gives ``{"Latn"}``.

    Raises:
        LanguageError: ``code`` names no language.
    """
    language = normalize_code(code)
    script = script_of_code(code)
    if script is None:
        # langcodes falls back to Latin for languages that are not in CLDR.
        script = Language.get(language).maximize().script if language in LIKELY_SUBTAGS else None
    return _WRITING_SYSTEMS.get(script, frozenset({script})) if script else frozenset()


def script_of_code(code: str) -> str | None:
    """Return the script that a code states explicitly: ``kaz_Cyrl`` gives ``Cyrl``, ``kk`` gives None."""
    return Language.get(code.strip().replace("_", "-"), normalize=False).script


@lru_cache(maxsize=65536)
def script_of_letter(character: str) -> str | None:
    """Return the ISO 15924 code of a letter's script; None for other characters.

    None, too, for letters that all scripts share (``ʻ``, ``ー``).
    """
    if not character.isalpha():
        return None
    match = _script_pattern().match(character)
    return match.lastgroup if match else None


def _is_known(language: str) -> bool:
    # The table of names takes some 30 MB.
    return language in LIKELY_SUBTAGS or "Unknown" not in Language.get(language).display_name("en")


@cache
def _script_pattern() -> regex.Pattern[str]:
    """Return a pattern for one letter; the name of the matching group is its script's code."""
    groups = []
    for script in sorted(ALL_SCRIPTS - {"Zyyy", "Zinh", "Zzzz", "Qaai"}):
        group = rf"(?P<{script}>\p{{Script={script}}})"
        with suppress(regex.error):  # an ISO 15924 code that is no Unicode script, such as Jpan
            regex.compile(group)
            groups.append(group)
    return regex.compile("|".join(groups))


def listed_codes(codes: str | Iterable[str]) -> list[str]:
    """Return one code or several as a list, unchanged."""
    return [codes] if isinstance(codes, str) else list(codes)
