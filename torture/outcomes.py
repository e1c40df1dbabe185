"""Counts of one torture test: what was tried, survived and lost."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """A row of the table of `make torture`."""

    name: str
    tried: int = 0
    survived: int = 0
    lost: list[str] = field(default_factory=list)
    """What was lost, or broke a promise: one line each."""
    note: str = ""

    def add(self, failure: str | None) -> None:
        """Count one try; ``failure`` says what it broke."""
        self.tried += 1
        if failure is None:
            self.survived += 1
        else:
            self.lost.append(failure)
