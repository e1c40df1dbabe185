"""The kinds of data: the columns of their files, the rows that these give, and how they are filtered.

A new kind is an entry of :data:`KINDS`, a list of sources in ``recipe.settings`` (``DataSettings``, or for a
development set ``DevSettings``) with a default in ``recipes/_defaults.toml``, and a stage that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from modenc.data.filters import RowShape
from modenc.data.formats import Row
from modenc.data.joining import (
    CROSS_ROLES,
    PARALLEL_ROLES,
    PARAPHRASE_ROLES,
    SCORED_ROLES,
    SEARCH_ROLES,
    read_cross_paraphrases,
    read_cross_scored,
    read_parallel,
    read_paraphrases,
)
from modenc.data.sources import ResolvedSource, Source, read_resolved_rows

T = TypeVar("T")


class ParaphraseRow(NamedTuple):
    """A sentence, a paraphrase of it, and perhaps a hard negative."""

    anchor: str
    positive: str
    negative: str | None


class ScoredRow(NamedTuple):
    """Two sentences and their similarity score, on any scale."""

    sentence1: str
    sentence2: str
    score: float


class ParallelRow(NamedTuple):
    """A sentence in the pivot language and its translation."""

    pivot: str
    text: str


class CrossRow(NamedTuple):
    """A sentence, a paraphrase of it in the pivot language, and perhaps a hard negative there."""

    text: str
    pivot: str
    pivot_negative: str | None


class CrossScoredRow(NamedTuple):
    """Two sentences, their translations into the pivot language, and a similarity score, on any scale."""

    sentence1: str
    sentence2: str
    pivot1: str
    pivot2: str
    score: float


class PassageRow(NamedTuple):
    """A passage, and perhaps a question or title that it belongs to."""

    passage: str
    query: str | None


class SearchRow(NamedTuple):
    """A query, a passage that answers it, and the group that names their content in all languages."""

    query: str
    passage: str
    group: str = ""


@dataclass(frozen=True)
class DataKind(Generic[T]):
    """A kind of data; ``name`` is its key in a recipe's ``data``, or ``data.dev``."""

    name: str
    row: Callable[..., T]
    """Constructor of a row, from the values of ``shape``'s roles in their order."""
    shape: RowShape
    """Roles of a row, which are filtered."""
    columns: tuple[str, ...]
    """Roles that a source may name columns for."""
    read: Callable[[ResolvedSource, Path], Iterator[Row]]
    """Reader of a resolved source's rows; relative paths start from the given folder."""
    joined: tuple[str, ...] = ()
    """Roles that each file must have, beside the key, if a source is of two; empty: it is of one."""
    grouped: tuple[str, ...] = ()
    """Roles for which a source with ``group`` names columns; empty: it cannot have ``group``."""
    in_pivot: tuple[str, ...] = ()
    """Roles of the pivot language."""
    across: bool = False
    """Whether rows pair a text with the pivot's other text, so that they must be joined or grouped, and may
    hold translations that are held out of the parallel pairs."""
    rows_each: int = 1
    """Number of rows that two joined or grouped rows make."""
    min_rows: int = 1
    """Least number of usable rows."""
    held_out_role: str | None = None
    """Role whose texts decide which rows are held out; None: no rows are."""
    dev: bool = False
    """Whether it is a development set, in a recipe's ``data.dev``; modules are trained on the others."""

    @property
    def place(self) -> tuple[str, ...]:
        """Place of its list of sources in a recipe."""
        return ("data", "dev", self.name) if self.dev else ("data", self.name)

    def file_roles(self, source: Source) -> tuple[str, ...]:
        """Return the roles that each file of a source must have."""
        if source.group and self.grouped:
            return self.grouped
        score = (self.shape.score,) if self.shape.score else ()
        return self.joined if self.joins(source) else (*self.shape.required, *score)

    def roles_in_language(self, source: Source) -> tuple[str, ...]:
        """Return the roles of a source's file that are in its language."""
        if source.group and self.grouped:
            return tuple(role for role in self.grouped if role not in self.in_pivot)
        return self.joined if self.joins(source) else self.shape.in_language

    def joins(self, source: Source) -> bool:
        """Check whether a source is of two files, that are joined."""
        grouped = bool(source.group and self.grouped)
        return source.pivot_path is not None and bool(self.joined) and not grouped


