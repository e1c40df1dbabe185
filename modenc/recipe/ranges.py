"""Which numbers a setting can be: types of numbers that know their range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Range:
    """The numbers that a setting can be; written into its type, as in ``Annotated[int, at_least(2)]``."""

    words: str
    holds: Callable[[float], bool]

    def error(self, value: float) -> str | None:
        """Why ``value`` is not among them; None where it is."""
        return None if self.holds(value) else f"expected {self.words}, found {value}"


def at_least(least: int) -> Range:
    """The numbers from ``least`` on."""
    return Range(f"{least} or more", lambda value: value >= least)


SEED = Range("a number from 0 to 4294967295", lambda value: 0 <= value < 2**32)

NonNegativeInt = Annotated[int, at_least(0)]
PositiveInt = Annotated[int, at_least(1)]
Tokens = Annotated[int, at_least(8)]
"""A length: special tokens take some of it."""
NonNegativeFloat = Annotated[float, at_least(0)]
PositiveFloat = Annotated[float, Range("a number above 0", lambda value: value > 0)]
Share = Annotated[float, Range("a share between 0 and 1", lambda value: 0 <= value <= 1)]
ShareAbove0 = Annotated[float, Range("a share above 0, at most 1", lambda value: 0 < value <= 1)]
ShareBelow1 = Annotated[float, Range("a share of at least 0 and below 1", lambda value: 0 <= value < 1)]
