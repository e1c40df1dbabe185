"""Rows of two sources put together: line by line, or on a key.

Sources are resolved (``resolve_source``) and without a limit; relative paths start from ``root``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from modenc.data.files import Row, format_of
from modenc.data.readers import describe_source, raw_rows, rows_of
from modenc.errors import DataError
from modenc.recipe.settings import Source

PARALLEL_ROLES = ("pivot", "text")
TRIPLET_ROLES = ("anchor", "positive")
CROSS_ROLES = ("text", "pivot")
SCORED_ROLES = ("sentence1", "sentence2", "score")
FILTERS = ("where", "where_not", "at_least", "at_most")


def read_parallel(source: Source, root: Path) -> Iterator[Row]:
    """Rows with ``pivot`` and ``text``, from one source or from one in each language.

    Two text files (``path``, ``pivot_path``) belong together line by line, two tables on ``key``.

    Raises:
        DataError: a source cannot be read, or two text files have different numbers of lines.
    """
    if source.pivot_path is None:
        return rows_of(source, root, PARALLEL_ROLES)
    if {format_of(Path(path or "")) for path in (source.path, source.pivot_path)} == {".txt"}:
        sides = _zip_lines(source, root)
    else:
        sides = _join(source, root, ("text",))
    return ({"text": own["text"], "pivot": other["text"]} for own, other in sides)


def read_paraphrases(source: Source, root: Path) -> Iterator[Row]:
    """Rows with ``anchor``, ``positive`` and perhaps ``negative``.

    With ``group``, rows have ``text`` alone, and those of one group are paired, see :class:`Pairing`.

    Raises:
        DataError: a source cannot be read, or no group has two rows.
    """
    if not source.group:
        return rows_of(source, root, TRIPLET_ROLES)
    pairs = _grouped(source, root, ("text",))
    return ({"anchor": first["text"], "positive": second["text"]} for first, second in pairs)


def read_cross_paraphrases(source: Source, root: Path) -> Iterator[Row]:
    """Rows with ``text``, ``pivot`` and ``pivot_negative`` (empty where there is none).

    With ``pivot_path``, both files hold triplets of the same items: an anchor goes with the pivot's
    positive and negative, and a positive with the pivot's anchor. With ``group``, a row holds a text and its
    counterpart in the pivot, and each text goes with the counterpart of the other of its pair. Without
    either, the source has the roles ``text`` and ``pivot`` itself.

    Raises:
        DataError: a source cannot be read, the two have no key in common, or no group has two rows.
    """
    if source.group:
        for first, second in _grouped(source, root, CROSS_ROLES):
            yield {"text": first["text"], "pivot": second["pivot"], "pivot_negative": ""}
            yield {"text": second["text"], "pivot": first["pivot"], "pivot_negative": ""}
    elif source.pivot_path is None:
        yield from rows_of(source, root, CROSS_ROLES)
    else:
        for row, pivot_row in _join(source, root, TRIPLET_ROLES):
            negative = pivot_row.get("negative", "")
            yield {"text": row["anchor"], "pivot": pivot_row["positive"], "pivot_negative": negative}
            yield {"text": row["positive"], "pivot": pivot_row["anchor"], "pivot_negative": ""}


def read_cross_scored(source: Source, root: Path) -> Iterator[Row]:
    """Rows with ``sentence1``, ``sentence2``, ``score``, ``pivot1`` and ``pivot2``: a pair in both languages.

    The score is that of the language's file.

    Raises:
        DataError: a source cannot be read, or the two have no key in common.
    """
    for row, pivot_row in _join(source, root, SCORED_ROLES):
        pivots = {"pivot1": pivot_row["sentence1"], "pivot2": pivot_row["sentence2"]}
        yield {role: row[role] for role in SCORED_ROLES} | pivots


def _grouped(source: Source, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[Row, Row]]:
    """Rows of the same group two by two, see :class:`Pairing`."""
    pairing = Pairing(source.group, roles)
    for row in rows_of(source, root, (*roles, source.group)):
        if (first := pairing.partner(row)) is not None:
            yield first, row
    if not pairing.pairs:
        raise DataError(f"{describe_source(source)}: {pairing.fault()}")


@dataclass
class Pairing:
    """Rows with the same value in a column two by two, in their order.

    The last of an odd number stays single. Those without a value there, or in one of ``roles``, are passed
    over.
    """

    column: str
    roles: tuple[str, ...]
    rows: int = 0
    """Rows seen."""
    pairs: int = 0
    """Pairs made of them."""
    _waiting: dict[str, Row] = field(default_factory=dict)

    def partner(self, row: Row) -> Row | None:
        """The earlier row that this one makes a pair with; ``None`` where there is none yet."""
        self.rows += 1
        if not all(row.get(name) for name in (self.column, *self.roles)):
            return None
        first = self._waiting.pop(row[self.column], None)
        if first is None:
            self._waiting[row[self.column]] = row
        else:
            self.pairs += 1
        return first

    def fault(self) -> str:
        """The message that no two rows made a pair."""
        return (
            f"expected rows with the same {self.column!r}, found none among {self.rows:,}; name the column "
            "that rows of one meaning share with group = ..."
        )


def pivots_side(own: Source, root: Path) -> Source:
    """The pivot's file of a joined, resolved source, without the filters on columns that it has not."""
    other = replace(own, path=own.pivot_path, pivot_path=None)
    if not any(getattr(own, key) for key in FILTERS):
        return other
    try:
        first = next(raw_rows(other, root), None)
    except DataError:
        return other  # reading it says what is wrong
    if first is None:
        return other
    kept: dict[str, Any] = {
        key: {name: to for name, to in getattr(own, key).items() if own.columns.get(name, name) in first}
        for key in FILTERS
    }
    return replace(other, **kept)


def _zip_lines(own: Source, root: Path) -> Iterator[tuple[Row, Row]]:
    """The rows of two text files, line by line."""
    other = pivots_side(own, root)
    sides = [rows_of(side, root, ("text",)) for side in (own, other)]
    for number, (row, pivot_row) in enumerate(zip_longest(*sides), start=1):
        if row is None or pivot_row is None:
            rest = number + sum(1 for _ in sides[1 if row is None else 0])
            counts = (number - 1, rest) if row is None else (rest, number - 1)
            raise DataError(
                f"expected as many lines in {describe_source(own)} as in {describe_source(other)}, "
                f"found {counts[0]:,} and {counts[1]:,}; align the files line by line"
            )
        yield row, pivot_row


def _join(own: Source, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[Row, Row]]:
    """Pairs of rows of two files with the same key, in the order of the language's."""
    key, other = own.key, pivots_side(own, root)
    pivots = dict(_by_key(other, root, roles))
    first, shared = "no rows", False
    for number, (value, row) in enumerate(_by_key(own, root, roles)):
        first = first if number else value
        if value in pivots:
            shared = True
            yield row, pivots[value]
    if not shared:
        heads = f"{first!r} … and {next(iter(pivots), 'no rows')!r} …"
        raise DataError(
            f"{describe_source(own)} and {describe_source(other)}: expected rows with the same {key!r}, "
            f"found none in common ({heads}); name the column with key = ..."
        )


def _by_key(source: Source, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[str, Row]]:
    """A source's rows with their keys.

    Raises:
        DataError: a key comes twice.
    """
    seen: set[str] = set()
    for row in rows_of(source, root, (*roles, source.key)):
        key = row[source.key]
        if key in seen:
            raise DataError(
                f"{describe_source(source)}: expected each {source.key!r} once, found {key!r} again; "
                "name a column without repeats with key = ..."
            )
        seen.add(key)
        yield key, row
