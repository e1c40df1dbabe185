"""Lines of Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence


def row(cells: Sequence[str]) -> str:
    """Format a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def head(headings: Sequence[str]) -> list[str]:
    """Format a table's first two lines; all columns but the first have numbers."""
    return [row(headings), row(["---", *["---:"] * (len(headings) - 1)])]
