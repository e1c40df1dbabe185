"""Pairs of sentences: paraphrases, translations, and paraphrases across languages."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

from modenc.data.collect import Collected, SourceRecord, collect, digest, hold_out
from modenc.data.files import Row
from modenc.data.filters import FilterReport, RowShape
from modenc.data.joining import (
    SCORED_ROLES,
    TRIPLET_ROLES,
    read_cross_paraphrases,
    read_cross_scored,
    read_parallel,
    read_paraphrases,
)
from modenc.data.language_check import check_enough
from modenc.data.readers import describe_source, read_rows, resolve_source
from modenc.data.text import normalise
from modenc.errors import DataError
from modenc.langid import LanguageIdentifier
from modenc.recipe.settings import LanguagePlan, Source

logger = logging.getLogger(__name__)

StsRow = tuple[str, str, float]


@dataclass(frozen=True)
class ParaphraseRow:
    """A sentence, one that means the same, and perhaps one that looks alike and does not."""

    anchor: str
    positive: str
    negative: str | None


@dataclass(frozen=True)
class ScoredRow:
    """Two sentences and how alike they are, on any scale."""

    sentence1: str
    sentence2: str
    score: float


@dataclass(frozen=True)
class ParallelRow:
    """A sentence in the pivot language and its translation."""

    pivot: str
    text: str


@dataclass(frozen=True)
class CrossRow:
    """A sentence, a paraphrase of it in the pivot language, and perhaps a hard negative there."""

    text: str
    pivot: str
    pivot_negative: str | None


@dataclass(frozen=True)
class CrossScoredRow:
    """Two sentences, their translations in the pivot language, and how alike they are, on any scale."""

    sentence1: str
    sentence2: str
    pivot1: str
    pivot2: str
    score: float


@dataclass(frozen=True)
class PairSet:
    """Paraphrases within one language."""

    rows: list[ParaphraseRow]
    report: FilterReport
    sources: list[SourceRecord]
    digest: str


@dataclass(frozen=True)
class ScoredSet:
    """Pairs with graded similarity."""

    rows: list[ScoredRow]
    report: FilterReport
    sources: list[SourceRecord]
    digest: str


@dataclass(frozen=True)
class ParallelSet:
    """Translations; no pivot sentence of ``held_out`` is in ``train``."""

    train: list[ParallelRow]
    held_out: list[ParallelRow]
    report: FilterReport
    sources: list[SourceRecord]
    digest: str


@dataclass(frozen=True)
class CrossSet:
    """Paraphrases across the language and the pivot."""

    rows: list[CrossRow]
    report: FilterReport
    sources: list[SourceRecord]
    digest: str


@dataclass(frozen=True)
class CrossScoredSet:
    """Pairs with graded similarity, in the language and in the pivot."""

    rows: list[CrossScoredRow]
    report: FilterReport
    sources: list[SourceRecord]
    digest: str


@dataclass(frozen=True)
class DevSets:
    """Sentence pairs with gold similarities; in ``cross_sts`` the first sentence is the pivot's."""

    sts: list[StsRow]
    cross_sts: list[StsRow]


