"""Translation steps, one for each pair of languages, and chains of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

Failure = Literal["", "crashed", "timed_out"]


@dataclass(frozen=True)
class Translated:
    """One text's translation."""

    text: str
    """Empty where there is none."""
    unknown: float = 0.0
    """Share of its words that the engine marked as unknown, 0 to 1."""
    failed: Failure = ""
    """Why there is no translation."""
    cut: bool = False
    """Whether the source was longer than the engine takes, so that its end is missing."""


class Step(Protocol):
    """Translation from one language to another by one engine."""

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """A translation of each text, in order; there is at least one text, each one line and not empty."""
        ...

    def describe(self) -> dict[str, Any]:
        """What determines the translations: at least ``tool`` and ``name`` (its mode or model)."""
        ...


@dataclass(frozen=True)
class Chain:
    """Steps applied in order: ``en>tr>az`` is two."""

    steps: tuple[Step, ...]

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """A translation of each text by all steps; equal texts are translated once.

        The share of unknown words is the largest of all steps.
        """
        found = {text: Translated(text) for text in texts}
        for step in self.steps:
            left = [text for text, so_far in found.items() if so_far.text]
            if not left:
                break
            results = step.translate([found[text].text for text in left])
            for text, result in zip(left, results, strict=True):
                before = found[text]
                found[text] = replace(
                    result, unknown=max(before.unknown, result.unknown), cut=before.cut or result.cut
                )
        return [found[text] for text in texts]

    def describe(self) -> list[dict[str, Any]]:
        """Each step's description."""
        return [step.describe() for step in self.steps]


def credit(steps: Sequence[dict[str, Any]]) -> str:
    """A chain of described steps as cards name it: ``apertium 3.8.3 (eng-tur, tur-aze)``."""
    tools, names = (", ".join(dict.fromkeys(str(step[key]) for step in steps)) for key in ("tool", "name"))
    return f"{tools} ({names})"
