"""Joins of the rows of two sources, line by line or on a key, and of the rows of one on a group.

Sources are resolved (``resolve_source``); relative paths start from ``root``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from modenc.data.formats import Row
from modenc.data.sources import (
    ResolvedSource,
    Source,
    describe_source,
    read_raw_rows,
    read_rows,
    select_rows,
)
from modenc.errors import DataError

ROW_CONDITIONS = ("where", "where_not", "at_least", "at_most")


def joined_by_line(source: Source) -> bool:
    """Check whether the files of a joined, resolved source are both text, joined line by line, on no key."""
    names = [str(name).lower() for name in (source.path, source.pivot_path)]
    return all(name.removesuffix(".gz").removesuffix(".zst").endswith(".txt") for name in names)


def grouped_rows(source: Source, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[Row, Row]]:
    """Read pairs of rows with the same value in the column ``source.group``, with ``roles``, in their order.

    The last of an odd number is left out, and so are rows without a value in the column or in a role.

    Raises:
        DataError: the source cannot be read, or no group has two rows.
    """
    unpaired: dict[str, Row] = {}
    rows = pairs = 0
    for row in read_rows(source, root, (*roles, source.group)):
        rows += 1
        if all(row.get(name) for name in (source.group, *roles)):
            first = unpaired.pop(row[source.group], None)
            if first is None:
                unpaired[row[source.group]] = row
            else:
                pairs += 1
                yield first, row
    if not pairs:
        raise DataError(
            f"{describe_source(source)}: expected rows with the same {source.group!r}, found none among "
            f"{rows:,}; name the column that rows of one meaning share with group = ..."
        )


def both_sources(source: ResolvedSource) -> tuple[Source, Source]:
    """Return the two files of a joined source: the language's, and the pivot's.

    Filters choose rows of the language's. The pivot's text is in the column of the role ``pivot``, if that is
    named.
    """
    columns = {role: name for role, name in source.columns.items() if role != "pivot"}
    own, pivot_columns = replace(source, columns=columns), dict(source.pivot_columns)
    if "pivot" in pivot_columns:
        pivot_columns["text"] = pivot_columns.pop("pivot")
    filters: dict[str, Any] = {key: {} for key in ROW_CONDITIONS}
    other = replace(source, path=source.pivot_path, pivot_path=None, columns=pivot_columns, **filters)
    return own, replace(other, key=source.pivot_key)


def joined_rows(source: ResolvedSource, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[Row, Row]]:
    """Read pairs of a row of ``path`` and one of ``pivot_path``, both with ``roles``.

    Two text files are joined line by line, two tables on ``key``, in the order of the language's.

    Raises:
        DataError: a source cannot be read, two text files have different numbers of lines, or two tables have
            no key in common.
    """
    return _zip_lines(source, root) if joined_by_line(source) else _join(source, root, roles)


def _zip_lines(source: ResolvedSource, root: Path) -> Iterator[tuple[Row, Row]]:
    """Pair the rows of two text files line by line; filters choose lines of the language's."""
    mine, other = both_sources(source)
    sides = [read_raw_rows(side, root, ("text",)) for side in (mine, other)]
    for number, (row, pivot_row) in enumerate(zip_longest(*sides), start=1):
        if row is None or pivot_row is None:
            rest = number + sum(1 for _ in sides[1 if row is None else 0])
            counts = (number - 1, rest) if row is None else (rest, number - 1)
            raise DataError(
                f"expected as many lines in {describe_source(source)} as in {describe_source(other)}, "
                f"found {counts[0]:,} and {counts[1]:,}; align the files line by line"
            )
        # Filtered in pairs: lines left out of one file would shift it against the other.
        yield from zip(
            select_rows([row], mine, ("text",)), select_rows([pivot_row], other, ("text",)), strict=False
        )


def _join(source: ResolvedSource, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[Row, Row]]:
    mine, other = both_sources(source)
    pivots = dict(_by_key(other, root, roles))
    first, shared = "no rows", False
    for number, (value, row) in enumerate(_by_key(mine, root, roles)):
        first = first if number else value
        if value in pivots:
            shared = True
            yield row, pivots[value]
    if not shared:
        heads = f"{first!r} … and {next(iter(pivots), 'no rows')!r} …"
        raise DataError(
            f"{describe_source(source)} and {describe_source(other)}: expected rows with the same "
            f"{source.key!r}, found none in common ({heads}); name the column with key = ..."
        )


def _by_key(source: Source, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[str, Row]]:
    """Yield a source's rows with their keys; DataError if two rows have the same."""
    seen: set[str] = set()
    # A column that has a role is found under it.
    column = next((role for role, name in source.columns.items() if name == source.key), source.key)
    for row in read_rows(source, root, (*roles, source.key)):
        key = row[column]
        if key in seen:
            raise DataError(
                f"{describe_source(source)}: expected each {source.key!r} once, found {key!r} again; "
                "name a column without repeats with key = ..."
            )
        seen.add(key)
        yield key, row
