"""Collecting every fault of a recipe, each with the place it is at, before raising once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from modenc.errors import RecipeError

Place = tuple[str | int, ...]
"""Where a value is: keys and list positions, as in ``("data", "text", 0, "path")``."""


class RecipeFaults(RecipeError):
    """A recipe has faults; ``faults`` holds one line for each."""

    def __init__(self, recipe: str, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        super().__init__("\n".join([f"recipe {recipe!r} has {count}:", *(f"  {line}" for line in faults)]))


@dataclass
class Faults:
    """The faults found so far, in order, and the values that they make unfit for further checks."""

    found: list[tuple[Place, str]] = field(default_factory=list)
    unfit: list[Place] = field(default_factory=list)

    def add(self, path: Place, message: str, meant: str | None = None) -> None:
        """Note a fault; ``meant`` is the key that a misspelt one probably stands for."""
        self.found.append((path, message))
        self.unfit.append(path)
        if meant is not None:
            self.unfit.append((*path[:-1], meant))

    def concern(self, path: Place) -> bool:
        """Whether the value at ``path``, or a part of it, is already known to be wrong."""
        return any(unfit[: len(path)] == path or path[: len(unfit)] == unfit for unfit in self.unfit)


def dotted(path: Place) -> str:
    """``("data", "text", 0)`` as ``data.text[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of ``names`` that ``name`` most probably stands for, if any is near."""
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    matches = get_close_matches(name.lower().replace("-", "_"), by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[matches[0]] if matches else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or the names there are when none is near."""
    known = list(names)
    match = nearest(name, known)
    if match is not None:
        return f"; did you mean {match!r}?"
    return f"; known: {', '.join(known)}" if known else ""
