"""Rows of two sources put together: line by line, or on a key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from modenc.data.files import Row, format_of
from modenc.data.readers import describe_source, raw_rows, read_rows, resolve_source
from modenc.errors import DataError
from modenc.recipe.data_settings import GROUPED
from modenc.recipe.settings import LanguagePlan, Source

PARALLEL_ROLES = ("pivot", "text")
TRIPLET_ROLES = ("anchor", "positive")
CROSS_ROLES = ("text", "pivot")
SCORED_ROLES = ("sentence1", "sentence2", "score")
FILTERS = ("where", "where_not", "at_least", "at_most")


def read_parallel(source: Source, plan: LanguagePlan) -> Iterator[Row]:
    """Rows with ``pivot`` and ``text``, from one source or from one in each language.

    Two text files (``path``, ``pivot_path``) belong together line by line, two tables on ``key``.

    Raises:
        DataError: a source cannot be read, or two text files have different numbers of lines.
    """
    if source.pivot_path is None:
        return read_rows(source, plan.data.root, plan.lang, plan.pivot, roles=PARALLEL_ROLES)
    own, other = _both(source, plan)
    if format_of(Path(own.path or "")) == format_of(Path(other.path or "")) == ".txt":
        return islice(_zip_lines(own, other, plan), source.limit or None)
    return islice(_join_parallel(own, other, plan), source.limit or None)


def read_paraphrases(source: Source, plan: LanguagePlan) -> Iterator[Row]:
    """Rows with ``anchor``, ``positive`` and perhaps ``negative``.

    With ``group``, rows have ``text`` alone, and those of one group are paired, see :class:`Pairing`.

    Raises:
        DataError: a source cannot be read, or no group has two rows.
    """
    if source.group:
        pairs = _grouped(source, plan, GROUPED["paraphrases"])
        rows = ({"anchor": first["text"], "positive": second["text"]} for first, second in pairs)
        return islice(rows, source.limit or None)
    return read_rows(source, plan.data.root, plan.lang, plan.pivot, roles=TRIPLET_ROLES)


def read_cross_paraphrases(source: Source, plan: LanguagePlan) -> Iterator[Row]:
    """Rows with ``text``, ``pivot`` and ``pivot_negative`` (empty where there is none).

    With ``pivot_path``, both files hold triplets of the same items: an anchor goes with the pivot's
    positive and negative, and a positive with the pivot's anchor. With ``group``, a row holds a text and its
    counterpart in the pivot, and each text goes with the counterpart of the other of its pair. Without
    either, the source has the roles ``text`` and ``pivot`` itself.

    Raises:
        DataError: a source cannot be read, the two have no key in common, or no group has two rows.
    """
    if source.group:
        return islice(_cross_grouped(source, plan), source.limit or None)
    if source.pivot_path is None:
        return read_rows(source, plan.data.root, plan.lang, plan.pivot, roles=CROSS_ROLES)
    return islice(_cross_triplets(*_both(source, plan), plan), source.limit or None)


def read_cross_scored(source: Source, plan: LanguagePlan) -> Iterator[Row]:
    """Rows with ``sentence1``, ``sentence2``, ``score``, ``pivot1`` and ``pivot2``: a pair in both languages.

    The score is that of the language's file.

    Raises:
        DataError: a source cannot be read, or the two have no key in common.
    """
    return islice(_join_scored(*_both(source, plan), plan), source.limit or None)


def _cross_grouped(source: Source, plan: LanguagePlan) -> Iterator[Row]:
    for first, second in _grouped(source, plan, GROUPED["cross_paraphrases"]):
        yield {"text": first["text"], "pivot": second["pivot"], "pivot_negative": ""}
        yield {"text": second["text"], "pivot": first["pivot"], "pivot_negative": ""}


def _grouped(source: Source, plan: LanguagePlan, roles: tuple[str, ...]) -> Iterator[tuple[Row, Row]]:
    """Rows of the same group two by two, see :class:`Pairing`."""
    own = replace(resolve_source(source, plan.lang, plan.pivot), limit=0)
    pairing = Pairing(own.group, roles)
    for row in read_rows(own, plan.data.root, plan.lang, plan.pivot, roles=(*roles, own.group)):
        if (first := pairing.partner(row)) is not None:
            yield first, row
    if not pairing.pairs:
        raise DataError(f"{describe_source(own)}: {pairing.fault()}")


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
        """That no two rows made a pair, and what to do."""
        return (
            f"expected rows with the same {self.column!r}, found none among {self.rows:,}; name the column "
            "that rows of one meaning share with group = ..."
        )


def _both(source: Source, plan: LanguagePlan) -> tuple[Source, Source]:
    """The source of each side, without the limit, which counts what comes out."""
    own = replace(resolve_source(source, plan.lang, plan.pivot), limit=0)
    return own, pivots_side(own, plan)


def pivots_side(own: Source, plan: LanguagePlan) -> Source:
    """The pivot's file of a joined, resolved source, without the filters on columns that it has not."""
    other = replace(own, path=own.pivot_path, pivot_path=None)
    if not any(getattr(own, key) for key in FILTERS):
        return other
    try:
        first = next(raw_rows(other, plan.data.root, plan.lang), None)
    except DataError:
        return other  # reading it says what is wrong
    if first is None:
        return other
    kept: dict[str, Any] = {
        key: {name: to for name, to in getattr(own, key).items() if own.columns.get(name, name) in first}
        for key in FILTERS
    }
    return replace(other, **kept)


