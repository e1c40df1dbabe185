"""Training data from sources: read, filtered, repeated, and some rows held out.

No recipe is needed::

    pairs = load(PARALLEL, [Source(path="kk-en.tsv")], "kk", held_out=200)
    pairs.train[0].text, pairs.train[0].pivot
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from modenc.data.files import Row
from modenc.data.filters import FilterReport, RowShape, TextFilter
from modenc.data.joining import (
    CROSS_ROLES,
    PARALLEL_ROLES,
    SCORED_ROLES,
    TRIPLET_ROLES,
    read_cross_paraphrases,
    read_cross_scored,
    read_parallel,
    read_paraphrases,
)
from modenc.data.language_check import DEFAULT_FILTERS, Filters
from modenc.data.pairs import CrossRow, CrossScoredRow, ParallelRow, ParaphraseRow, ScoredRow, with_scores
from modenc.data.readers import describe_source, resolve_source, rows_of
from modenc.data.text import stable_hash
from modenc.errors import DataError
from modenc.langid import LanguageIdentifier
from modenc.recipe.settings import Source

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Not a run's seed: runs with different seeds are compared on the same held-out rows.
_HELD_OUT_SALT = "modenc held out"

# A small corpus gives at most this share of its rows to the development set.
_MAX_HELD_OUT_SHARE = 0.1


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of training data; its name is that of a list in a recipe's ``data``."""

    name: str
    row: Callable[..., T]
    """Makes a row of the values of ``shape``'s roles, in their order."""
    read: Callable[[Source, Path], Iterator[Row]]
    """Gives a resolved source's rows; relative paths start from the folder."""
    shape: RowShape
    fewest: int = 1
    """Rows that can be learned from."""
    held_out_by: str | None = None
    """The role by which rows are held out; None: they never are."""


_SENTENCES = ("sentence1", "sentence2")

TEXT = Kind(
    "text", str, partial(rows_of, roles=("text",)), RowShape(("text",), own=("text",)), 50, held_out_by="text"
)
"""Running text: a row is a string."""
PARAPHRASES = Kind(
    "paraphrases",
    ParaphraseRow,
    read_paraphrases,
    RowShape(TRIPLET_ROLES, own=TRIPLET_ROLES, optional="negative"),
)
SCORED_PAIRS = Kind(
    "scored_pairs",
    ScoredRow,
    partial(rows_of, roles=SCORED_ROLES),
    RowShape(_SENTENCES, own=(), score="score"),
)
"""Graded pairs in any language."""
PARALLEL = Kind(
    "parallel", ParallelRow, read_parallel, RowShape(PARALLEL_ROLES, own=("text",)), held_out_by="pivot"
)
CROSS_PARAPHRASES = Kind(
    "cross_paraphrases",
    CrossRow,
    read_cross_paraphrases,
    RowShape(CROSS_ROLES, own=("text",), optional="pivot_negative"),
)
CROSS_SCORED_PAIRS = Kind(
    "cross_scored_pairs",
    CrossScoredRow,
    read_cross_scored,
    RowShape((*_SENTENCES, "pivot1", "pivot2"), own=_SENTENCES, score="score"),
)


@dataclass(frozen=True)
class SourceRecord:
    """What a card says of a source: role, name, license, rows kept of it, and what translated them."""

    role: str
    source: str
    license: str
    rows: int
    translator: str = ""


@dataclass(frozen=True)
class TrainingSet(Generic[T]):
    """The usable rows of a kind of data."""

    train: list[T]
    """In the order of the sources, those of a source with ``repeat`` several times."""
    held_out: list[T]
    """All different; at most a tenth of all, and none of their texts in ``train``."""
    report: FilterReport
    sources: list[SourceRecord]
    digest: str
    """SHA-256 of the rows."""


