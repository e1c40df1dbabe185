"""Filter of translations, and the reasons for dropping them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modenc.data.language_check import LanguageCheck
from modenc.data.text import count_letters, sentence_key
from modenc.langid import get_identifier
from modenc.translation.steps import Translation

Pair = tuple[str, Translation]
"""A text and its translation."""

Similarity = Callable[[Sequence[str], Sequence[str]], npt.NDArray[np.float32]]
"""Computes the cosines [n] of texts [n] and their translations [n]."""

REASONS = {
    "crashed": "crashed the engine",
    "timed_out": "took too long",
    "empty": "came out empty",
    "unknown_words": "with unknown words",
    "copy": "copies of the source",
    "length": "too long or too short",
    "wrong_script": "in another script",
    "wrong_language": "in another language",
    "dissimilar": "too unlike the source",
}
"""Reasons to drop a row, in the order in which they are checked, with their names in summaries."""

# Lengths below this count as this: the ratio of short texts varies more.
_FEW_CHARACTERS = 20


@dataclass(frozen=True)
class FilterSettings:
    """Conditions for keeping a translation."""

    max_unknown: float = 0.25
    """Largest share of words that the engine marked as unknown."""
    max_length_ratio: float = 4.0
    """Largest ratio of the longer side's characters to the shorter side's."""
    check_language: bool = True
    """Drop translations in a script or language other than the target's."""
    min_similarity: float | None = None
    """Smallest cosine of the vectors of text and translation; None: no vectors are computed."""


class PairFilter:
    """Filter that checks each translation separately.

    The code of the target may have a script (``ace_Arab``). ``similarity`` is for ``min_similarity``.
    """

    def __init__(
        self, settings: FilterSettings, source: str, target: str, similarity: Similarity | None = None
    ) -> None:
        self._settings = settings
        self._similarity = similarity
        self._language_check = (
            LanguageCheck(target, get_identifier(None), source) if settings.check_language else None
        )

    def check(self, pairs: Sequence[Pair]) -> tuple[list[str], list[float | None]]:
        """Return the reason to drop each pair, empty for pairs to keep, and each pair's cosine, if computed.

        A pair with an empty text is kept, since there is nothing to translate.
        """
        reasons = [self._plain_reason(text, result) for text, result in pairs]
        good = [i for i, (text, _) in enumerate(pairs) if text and not reasons[i]]
        if self._language_check is not None:
            # Texts without letters, such as numbers, are in no language.
            lettered = [i for i in good if count_letters(pairs[i][0])]
            verdicts = self._language_check.verdicts([pairs[i][1].text for i in lettered])
            for i, verdict in zip(lettered, verdicts, strict=True):
                reasons[i] = verdict
        cosines: list[float | None] = [None] * len(pairs)
        good = [i for i in good if not reasons[i]]
        if self._similarity is not None and good:
            found = self._similarity([pairs[i][0] for i in good], [pairs[i][1].text for i in good])
            for i, cosine in zip(good, found.tolist(), strict=True):
                cosines[i] = round(cosine, 4)
                if cosine < (self._settings.min_similarity or 0.0):
                    reasons[i] = "dissimilar"
        return reasons, cosines

    def _plain_reason(self, text: str, result: Translation) -> str:
        if not text:
            return ""
        if result.failed:
            return result.failed
        if not result.text:
            return "empty"
        if result.unknown > self._settings.max_unknown:
            return "unknown_words"
        # A text without letters and its translation may be equal.
        if count_letters(text) and sentence_key(text) == sentence_key(result.text):
            return "copy"
        shorter, longer = sorted((len(text), len(result.text)))
        if longer > self._settings.max_length_ratio * max(shorter, _FEW_CHARACTERS):
            return "length"
        return ""


def first_reason(reasons: Sequence[str]) -> str:
    """Choose the reason that is checked first among those of a row's columns; empty if there is none."""
    return min(filter(None, reasons), key=list(REASONS).index, default="")


def make_similarity(
    encode: Callable[[list[str], str], npt.NDArray[np.float32]], source: str, target: str
) -> Similarity:
    """Make a function that computes the cosines of texts in ``source`` and translations into ``target``.

    ``encode`` computes vectors [n, hidden] of texts [n] in a language.
    """

    def cosines(texts: Sequence[str], translations: Sequence[str]) -> npt.NDArray[np.float32]:
        sides = [encode(list(texts), source), encode(list(translations), target)]
        left, right = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
        products: npt.NDArray[np.float32] = (left * right).sum(axis=1)
        return products

    return cosines
