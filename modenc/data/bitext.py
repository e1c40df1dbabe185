"""A bitext by itself, outside any recipe: read, and rid of what is plainly no translation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from modenc.data.files import Row, read_file
from modenc.data.filters import FilterReport, RowShape, TextFilter
from modenc.data.language_check import Filters
from modenc.data.pairs import ParallelRow
from modenc.data.readers import read_rows
from modenc.errors import DataError
from modenc.langid import LanguageIdentifier
from modenc.recipe.settings import Source

_ROLES = ("pivot", "text")


def read_bitext(path: Path, lang: str, pivot: str, columns: dict[str, str]) -> Iterator[Row]:
    """Rows with the roles ``pivot`` and ``text``; ``columns`` names them where they are not the codes.

    Raises:
        DataError: the file cannot be read, or has no such columns.
    """
    named = {"pivot": columns.get("pivot", pivot), "text": columns.get("text", lang)}
    # An empty file has no columns to be wrong.
    found = next(read_file(path), dict.fromkeys(named.values(), ""))
    for role, column in named.items():
        if column not in found:
            raise DataError(
                f"{path}: expected a column {column!r} with the {role}, found "
                f"{', '.join(map(repr, found))}; name the right one with --{role}-column"
            )
    # The file is the root, since braces in a source's own path are placeholders.
    return read_rows(Source(path="", columns=named), path.resolve(), lang, pivot, roles=_ROLES)


def filter_bitext(
    rows: Iterator[Row], lang: str, pivot: str, identifier: LanguageIdentifier | None, max_chars: int
) -> tuple[list[ParallelRow], tuple[FilterReport, FilterReport]]:
    """Pairs without duplicates, of usable length, each side in its language (MuSR, section 4.1).

    Args:
        rows: with the roles ``pivot`` and ``text``.
        lang: the text's language.
        pivot: the other side's.
        identifier: identifies them; where it has never seen ``lang``, that side is only distinguished from
            the pivot's.
        max_chars: the longest side that is kept.

    Returns:
        The pairs, and what became of the rows for the text's side and then for the pivot's.
    """
    filters = Filters(min_chars=1, max_chars=max_chars)
    own = TextFilter(filters, lang, identifier, pivot)
    other = TextFilter(replace(filters, deduplicate=False), pivot, identifier, lang)
    kept = own.select(rows, RowShape(required=_ROLES, own=("text",)))
    kept = other.select(kept, RowShape(required=_ROLES, own=("pivot",)))
    pairs = [ParallelRow(row["pivot"], row["text"]) for row in kept]
    return pairs, (own.report, other.report)
