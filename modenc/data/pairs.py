"""Rows of two or more texts: paraphrases, translations, and scored pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from modenc.data.formats import Row
from modenc.data.joining import SCORED_ROLES, SEARCH_ROLES
from modenc.data.sources import describe_source, read_resolved_rows, resolve_source
from modenc.errors import DataError
from modenc.recipe.settings import Source
from modenc.texts import normalize


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


def load_search(
    sources: Sequence[Source], lang: str, pivot: str = "en", *, root: Path = Path()
) -> list[SearchRow]:
    """Read a development set of queries with their passages; texts are normalized, and no row is dropped.

    Relative paths start from ``root``.

    Raises:
        DataError: a source cannot be read, or a query or passage is empty.
    """
    rows: list[SearchRow] = []
    for source in sources:
        resolved = resolve_source(source, lang, pivot)
        for number, row in enumerate(read_resolved_rows(resolved, root, SEARCH_ROLES), start=1):
            query, passage = (normalize(row[role]) for role in SEARCH_ROLES)
            if not query or not passage:
                raise DataError(
                    f"{describe_source(resolved)}, row {number}: expected a query and a passage, found "
                    f"{'no query' if not query else 'no passage'}; drop the row"
                )
            rows.append(SearchRow(query, passage))
    return rows


def load_sts(
    sources: Sequence[Source], lang: str, pivot: str = "en", *, root: Path = Path(), name: str = "sts"
) -> list[ScoredRow]:
    """Read a development set of scored pairs; texts are normalized, and no row is dropped.

    Relative paths start from ``root``; ``name`` is the set's key under ``data.dev``, for messages.

    Raises:
        DataError: a source cannot be read, a score is not a finite number, or all are the same.
    """
    rows: list[ScoredRow] = []
    for source in sources:
        resolved = resolve_source(source, lang, pivot)
        for row in check_scores(resolved, read_resolved_rows(resolved, root, SCORED_ROLES)):
            first, second = (normalize(row[role]) for role in ("sentence1", "sentence2"))
            rows.append(ScoredRow(first, second, float(row["score"])))
    if rows and len({row.score for row in rows}) == 1:
        # The rank correlation with a constant is undefined.
        raise DataError(
            f"{lang}: data.dev.{name} ({', '.join(map(describe_source, sources))}): expected rows of "
            f"different scores, found {len(rows)} with the score {rows[0].score:g}; add rows with other "
            f"scores, or leave data.dev.{name} out"
        )
    return rows


def check_scores(source: Source, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, and check each score by :func:`read_score`."""
    for number, row in enumerate(rows, start=1):
        read_score(source, number, row["score"])
        yield row


def read_score(source: Source, number: int, value: str) -> float:
    """Convert a gold score to a number.

    Raises:
        DataError: it is no finite number; the message names the source and the row.
    """
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise DataError(
            f"{describe_source(source)}, row {number}: expected a number as score, found {value!r}; "
            "fix or drop the row"
        )
    return score
