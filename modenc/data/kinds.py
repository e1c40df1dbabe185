"""The kinds of data: the columns of their files, the rows that these give, and how they are filtered.

A new kind is an entry of :data:`KINDS`, a list of sources in ``recipe.settings`` (``DataSettings``, or for a
development set ``DevSettings``) with a default in ``recipes/_defaults.toml``, a property of ``TrainingData``,
and an entry of the tables ``READS`` in ``recipe.plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from modenc.data.formats import Row
from modenc.data.sources import (
    Source,
    both_sources,
    check_scores,
    grouped_rows,
    joined_rows,
    read_rows,
    resolve_source,
)

T = TypeVar("T")


class ParaphraseRow(NamedTuple):
    """A sentence, a paraphrase of it, and perhaps a hard negative."""

    anchor: str
    positive: str
    negative: str | None = None


class ScoredRow(NamedTuple):
    """Two sentences and their similarity score, on any scale."""

    sentence1: str
    sentence2: str
    score: float


class CrossRow(NamedTuple):
    """A sentence, its translation or paraphrase in the pivot language, and perhaps a hard negative there."""

    text: str
    pivot: str
    pivot_negative: str | None = None


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


def _unjoined(first: Row, second: Row) -> tuple[Row, ...]:
    raise NotImplementedError


@dataclass(frozen=True)
class DataKind(Generic[T]):
    """A kind of data; ``name`` is its key in a recipe's ``data``, or ``data.dev``."""

    name: str
    row: Callable[..., T]
    """Constructor of a row, from the values of ``required``, ``optional`` and ``score`` in this order."""
    columns: tuple[str, ...]
    """Roles that a source may name columns for."""
    required: tuple[str, ...]
    """Roles that are normalized; the row is dropped if one is empty, too short or too long."""
    in_language: tuple[str, ...] = ()
    """Roles of ``required`` whose script and language are checked."""
    optional: str | None = None
    """Role that is normalized, and emptied if it is too short or too long (a hard negative)."""
    score: str | None = None
    """Role that is no text and stays as it is."""
    joined: tuple[str, ...] = ()
    """Roles that each file must have, beside the key, if a source is of two; empty: it is of one."""
    join: Callable[[Row, Row], tuple[Row, ...]] = _unjoined
    """Makes rows of a row of the language's file and one of the pivot's."""
    grouped: tuple[str, ...] = ()
    """Roles for which a source with ``group`` names columns; empty: it cannot have ``group``."""
    pair: Callable[[Row, Row], tuple[Row, ...]] = _unjoined
    """Makes rows of two rows of a group."""
    in_pivot: tuple[str, ...] = ()
    """Roles of the pivot language."""
    across: bool = False
    """Whether rows pair a text with the pivot's other text, so that they must be joined or grouped, and may
    hold translations that are held out of the parallel pairs."""
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

    def groups(self, source: Source) -> bool:
        """Check whether a source's rows are paired by group."""
        return bool(source.group and self.grouped)

    def joins(self, source: Source) -> bool:
        """Check whether a source is of two files, that are joined."""
        return source.pivot_path is not None and bool(self.joined) and not self.groups(source)

    def file_roles(self, source: Source) -> tuple[str, ...]:
        """Return the roles that each file of a source must have."""
        if self.groups(source):
            return self.grouped
        score = (self.score,) if self.score else ()
        return self.joined if self.joins(source) else (*self.required, *score)

    def roles_in_language(self, source: Source) -> tuple[str, ...]:
        """Return the roles of a source's file that are in its language."""
        if self.groups(source):
            return tuple(role for role in self.grouped if role not in self.in_pivot)
        return self.file_roles(source) if self.joins(source) else self.in_language

    def roles_in_pivot(self, source: Source) -> tuple[str, ...]:
        """Return the roles of a source's file that are in the pivot language."""
        return () if self.joins(source) else self.in_pivot

    def read(self, source: Source, lang: str, pivot: str, root: Path) -> Iterator[Row]:
        """Read the rows of a language's source up to its limit; relative paths start from ``root``.

        Raises:
            DataError: a file cannot be read, two files or the rows of one make no pairs, or a score is no
                number.
        """
        roles = self.file_roles(source)
        # The limit counts joined rows.
        unlimited = replace(source, limit=0)
        whole = resolve_source(unlimited, lang, pivot)
        rows: Iterator[Row]
        if self.joins(source):
            sides = both_sources(unlimited, lang, pivot)
            rows = (row for pair in joined_rows(*sides, root, roles) for row in self.join(*pair))
        elif self.groups(source):
            rows = (row for pair in grouped_rows(whole, root, roles) for row in self.pair(*pair))
        else:
            rows = read_rows(whole, root, roles)
        return islice(check_scores(whole, rows) if self.score else rows, source.limit or None)


