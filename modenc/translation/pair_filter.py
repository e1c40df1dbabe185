"""Filter of translations, and the reasons for dropping them."""

from __future__ import annotations

from collections.abc import Sequence

from modenc.data.filters import LanguageCheck
from modenc.data.text import count_letters, sentence_key
from modenc.languages import normalize_code
from modenc.translation import Translation

REASONS = {
    "failed": "that the engine cannot translate",
    "empty": "came out empty",
    "unknown_words": "with unknown words",
    "copy": "copies of the source",
    "length": "too long or too short",
    "wrong_script": "in another script",
    "wrong_language": "in another language",
}
"""Reasons to drop a row, in the order in which they are checked, with their names in summaries."""

# Lengths below this count as this: the ratio of short texts varies more.
_FEW_CHARACTERS = 20
_MOST_LENGTH_RATIO = 4.0


class PairFilter:
    """Filter that checks each translation separately.

    Args:
        source: code of the texts' language.
        target: code of the translations' language; it may have a script (``ace_Arab``).
        max_unknown: largest share of words that the engine marked as unknown.
        check_language: drop translations in a script or language other than the target's.
    """

    def __init__(
        self, source: str, target: str, max_unknown: float = 0.25, check_language: bool = True
    ) -> None:
        self._max_unknown = max_unknown
        self._language_check = LanguageCheck(target, normalize_code(source)) if check_language else None

    def check(self, texts: Sequence[str], results: Sequence[Translation]) -> list[str]:
        """Return the reason to drop each of the texts' translations, empty for those to keep.

        A pair with an empty text is kept, since there is nothing to translate.
        """
        reasons = [self._plain_reason(text, result) for text, result in zip(texts, results, strict=True)]
        if self._language_check is not None:
            # Texts without letters, such as numbers, are in no language.
            lettered = [i for i, text in enumerate(texts) if count_letters(text) and not reasons[i]]
            verdicts = self._language_check.verdicts([results[i].text for i in lettered])
            for i, verdict in zip(lettered, verdicts, strict=True):
                reasons[i] = verdict
        return reasons

    def _plain_reason(self, text: str, result: Translation) -> str:
        if not text:
            return ""
        if result.failed:
            return "failed"
        if not result.text:
            return "empty"
        if result.unknown > self._max_unknown:
            return "unknown_words"
        # A text without letters and its translation may be equal.
        if count_letters(text) and sentence_key(text) == sentence_key(result.text):
            return "copy"
        shorter, longer = sorted((len(text), len(result.text)))
        if longer > _MOST_LENGTH_RATIO * max(shorter, _FEW_CHARACTERS):
            return "length"
        return ""


def first_reason(reasons: Sequence[str]) -> str:
    """Choose the reason that is checked first among those of a row's columns; empty if there is none."""
    return min(filter(None, reasons), key=list(REASONS).index, default="")
