"""Lines of Markdown tables, and the place of a table within a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def row(cells: Sequence[str]) -> str:
    """Format a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def head(headings: Sequence[str]) -> list[str]:
    """Format a table's first two lines; all columns but the first have numbers."""
    return [row(headings), row(["---", *["---:"] * (len(headings) - 1)])]


def write_table(page: Path, table: str, begin: str, end: str) -> None:
    """Put a table between the two markers of a page.

    Raises:
        SystemExit: the page cannot be read, or does not have both.
    """
    try:
        before, found_begin, rest = page.read_text(encoding="utf-8").partition(begin)
    except OSError as error:
        raise SystemExit(f"{page}: expected a page, found none to read ({error.strerror})") from error
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise SystemExit(f"{page}: expected the lines {begin!r} and {end!r} around the table, found none")
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