def _plain(*roles: str) -> Callable[[ResolvedSource, Path], Iterator[Row]]:
    return partial(read_resolved_rows, roles=roles)


_TEXT = ("text",)
_SENTENCES = ("sentence1", "sentence2")
_TRIPLET = (*PARAPHRASE_ROLES, "negative")

TEXT = DataKind("text", str, RowShape(_TEXT, _TEXT), _TEXT, _plain("text"), min_rows=50, held_out_role="text")
"""Running text: a row is a string."""
PARAPHRASES = DataKind(
    "paraphrases",
    ParaphraseRow,
    RowShape(PARAPHRASE_ROLES, PARAPHRASE_ROLES, "negative"),
    _TRIPLET,
    read_paraphrases,
    grouped=_TEXT,
)
SCORED_PAIRS = DataKind(
    "scored_pairs",
    ScoredRow,
    RowShape(_SENTENCES, in_language=(), score="score"),
    SCORED_ROLES,
    _plain(*SCORED_ROLES),
)
"""Scored pairs in any language."""
PASSAGES = DataKind(
    "passages",
    PassageRow,
    RowShape(("passage",), in_language=(), optional="query"),
    SEARCH_ROLES,
    _plain("passage"),
)
"""Passages of documents in any language, with or without queries."""
PARALLEL = DataKind(
    "parallel",
    ParallelRow,
    RowShape(PARALLEL_ROLES, _TEXT),
    PARALLEL_ROLES,
    read_parallel,
    joined=_TEXT,
    in_pivot=("pivot",),
    held_out_role="pivot",
)
CROSS_PARAPHRASES = DataKind(
    "cross_paraphrases",
    CrossRow,
    RowShape(CROSS_ROLES, _TEXT, "pivot_negative"),
    _TRIPLET,
    read_cross_paraphrases,
    joined=PARAPHRASE_ROLES,
    grouped=CROSS_ROLES,
    in_pivot=("pivot",),
    across=True,
    rows_each=2,
)
CROSS_SCORED_PAIRS = DataKind(
    "cross_scored_pairs",
    CrossScoredRow,
    RowShape((*_SENTENCES, "pivot1", "pivot2"), _SENTENCES, score="score"),
    SCORED_ROLES,
    read_cross_scored,
    joined=SCORED_ROLES,
    across=True,
)
STS = DataKind(
    "sts",
    ScoredRow,
    RowShape(_SENTENCES, _SENTENCES, score="score"),
    SCORED_ROLES,
    _plain(*SCORED_ROLES),
    dev=True,
)
CROSS_STS = DataKind(
    "cross_sts",
    ScoredRow,
    RowShape(_SENTENCES, ("sentence2",), score="score"),
    SCORED_ROLES,
    _plain(*SCORED_ROLES),
    in_pivot=("sentence1",),
    dev=True,
)
SEARCH = DataKind(
    "search", SearchRow, RowShape(SEARCH_ROLES, SEARCH_ROLES), SEARCH_ROLES, _plain(*SEARCH_ROLES), dev=True
)

KINDS: dict[str, DataKind[Any]] = {
    kind.name: kind
    for kind in (
        *(TEXT, PARAPHRASES, SCORED_PAIRS, PASSAGES, PARALLEL, CROSS_PARAPHRASES, CROSS_SCORED_PAIRS),
        *(STS, CROSS_STS, SEARCH),
    )
}
"""Name → kind of data, in a fixed order."""
TRAINED_ON = tuple(name for name, kind in KINDS.items() if not kind.dev)
"""The kinds of data that modules learn from; the others are development sets."""