def _zip_lines(own: Source, other: Source, plan: LanguagePlan) -> Iterator[Row]:
    sides = [read_rows(side, plan.data.root, plan.lang, plan.pivot, roles=("text",)) for side in (own, other)]
    for number, (row, pivot_row) in enumerate(zip_longest(*sides), start=1):
        if row is None or pivot_row is None:
            rest = number + sum(1 for _ in sides[1 if row is None else 0])
            counts = (number - 1, rest) if row is None else (rest, number - 1)
            raise DataError(
                f"{plan.lang}: expected as many lines in {describe_source(own)} as in "
                f"{describe_source(other)}, "
                f"found {counts[0]:,} and {counts[1]:,}; align the files line by line"
            )
        yield {"text": row["text"], "pivot": pivot_row["text"]}


def _join_parallel(own: Source, other: Source, plan: LanguagePlan) -> Iterator[Row]:
    for row, pivot_row in _join(own, other, plan, ("text",)):
        yield {"text": row["text"], "pivot": pivot_row["text"]}


def _cross_triplets(own: Source, other: Source, plan: LanguagePlan) -> Iterator[Row]:
    for row, pivot_row in _join(own, other, plan, TRIPLET_ROLES):
        negative = pivot_row.get("negative", "")
        yield {"text": row["anchor"], "pivot": pivot_row["positive"], "pivot_negative": negative}
        yield {"text": row["positive"], "pivot": pivot_row["anchor"], "pivot_negative": ""}


def _join_scored(own: Source, other: Source, plan: LanguagePlan) -> Iterator[Row]:
    for row, pivot_row in _join(own, other, plan, SCORED_ROLES):
        pivots = {"pivot1": pivot_row["sentence1"], "pivot2": pivot_row["sentence2"]}
        yield {**{role: row[role] for role in SCORED_ROLES}, **pivots}


def _join(
    own: Source, other: Source, plan: LanguagePlan, roles: tuple[str, ...]
) -> Iterator[tuple[Row, Row]]:
    """Pairs of rows with the same key, in the order of ``own``."""
    key, root = own.key, plan.data.root
    pivots: dict[str, Row] = {}
    for row in read_rows(other, root, plan.lang, plan.pivot, roles=(*roles, key)):
        _check_unique(other, key, row, pivots)
        pivots[row[key]] = row
    seen: dict[str, Row] = {}
    found = False
    for row in read_rows(own, root, plan.lang, plan.pivot, roles=(*roles, key)):
        _check_unique(own, key, row, seen)
        seen[row[key]] = row
        if row[key] in pivots:
            found = True
            yield row, pivots[row[key]]
    if not found:
        raise DataError(
            f"{describe_source(own)} and {describe_source(other)}: expected rows with the same {key!r}, "
            f"found none in common ({_first(seen)} … and {_first(pivots)} …); name the column with key = ..."
        )


def _check_unique(source: Source, key: str, row: Row, seen: dict[str, Row]) -> None:
    if row[key] in seen:
        raise DataError(
            f"{describe_source(source)}: expected each {key!r} once, found {row[key]!r} again; "
            "name a column without repeats with key = ..."
        )


def _first(rows: dict[str, Row]) -> str:
    return repr(next(iter(rows), "no rows"))
