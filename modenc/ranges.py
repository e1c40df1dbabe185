"""Ranges of numeric settings, written into their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Range:
    """Range of a numeric setting, written into its type, as in ``Annotated[int, at_least(2)]``."""

    words: str
    holds: Callable[[float], bool]

    def error(self, value: float) -> str | None:
        """Return the error of a ``value`` outside the range; None inside."""
        return None if self.holds(value) else f"expected {self.words}, found {value}"


def at_least(least: int) -> Range:
    """Make the range of all numbers from ``least`` on."""
    return Range(f"{least} or more", lambda value: value >= least)


SEED = Range("a number from 0 to 4294967295", lambda value: 0 <= value < 2**32)

NonNegativeInt = Annotated[int, at_least(0)]
PositiveInt = Annotated[int, at_least(1)]
Tokens = Annotated[int, at_least(8)]
"""Length in tokens, special tokens included."""
NonNegativeFloat = Annotated[float, at_least(0)]
PositiveFloat = Annotated[float, Range("a number above 0", lambda value: value > 0)]
Share = Annotated[float, Range("a share between 0 and 1", lambda value: 0 <= value <= 1)]
ShareAbove0 = Annotated[float, Range("a share above 0, at most 1", lambda value: 0 < value <= 1)]
ShareBelow1 = Annotated[float, Range("a share of at least 0 and below 1", lambda value: 0 <= value < 1)]
