"""What a kind of fault or of input did."""

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

    def add(self, fault: str | None) -> None:
        """Count one try; ``fault`` says what it broke."""
        self.tried += 1
        if fault is None:
            self.survived += 1
        else:
            self.lost.append(fault)
