"""What every engine is: steps that translate texts, one after the other."""

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
    """Share of its words that the engine marked as unknown to it, 0 to 1."""
    failed: Failure = ""
    """What kept it from being translated."""
    cut: bool = False
    """Whether the source was longer than the engine takes, and its end is missing."""


class Step(Protocol):
    """From one language to another."""

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """A translation of each text, in the order given.

        There is at least one text; each is one line and not empty.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What makes its translations what they are: at least ``tool`` and ``name`` (its mode or model)."""
        ...


@dataclass(frozen=True)
class Chain:
    """Steps applied in their order: ``en>tr>az`` is two."""

    steps: tuple[Step, ...]

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """A translation of each text by all steps; equal texts are translated once.

        The share of unknown words is the largest of the steps'.
        """
        found = {text: Translated(text) for text in texts}
        for step in self.steps:
            going = [text for text, so_far in found.items() if so_far.text]
            if not going:
                break  # an engine takes no empty list
            results = step.translate([found[text].text for text in going])
            for text, result in zip(going, results, strict=True):
                before = found[text]
                found[text] = replace(
                    result, unknown=max(before.unknown, result.unknown), cut=before.cut or result.cut
                )
        return [found[text] for text in texts]

    def describe(self) -> list[dict[str, Any]]:
        """Each step's description."""
        return [step.describe() for step in self.steps]


def credit(steps: Sequence[dict[str, Any]]) -> str:
    """What cards call a chain of described steps: ``apertium 3.8.3 (eng-tur, tur-aze)``."""
    tools = ", ".join(dict.fromkeys(str(step["tool"]) for step in steps))
    names = ", ".join(dict.fromkeys(str(step["name"]) for step in steps))
    return f"{tools} ({names})"
