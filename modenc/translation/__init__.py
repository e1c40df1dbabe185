"""Machine translation of training text: steps of engines in chains, and a filter of translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from modenc.data.filters import LanguageCheck
from modenc.data.text import count_letters, sentence_key
from modenc.languages import normalize_code

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


@dataclass(frozen=True)
class Translation:
    """Translation of one text."""

    text: str
    """The translation; empty if there is none."""
    unknown: float = 0.0
    """Share of words that the engine marked as unknown, 0 to 1."""
    failed: bool = False
    """Whether the engine failed on this text, or the text is too long for it."""


class Step(Protocol):
    """Translation from one language to another by one engine."""

    name: str
    """The engine's mode or model."""

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each of one or more texts, in order; a text is one line and not empty."""
        ...


@dataclass(frozen=True)
class Chain:
    """Steps applied in order, such as two for ``en>tr>az``."""

    tool: str
    """The engine."""
    steps: tuple[Step, ...]

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each text by all steps; equal texts are translated once.

        The share of unknown words is the largest of all steps.
        """
        found = {text: Translation(text) for text in texts}
        for step in self.steps:
            remaining = [text for text, so_far in found.items() if so_far.text]
            results = step.translate([found[text].text for text in remaining]) if remaining else []
            for text, result in zip(remaining, results, strict=True):
                found[text] = replace(result, unknown=max(found[text].unknown, result.unknown))
        return [found[text] for text in texts]

    def __str__(self) -> str:
        """Name the chain for cards: ``apertium (eng-tur, tur-aze)``."""
        return f"{self.tool} ({', '.join(dict.fromkeys(step.name for step in self.steps))})"


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
            found = self._language_check.reasons([results[i].text for i in lettered])
            for i, reason in zip(lettered, found, strict=True):
                reasons[i] = reason
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
