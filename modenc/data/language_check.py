"""Checks that lines, and a corpus as a whole, are in the expected language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from langcodes import Language, tag_distance

from modenc.data.text import count_letters
from modenc.errors import DataError
from modenc.evidence import language_evidence
from modenc.langid import LanguageIdentifier
from modenc.languages import expected_scripts, language_name, normalize_code

# Of 14,000 lines with 20 letters or more, in ten languages, the identifier gets 57 wrong; of the lines with
# this confidence, 2.
MIN_CONFIDENCE = 0.9
MIN_LETTERS = 20

# Fewer lines that are long enough to identify say nothing about a corpus.
_MIN_LONG_LINES = 20

# CLDR's distance: Bokmål to Nynorsk 20, Malay to Indonesian 14, Croatian to Serbian 8, written in
# the same script; Azerbaijani to Turkish and Kazakh to Russian are above 30.
_SAME_LANGUAGE = 25


Verdict = Literal["", "wrong_script", "wrong_language"]
"""Reason to drop a line; empty for a line to keep."""


@dataclass(frozen=True)
class Filters:
    """Conditions for keeping rows, with the defaults of recipes."""

    min_chars: int = 5
    max_chars: int = 1000
    deduplicate: bool = True
    check_script: bool = True
    check_language: bool = True
    min_language_share: float = 0.5
    """Smallest share of a corpus that must be in its language."""


DEFAULT_FILTERS = Filters()


class LanguageCheck:
    """Check of lines against the script and language that they should be in.

    Args:
        lang: code of the expected language; with a script in it (``ace_Arab``), only that one is expected.
        identifier: identifies languages; None skips that check.
        pivot: language of the other side, for translations. If the identifier does not know ``lang``, lines
            are at least checked not to be in the pivot (MuSR, section 4.1).
        filters: settings of the checks.
    """

    def __init__(
        self,
        lang: str,
        identifier: LanguageIdentifier | None,
        pivot: str | None = None,
        filters: Filters = DEFAULT_FILTERS,
    ) -> None:
        self._scripts = expected_scripts(lang) if filters.check_script else frozenset()
        self.lang = lang = normalize_code(lang)
        self.min_share = filters.min_language_share
        known: Collection[str] | None = getattr(identifier, "languages_known", None)
        # An identifier that does not know the language identifies each line as another.
        knows_lang = known is None or lang in known
        self._pivot = None if knows_lang else pivot
        usable = filters.check_language and (knows_lang or pivot is not None)
        self._identifier = identifier if usable else None

    def verdicts(self, texts: Sequence[str]) -> list[Verdict]:
        """Check each text; with too few letters, or at low confidence, its language counts as right."""
        verdicts: list[Verdict] = ["" if self._script_fits(text) else "wrong_script" for text in texts]
        if self._identifier is None:
            return verdicts
        long = [i for i, text in enumerate(texts) if not verdicts[i] and _is_long(text)]
        for i, found in zip(long, self._identifier.identify([texts[i] for i in long]), strict=True):
            if found.confidence >= MIN_CONFIDENCE and self._is_other(found.code):
                verdicts[i] = "wrong_language"
        return verdicts

    def check_language_share(self, sample: Sequence[str]) -> None:
        """Check that a large enough share of a corpus is in the language.

        Args:
            sample: normalized lines, before any were dropped for their script or language.

        Raises:
            DataError: the share is below ``min_language_share``; the message states both.
        """
        long = [text for text in sample if _is_long(text)]
        if len(long) < _MIN_LONG_LINES:
            return
        labels = self._wrong_language_labels(long)
        share = sum(label is None for label in labels) / len(long)
        if share >= self.min_share:
            return
        label, count = Counter(filter(None, labels)).most_common(1)[0]
        example = long[labels.index(label)]
        raise DataError(
            f"{self.lang}: {count / len(long):.0%} of {len(long):,} sampled lines look like {label}, e.g. "
            f"{example[:80]!r}; expected at least {self.min_share:.0%} "
            f"{language_name(self.lang)}, found {share:.0%}. Check the sources and their columns; if the "
            "texts are right, lower data.min_language_share or set data.check_language = false "
            "(or data.check_script)"
        )

    def _wrong_language_labels(self, texts: Sequence[str]) -> list[str | None]:
        """Name the script or language of each text that is in an unexpected one; None for the others."""
        labels = [
            None if self._script_fits(text) else f"script {language_evidence(text).script}" for text in texts
        ]
        if self._identifier is None:
            return labels
        for i, found in enumerate(self._identifier.identify(texts)):
            if self._is_other(found.code):
                labels[i] = f"{found.code} ({language_name(found.code)})"
        return labels

    def _is_other(self, code: str) -> bool:
        """Say whether a line identified as ``code`` is not in the language."""
        return code == self._pivot if self._pivot is not None else not is_same_language(self.lang, code)

    def _script_fits(self, text: str) -> bool:
        return not self._scripts or language_evidence(text).script in self._scripts


def _is_long(text: str) -> bool:
    return count_letters(text) >= MIN_LETTERS


@cache
def is_same_language(lang: str, code: str) -> bool:
    """Say whether two codes are the same language or so close that confusing them is no error."""
    if lang == code:
        return True
    script = Language.get(lang).maximize().script
    other = Language.get(code).maximize().script
    if script == other:
        return tag_distance(lang, code) < _SAME_LANGUAGE
    return {lang, code} <= {"bs", "hr", "sr"}
