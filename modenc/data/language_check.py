"""Whether a line, and a corpus as a whole, is in the language it is said to be in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache

from langcodes import Language, tag_distance

from modenc.data.text import count_letters
from modenc.errors import DataError
from modenc.langid import LanguageIdentifier
from modenc.languages import dominant_script, expected_scripts, language_name
from modenc.recipe.settings import DataSettings

# An identifier that may choose among all languages it knows is wrong in 57 of 14,000 lines of ten languages
# with 20 letters and more, and with this confidence in 2.
SURE = 0.9
MIN_LETTERS = 20

# Fewer lines whose language can be identified say nothing about a corpus.
_MIN_DECIDED = 20

# CLDR's distance: Bokmål to Nynorsk 20, Malay to Indonesian 14, Croatian to Serbian 8, written in
# the same script; Azerbaijani to Turkish and Kazakh to Russian are above 30.
_SAME_LANGUAGE = 25


class Verdict(Enum):
    """What a line was found to be."""

    OK = "ok"
    WRONG_SCRIPT = "wrong_script"
    WRONG_LANGUAGE = "wrong_language"


@dataclass(frozen=True)
class Filters:
    """Which rows are kept; by default those that recipes keep by default."""

    min_chars: int = 5
    max_chars: int = 1000
    deduplicate: bool = True
    check_script: bool = True
    check_language: bool = True
    min_language_share: float = 0.5
    """Less of a corpus in its language is refused."""

    @classmethod
    def of(cls, settings: DataSettings) -> Filters:
        """The filters of a recipe's ``data``."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})


DEFAULT_FILTERS = Filters()


class LanguageCheck:
    """Compares lines with the script and the language they should be in.

    Args:
        lang: the language.
        identifier: what tells languages.
        pivot: of translations, the other side's language; a language that the identifier has never seen is
            then at least distinguished from it (MuSR, section 4.1).
        filters: which checks.
    """

    def __init__(
        self,
        lang: str,
        identifier: LanguageIdentifier | None,
        pivot: str | None = None,
        filters: Filters = DEFAULT_FILTERS,
    ) -> None:
        self.lang = lang
        self.min_share = filters.min_language_share
        self._scripts = expected_scripts(lang) if filters.check_script else frozenset()
        known: Collection[str] | None = getattr(identifier, "languages_known", None)
        # An identifier that has never seen the language calls every line of it something else.
        seen = known is None or lang in known
        self._pivot = None if seen else pivot
        usable = filters.check_language and (seen or pivot is not None)
        self._identifier = identifier if usable else None

    def verdicts(self, texts: Sequence[str]) -> list[Verdict]:
        """A verdict for each text; without enough letters or confidence a text is given the benefit."""
        verdicts = [Verdict.OK if self._script_fits(text) else Verdict.WRONG_SCRIPT for text in texts]
        if self._identifier is None:
            return verdicts
        long = [i for i, text in enumerate(texts) if verdicts[i] is Verdict.OK and _is_long(text)]
        for i, found in zip(long, self._identifier.identify([texts[i] for i in long]), strict=True):
            if found.confidence >= SURE and self._is_other(found.code):
                verdicts[i] = Verdict.WRONG_LANGUAGE
        return verdicts

    def check_share(self, sample: Sequence[str]) -> None:
        """Refuse a corpus of which too small a share is in the language.

        Args:
            sample: normalized lines, before any was dropped for its script or language.

        Raises:
            DataError: the share is below ``min_language_share``; the message has the numbers.
        """
        long = [text for text in sample if _is_long(text)]
        if len(long) < _MIN_DECIDED:
            return
        looks_like = self._looks_like(long)
        share = sum(label is None for label in looks_like) / len(long)
        if share >= self.min_share:
            return
        label, count = Counter(filter(None, looks_like)).most_common(1)[0]
        example = long[looks_like.index(label)]
        raise DataError(
            f"{self.lang}: {count / len(long):.0%} of {len(long):,} sampled lines look like {label}, e.g. "
            f"{example[:80]!r}; expected at least {self.min_share:.0%} "
            f"{language_name(self.lang)}, found {share:.0%}. Check the sources and their columns; if the "
            "texts are right, lower data.min_language_share or set data.check_language = false "
            "(or data.check_script)"
        )

    def _looks_like(self, texts: Sequence[str]) -> list[str | None]:
        """What each text looks like where that is not the language expected; else None."""
        labels = [None if self._script_fits(text) else f"script {dominant_script(text)}" for text in texts]
        if self._identifier is None:
            return labels
        for i, found in enumerate(self._identifier.identify(texts)):
            if self._is_other(found.code):
                labels[i] = f"{found.code} ({language_name(found.code)})"
        return labels

    def _is_other(self, code: str) -> bool:
        """Whether a line identified as ``code`` is not in the language."""
        return code == self._pivot if self._pivot is not None else not is_same_language(self.lang, code)

    def _script_fits(self, text: str) -> bool:
        return not self._scripts or dominant_script(text) in self._scripts


def _is_long(text: str) -> bool:
    return count_letters(text) >= MIN_LETTERS


@cache
def is_same_language(lang: str, code: str) -> bool:
    """Whether readers of one read the other, so that taking one for the other is no fault."""
    if lang == code:
        return True
    script = Language.get(lang).maximize().script
    other = Language.get(code).maximize().script
    if script == other:
        return tag_distance(lang, code) < _SAME_LANGUAGE
    return {lang, code} <= {"bs", "hr", "sr"}
