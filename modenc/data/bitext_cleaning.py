"""Cleaning a bitext without a recipe: read it, and drop duplicates and pairs in the wrong languages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from modenc.data.filters import FilterReport, RowShape, TextFilter
from modenc.data.formats import Row, read_file
from modenc.data.joining import PARALLEL_ROLES
from modenc.data.language_check import Filters
from modenc.data.pairs import ParallelRow
from modenc.data.sources import read_rows
from modenc.errors import DataError
from modenc.langid import LanguageIdentifier
from modenc.recipe.settings import Source


def read_bitext(path: Path, lang: str, pivot: str, columns: dict[str, str]) -> Iterator[Row]:
    """Read rows with the roles ``pivot`` and ``text``, by default in columns called by the codes.

    ``columns`` maps roles to other columns.

    Raises:
        DataError: the file cannot be read, or has no such columns.
    """
    named = {"pivot": columns.get("pivot", pivot), "text": columns.get("text", lang)}
    # A file of no rows has the columns, or is JSONL.
    found = next(read_file(path, named.values()), dict.fromkeys(named.values(), ""))
    for role, column in named.items():
        if column not in found:
            raise DataError(
                f"{path}: expected a column {column!r} with the {role}, found "
                f"{', '.join(map(repr, found))}; name the right one with --{role}-column"
            )
    # The file is given as root, since braces in a source's path are placeholders.
    return read_rows(Source(path="", columns=named), path.resolve(), lang, pivot, roles=PARALLEL_ROLES)


def filter_bitext(
    rows: Iterator[Row], lang: str, pivot: str, identifier: LanguageIdentifier | None, max_chars: int
) -> tuple[list[ParallelRow], tuple[FilterReport, FilterReport]]:
    """Drop duplicates, pairs that are too long, and pairs in wrong languages (MuSR, section 4.1).

    If the identifier does not know ``lang``, the text is only checked not to be in ``pivot``.

    Returns:
        The pairs, and counts of rows: those of the check of the text, then of the pivot.
    """
    filters = Filters(min_chars=1, max_chars=max_chars)
    text_filter = TextFilter(filters, lang, identifier, pivot)
    pivot_filter = TextFilter(replace(filters, deduplicate=False), pivot, identifier, lang)
    rows = text_filter.select(rows, RowShape(required=PARALLEL_ROLES, in_language=("text",)))
    rows = pivot_filter.select(rows, RowShape(required=PARALLEL_ROLES, in_language=("pivot",)))
    pairs = [ParallelRow(row["pivot"], row["text"]) for row in rows]
    return pairs, (text_filter.report, pivot_filter.report)
