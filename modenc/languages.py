"""Language codes and names: ``kk`` = ``kaz`` = ``kaz_Cyrl`` = ``kk-KZ``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from langcodes import Language, standardize_tag
from langcodes.data_dicts import LIKELY_SUBTAGS
from langcodes.tag_parser import LanguageTagError

from modenc.errors import LanguageError

BASE = "base"
"""Value in place of a language code: the base's own tokenizer and weights, without modules."""

_LONGEST_CODE = 100

# No code, and subtags of no language: undetermined, multiple, uncoded, no linguistic content.
_NO_LANGUAGE = frozenset({"", "und", "mul", "mis", "zxx"})


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


def script_of_code(code: str) -> str | None:
    """Return the script that a code states explicitly: ``kaz_Cyrl`` gives ``Cyrl``, ``kk`` gives None."""
    return Language.get(code.strip().replace("_", "-"), normalize=False).script


def _is_known(language: str) -> bool:
    # The table of names takes some 30 MB.
    return language in LIKELY_SUBTAGS or "Unknown" not in Language.get(language).display_name("en")


def listed_codes(codes: str | Iterable[str]) -> list[str]:
    """Return one code or several as a list, unchanged."""
    return [codes] if isinstance(codes, str) else list(codes)