def load_paraphrases(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> PairSet:
    """The paraphrases of ``plan.data.paraphrases``, filtered; empty where no source is named.

    Raises:
        DataError: a source cannot be read, none of its rows is usable, or it is in another language.
    """
    collected = collect(
        plan,
        identifier,
        "paraphrases",
        lambda source: read_paraphrases(source, plan),
        RowShape(required=TRIPLET_ROLES, own=TRIPLET_ROLES, optional="negative"),
    )
    _check(collected, plan, "paraphrases")
    rows = [ParaphraseRow(r["anchor"], r["positive"], r["negative"] or None) for r in collected.rows()]
    return PairSet(rows, collected.report, collected.sources, _digest(rows))


def load_scored_pairs(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> ScoredSet:
    """The graded pairs of ``plan.data.scored_pairs``, in any language; empty where no source is named.

    Raises:
        DataError: a source cannot be read, none of its rows is usable, or a score is no finite number.
    """
    collected = collect(
        plan,
        identifier,
        "scored_pairs",
        lambda source: _with_scores(
            source, plan, read_rows(source, plan.data.root, plan.lang, plan.pivot, roles=SCORED_ROLES)
        ),
        RowShape(required=("sentence1", "sentence2"), own=(), carried=("score",)),
    )
    _check(collected, plan, "scored_pairs")
    rows = [ScoredRow(r["sentence1"], r["sentence2"], float(r["score"])) for r in collected.rows()]
    return ScoredSet(rows, collected.report, collected.sources, _digest(rows))


def load_parallel(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> ParallelSet:
    """The translations of ``plan.data.parallel``, filtered; empty where no source is named.

    Raises:
        DataError: a source cannot be read, none of its rows is usable, or it is in another language.
    """
    collected = collect(
        plan,
        identifier,
        "parallel",
        lambda source: read_parallel(source, plan),
        RowShape(required=("pivot", "text"), own=("text",)),
    )
    _check(collected, plan, "parallel")
    train, held_out = (
        [ParallelRow(row["pivot"], row["text"]) for row in rows]
        for rows in hold_out(collected, plan.data.dev.parallel_held_out, "pivot")
    )
    return ParallelSet(train, held_out, collected.report, collected.sources, _digest(train, held_out))


def load_cross_paraphrases(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> CrossSet:
    """The cross-lingual paraphrases of ``plan.data.cross_paraphrases``; empty without a source.

    Raises:
        DataError: a source cannot be read, none of its rows is usable, or it is in another language.
    """
    collected = collect(
        plan,
        identifier,
        "cross_paraphrases",
        lambda source: read_cross_paraphrases(source, plan),
        RowShape(required=("text", "pivot"), own=("text",), optional="pivot_negative"),
    )
    _check(collected, plan, "cross_paraphrases")
    rows = [CrossRow(r["text"], r["pivot"], r["pivot_negative"] or None) for r in collected.rows()]
    return CrossSet(rows, collected.report, collected.sources, _digest(rows))


def load_cross_scored_pairs(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> CrossScoredSet:
    """The graded pairs of ``plan.data.cross_scored_pairs``, in both languages; empty without a source.

    Raises:
        DataError: a source cannot be read, none of its rows is usable, it is in another language, or a score
            is no finite number.
    """
    collected = collect(
        plan,
        identifier,
        "cross_scored_pairs",
        lambda source: _with_scores(source, plan, read_cross_scored(source, plan)),
        RowShape(
            required=("sentence1", "sentence2", "pivot1", "pivot2"),
            own=("sentence1", "sentence2"),
            carried=("score",),
        ),
    )
    _check(collected, plan, "cross_scored_pairs")
    rows = [
        CrossScoredRow(r["sentence1"], r["sentence2"], r["pivot1"], r["pivot2"], float(r["score"]))
        for r in collected.rows()
    ]
    return CrossScoredSet(rows, collected.report, collected.sources, _digest(rows))


def load_dev(plan: LanguagePlan) -> DevSets:
    """The development sets of ``plan.data.dev``, normalised and otherwise as they are.

    Raises:
        DataError: a source cannot be read, a score is not a finite number, or all of a set are the same.
    """
    dev = plan.data.dev
    return DevSets(sts=_sts(dev.sts, plan, "sts"), cross_sts=_sts(dev.cross_sts, plan, "cross_sts"))


def _with_scores(source: Source, plan: LanguagePlan, rows: Iterable[Row]) -> Iterator[Row]:
    source = resolve_source(source, plan.lang, plan.pivot)
    for number, row in enumerate(rows, start=1):
        read_score(source, number, row["score"])
        yield row


def _sts(sources: Sequence[Source], plan: LanguagePlan, role: str) -> list[StsRow]:
    rows: list[StsRow] = []
    for source in sources:
        found = read_rows(source, plan.data.root, plan.lang, plan.pivot, roles=SCORED_ROLES)
        for number, row in enumerate(found, start=1):
            score = read_score(source, number, row["score"])
            rows.append((normalise(row["sentence1"]), normalise(row["sentence2"]), score))
    if rows and len({score for *_, score in rows}) == 1:
        # A rank correlation with them is no number, and nothing could be chosen by it.
        raise DataError(
            f"{plan.lang}: data.dev.{role} ({', '.join(map(describe_source, sources))}): expected rows of "
            f"different scores, found {len(rows)} with the score {rows[0][2]:g}; add rows with other scores, "
            f"or leave data.dev.{role} out"
        )
    return rows


def read_score(source: Source, number: int, value: str) -> float:
    """A gold score.

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
            "mend or drop the row"
        )
    return score


def _check(collected: Collected, plan: LanguagePlan, role: str) -> None:
    if not collected.sources:
        return
    summary = collected.report.summary()
    what = f"pairs (data.{role})"
    check_enough(collected.size, plan.lang, what, summary, minimum=1)
    logger.info("%s %s: %s", plan.lang, role.replace("_", " "), summary)


def _digest(*parts: Sequence[ParaphraseRow | ScoredRow | ParallelRow | CrossRow | CrossScoredRow]) -> str:
    return digest(*([astuple(row) for row in part] for part in parts))
