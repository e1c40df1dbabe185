"""Machine translation of training text: steps of engines in chains, filters, and translation of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol


@dataclass(frozen=True)
class Translation:
    """Translation of one text."""

    text: str
    """The translation; empty if there is none."""
    unknown: float = 0.0
    """Share of words that the engine marked as unknown, 0 to 1."""
    failed: bool = False
    """Whether the engine failed on this text."""
    cut: bool = False
    """Whether the source was truncated to the model's maximum length."""


class Step(Protocol):
    """Translation from one language to another by one engine."""

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each of one or more texts, in order; a text is one line and not empty."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return all that determines the translations: at least ``tool`` and ``name`` (a mode or model)."""
        ...


@dataclass(frozen=True)
class Chain:
    """Steps applied in order, such as two for ``en>tr>az``."""

    steps: tuple[Step, ...]

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate each text by all steps; equal texts are translated once.

        The share of unknown words is the largest of all steps.
        """
        found = {text: Translation(text) for text in texts}
        for step in self.steps:
            remaining = [text for text, so_far in found.items() if so_far.text]
            if not remaining:
                break
            results = step.translate([found[text].text for text in remaining])
            for text, result in zip(remaining, results, strict=True):
                before = found[text]
                found[text] = replace(
                    result, unknown=max(before.unknown, result.unknown), cut=before.cut or result.cut
                )
        return [found[text] for text in texts]

    def describe(self) -> list[dict[str, Any]]:
        """Describe each step."""
        return [step.describe() for step in self.steps]


def credit(steps: Sequence[dict[str, Any]]) -> str:
    """Name a chain for cards, from its steps' descriptions: ``apertium 3.8.3 (eng-tur, tur-aze)``."""
    tools, names = (", ".join(dict.fromkeys(str(step[key]) for step in steps)) for key in ("tool", "name"))
    return f"{tools} ({names})"
