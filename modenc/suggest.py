"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 60
"""Longest name that is compared: difflib's time grows with the square of the length."""


def closest_match(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the closest match for ``name`` in ``names``; None below a similarity of ``cutoff`` (0 to 1)."""
    if len(name) > LONGEST:
        return None
    by_plain = {_plain(candidate): candidate for candidate in names}
    matches = get_close_matches(_plain(name), by_plain, n=1, cutoff=cutoff)
    return by_plain[matches[0]] if matches else None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
