"""Machine translation of training text: steps of engines in chains, and filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol


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