def load(
    kind: Kind[T],
    sources: Sequence[Source],
    lang: str,
    pivot: str = "en",
    *,
    root: Path = Path(),
    filters: Filters = DEFAULT_FILTERS,
    identifier: LanguageIdentifier | None = None,
    held_out: int = 0,
) -> TrainingSet[T]:
    """Read and filter sources, with duplicates across all of them; empty where no source is named.

    Args:
        kind: what they hold: ``TEXT``, ``PARALLEL``, ….
        sources: where the rows are; ``{lang}`` and ``{pivot}`` in their strings are filled in.
        lang: code of the language.
        pivot: code of the pivot language.
        root: folder that relative paths start from.
        filters: which rows are kept.
        identifier: tells languages; None skips that check.
        held_out: rows to set aside, of kinds that have such.

    Raises:
        DataError: a source cannot be read, a score is no number, too few rows are usable (of text 50, else
            one), or too small a share of them is in the language.
    """
    row_filter = TextFilter(filters, lang, identifier)
    found: list[Row] = []
    records: list[SourceRecord] = []
    for source in sources:
        resolved = resolve_source(source, lang, pivot)
        # The limit counts what comes out of joins.
        rows = kind.read(replace(resolved, limit=0), root)
        if kind.shape.score:
            rows = with_scores(resolved, rows)
        kept = list(row_filter.select(islice(rows, source.limit or None), kind.shape))
        name = _name(resolved, {record.source for record in records})
        found += kept * source.repeat
        records.append(SourceRecord(kind.name, name, source.license, len(kept), source.translator))
    row_filter.check_share()
    if sources:
        usable, summary = row_filter.report.kept, row_filter.report.summary()
        if usable < kind.fewest:
            what = f"{'lines of text' if kind is TEXT else 'pairs'} (data.{kind.name})"
            raise DataError(
                f"{lang}: found {usable:,} usable {what}, expected at least {kind.fewest}; {summary}. Add "
                "sources or loosen the filters (data.min_chars, data.max_chars, data.check_language)"
            )
        logger.info("%s %s: %s", lang, kind.name.replace("_", " "), summary)
    parts = [found] if kind.held_out_by is None else _hold_out(found, held_out, kind.held_out_by)
    made = [[_made(kind, row) for row in part] for part in parts]
    aside = made[1] if len(made) > 1 else []
    return TrainingSet(made[0], aside, row_filter.report, records, _digest(*made))


def _made(kind: Kind[T], row: Row) -> T:
    shape = kind.shape
    values: list[str | float | None] = [row[role] for role in shape.required]
    values += [row[shape.optional] or None] if shape.optional else []
    return kind.row(*values, *([float(row[shape.score])] if shape.score else []))


def _name(source: Source, taken: Collection[str]) -> str:
    """What a card calls a source; parts of one file under several licenses must not pass for one source."""
    name = describe_source(source)
    if name not in taken:
        return name
    parts = [", ".join(values) for values in source.where.values()] or [", ".join(source.columns.values())]
    name = f"{name} ({'; '.join(parts)})"
    return name if name not in taken else f"{name} #{len(taken) + 1}"


def _hold_out(rows: list[Row], count: int, role: str) -> tuple[list[Row], list[Row]]:
    """The training rows, and at most ``count`` held-out ones.

    Which rows are held out depends on their text under ``role`` alone, so that it hardly changes
    when sources are added; every row with a held-out text leaves the training rows.
    """
    keys = [stable_hash(row[role], _HELD_OUT_SALT) for row in rows]
    first: dict[int, Row] = {}
    for key, row in zip(keys, rows, strict=True):
        first.setdefault(key, row)
    chosen = set(sorted(first)[: min(count, int(len(first) * _MAX_HELD_OUT_SHARE))])
    train = [row for key, row in zip(keys, rows, strict=True) if key not in chosen]
    return train, [row for key, row in first.items() if key in chosen]


def _digest(*parts: Sequence[object]) -> str:
    """SHA-256, in hexadecimal, of sequences of strings or tuples, in their order."""
    hasher = sha256()
    for part in parts:
        for item in part:
            hasher.update(json.dumps(item, ensure_ascii=True).encode() + b"\n")
        hasher.update(b"\x00")
    return hasher.hexdigest()