def _translations(own: Row, pivot: Row) -> tuple[Row, ...]:
    return ({"text": own["text"], "pivot": pivot["text"]},)


def _paraphrases(first: Row, second: Row) -> tuple[Row, ...]:
    return ({"anchor": first["text"], "positive": second["text"]},)


def _joined_triplets(own: Row, pivot: Row) -> tuple[Row, ...]:
    """Pair an anchor with the pivot's positive and negative, and a positive with the pivot's anchor."""
    negative = pivot.get("negative", "")
    return (
        {"text": own["anchor"], "pivot": pivot["positive"], "pivot_negative": negative},
        {"text": own["positive"], "pivot": pivot["anchor"], "pivot_negative": ""},
    )


def _grouped_translations(first: Row, second: Row) -> tuple[Row, ...]:
    """Pair each text with the translation of the other."""
    return (
        {"text": first["text"], "pivot": second["pivot"], "pivot_negative": ""},
        {"text": second["text"], "pivot": first["pivot"], "pivot_negative": ""},
    )


def _joined_scores(own: Row, pivot: Row) -> tuple[Row, ...]:
    """Take the score of the language's file."""
    return (own | {"pivot1": pivot["sentence1"], "pivot2": pivot["sentence2"]},)


def _joined_search(own: Row, pivot: Row) -> tuple[Row, ...]:
    """Take the pivot's query and the language's passage."""
    return ({"query": pivot["query"], "passage": own["passage"]},)


_TEXT = ("text",)
_TEXT_AND_PIVOT = ("text", "pivot")
_SENTENCES = ("sentence1", "sentence2")
_SCORED = (*_SENTENCES, "score")
_PAIR = ("anchor", "positive")
_TRIPLET = (*_PAIR, "negative")
_SEARCH = ("query", "passage")

TEXT = DataKind("text", str, _TEXT, _TEXT, in_language=_TEXT, min_rows=50, held_out_role="text")
"""Running text: a row is a string."""
PARAPHRASES = DataKind(
    "paraphrases",
    ParaphraseRow,
    _TRIPLET,
    _PAIR,
    in_language=_PAIR,
    optional="negative",
    grouped=_TEXT,
    pair=_paraphrases,
)
SCORED_PAIRS = DataKind("scored_pairs", ScoredRow, _SCORED, _SENTENCES, score="score")
"""Scored pairs in any language."""
PASSAGES = DataKind("passages", PassageRow, _SEARCH, ("passage",), optional="query")
"""Passages of documents in any language, with or without queries."""
PARALLEL = DataKind(
    "parallel",
    CrossRow,
    _TEXT_AND_PIVOT,
    _TEXT_AND_PIVOT,
    in_language=_TEXT,
    joined=_TEXT,
    join=_translations,
    in_pivot=("pivot",),
    held_out_role="pivot",
)
CROSS_PARAPHRASES = DataKind(
    "cross_paraphrases",
    CrossRow,
    _TRIPLET,
    _TEXT_AND_PIVOT,
    in_language=_TEXT,
    optional="pivot_negative",
    joined=_PAIR,
    join=_joined_triplets,
    grouped=_TEXT_AND_PIVOT,
    pair=_grouped_translations,
    in_pivot=("pivot",),
    across=True,
)
CROSS_SCORED_PAIRS = DataKind(
    "cross_scored_pairs",
    CrossScoredRow,
    _SCORED,
    (*_SENTENCES, "pivot1", "pivot2"),
    in_language=_SENTENCES,
    score="score",
    joined=_SCORED,
    join=_joined_scores,
    across=True,
)
STS = DataKind("sts", ScoredRow, _SCORED, _SENTENCES, in_language=_SENTENCES, score="score", dev=True)
CROSS_STS = DataKind(
    "cross_sts",
    ScoredRow,
    _SCORED,
    _SENTENCES,
    in_language=("sentence2",),
    score="score",
    in_pivot=("sentence1",),
    dev=True,
)
SEARCH = DataKind("search", SearchRow, _SEARCH, _SEARCH, in_language=_SEARCH, dev=True)
CROSS_SEARCH = DataKind(
    "cross_search",
    SearchRow,
    _SEARCH,
    _SEARCH,
    in_language=("passage",),
    joined=_SEARCH,
    join=_joined_search,
    in_pivot=("query",),
    dev=True,
)

KINDS: dict[str, DataKind[Any]] = {
    kind.name: kind
    for kind in (
        *(TEXT, PARAPHRASES, SCORED_PAIRS, PASSAGES, PARALLEL, CROSS_PARAPHRASES, CROSS_SCORED_PAIRS),
        *(STS, CROSS_STS, SEARCH, CROSS_SEARCH),
    )
}
"""Name → kind of data, in a fixed order."""
TRAINED_ON = tuple(name for name, kind in KINDS.items() if not kind.dev)
"""The kinds of data that modules learn from; the others are development sets."""
