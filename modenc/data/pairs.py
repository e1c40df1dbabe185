"""Pairs of sentences: paraphrases, translations, paraphrases across languages, development sets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from modenc.data.corpus import (
    SourceRecord,
    check,
    describe,
    digest_of,
    held_out_positions,
    read_sources,
)
from modenc.data.files import Row
from modenc.data.filters import FilterReport, RowShape, TextFilter
from modenc.data.readers import read_rows
from modenc.data.text import normalise
from modenc.errors import DataError
from modenc.langid import LanguageIdentifier
from modenc.recipe.settings import LanguagePlan, Source

logger = logging.getLogger(__name__)

_PARALLEL = RowShape(required=("pivot", "text"), own=("text",))
_PARAPHRASE = RowShape(required=("anchor", "positive"), own=("anchor", "positive"), optional="negative")


@dataclass(frozen=True)
class ParaphraseRow:
    """Two sentences of one meaning and, where there is one, a third of another."""

    anchor: str
    positive: str
    negative: str | None


@dataclass(frozen=True)
class ParallelRow:
    """A sentence and its translation in the pivot language."""

    pivot: str
    text: str


@dataclass(frozen=True)
class CrossRow:
    """A sentence and a paraphrase of it in the pivot language, perhaps with a hard negative there."""

    text: str
    pivot: str
    pivot_negative: str | None


@dataclass(frozen=True)
class PairSet:
    """Paraphrases within the language."""

    rows: list[ParaphraseRow]
    report: FilterReport
    sources: list[SourceRecord]
    digest: str


@dataclass(frozen=True)
class ParallelSet:
    """Translations, some of them set aside for retrieval accuracy."""

    train: list[ParallelRow]
    held_out: list[ParallelRow]
    report: FilterReport
    sources: list[SourceRecord]
    digest: str


@dataclass(frozen=True)
class CrossSet:
    """Paraphrases across languages."""

    rows: list[CrossRow]
    report: FilterReport
    sources: list[SourceRecord]
    digest: str


@dataclass(frozen=True)
class DevSets:
    """Sentence pairs with gold scores: (sentence1, sentence2, score)."""

    sts: list[tuple[str, str, float]]
    cross_sts: list[tuple[str, str, float]]
    """``sentence1`` is in the pivot language."""


def load_paraphrases(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> PairSet:
    """Read and filter ``data.paraphrases``.

    Raises:
        DataError: a source cannot be read, or too little of it can be used.
    """
    selector = TextFilter(plan.data, plan.lang, identifier)
    rows, sources = read_sources(plan, selector, plan.data.paraphrases, "paraphrases", _PARAPHRASE)
    check(plan, selector, len(rows), "paraphrases")
    pairs = [ParaphraseRow(row["anchor"], row["positive"], row.get("negative") or None) for row in rows]
    digest = digest_of(text for row in pairs for text in (row.anchor, row.positive, row.negative or ""))
    return PairSet(pairs, selector.report, sources, digest)


def load_parallel(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> ParallelSet:
    """Read and filter ``data.parallel``; pivot sentences are set aside with all their rows.

    Raises:
        DataError: a source cannot be read, two plain files differ in length, or too little can be used.
    """
    selector = TextFilter(plan.data, plan.lang, identifier)
    rows: list[Row] = []
    sources: list[SourceRecord] = []
    for source in plan.data.parallel:
        if source.pivot_path is None:
            kept, records = read_sources(plan, selector, [source], "parallel", _PARALLEL)
        else:
            kept = list(selector.select(_two_files(plan, source), _PARALLEL)) * source.repeat
            records = [
                SourceRecord("parallel", describe(plan, source), source.licence, len(kept) // source.repeat)
            ]
        rows += kept
        sources += records
    check(plan, selector, len(rows), "parallel pairs")
    distinct = list(dict.fromkeys((row["pivot"], row["text"]) for row in rows))
    chosen = held_out_positions(
        [pivot for pivot, _ in distinct], plan.data.dev.parallel_held_out, plan.run.seed
    )
    aside = {distinct[number][0] for number in chosen}
    held_out = {row[0]: ParallelRow(*row) for row in distinct if row[0] in aside}
    digest = digest_of(
        (text for row in rows for text in (row["pivot"], row["text"])), [str(plan.data.dev.parallel_held_out)]
    )
    return ParallelSet(
        train=[ParallelRow(row["pivot"], row["text"]) for row in rows if row["pivot"] not in aside],
        held_out=list(held_out.values()),
        report=selector.report,
        sources=sources,
        digest=digest,
    )


def _two_files(plan: LanguagePlan, source: Source) -> Iterator[Row]:
    """Rows of two line-aligned text files: ``path`` in the language, ``pivot_path`` in the pivot's."""
    own = [row["text"] for row in _plain(plan, source)]
    pivot = [row["text"] for row in _plain(plan, replace(source, path=source.pivot_path))]
    if len(own) != len(pivot):
        raise DataError(
            f"{plan.lang}: expected as many lines in {source.path} as in {source.pivot_path}, "
            f"found {len(own):,} and {len(pivot):,}; align the files line by line"
        )
    return ({"pivot": left, "text": right} for left, right in zip(pivot, own, strict=True))


def _plain(plan: LanguagePlan, source: Source) -> Iterator[Row]:
    return read_rows(source, plan.data.root, plan.lang, plan.pivot, ("text",))


def load_cross_paraphrases(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> CrossSet:
    """Join the language's paraphrases with the pivot's of the same key.

    A triplet gives two rows: the language's anchor with the pivot's positive and negative, and the
    language's positive with the pivot's anchor.

    Raises:
        DataError: a source cannot be read, has no ``pivot_path``, or too little can be used.
    """
    selector = TextFilter(plan.data, plan.lang, identifier)
    rows: list[CrossRow] = []
    sources = []
    for source in plan.data.cross_paraphrases:
        if source.pivot_path is None:
            raise DataError(
                f"{plan.lang}: data.cross_paraphrases needs pivot_path beside {source.path}: "
                "the pivot's rows of the same set, joined on key"
            )
        pivot = {row[source.key]: row for row in _keyed(plan, replace(source, path=source.pivot_path))}
        # The filters give back the roles alone, so a row is found again by its normal form.
        own = {normalise(row["anchor"]): row[source.key] for row in _keyed(plan, source)}
        kept = list(selector.select(_keyed(plan, source), _PARAPHRASE))
        for row in kept:
            other = pivot.get(own.get(row["anchor"], ""))
            if other is not None:
                rows.append(CrossRow(row["anchor"], other["positive"], other.get("negative") or None))
                rows.append(CrossRow(row["positive"], other["anchor"], None))
        sources.append(SourceRecord("cross_paraphrases", describe(plan, source), source.licence, len(kept)))
    check(plan, selector, len(rows), "cross-lingual paraphrases")
    digest = digest_of(text for row in rows for text in (row.text, row.pivot, row.pivot_negative or ""))
    return CrossSet(rows, selector.report, sources, digest)


def _keyed(plan: LanguagePlan, source: Source) -> Iterator[Row]:
    return read_rows(source, plan.data.root, plan.lang, plan.pivot, ("anchor", "positive", source.key))


def load_dev(plan: LanguagePlan) -> DevSets:
    """Read the development sets, unfiltered.

    Raises:
        DataError: a source cannot be read, or a score is not a number.
    """
    return DevSets(
        sts=[row for source in plan.data.dev.sts for row in _scored(plan, source)],
        cross_sts=[row for source in plan.data.dev.cross_sts for row in _scored(plan, source)],
    )


def _scored(plan: LanguagePlan, source: Source) -> Iterator[tuple[str, str, float]]:
    roles = ("sentence1", "sentence2", "score")
    for number, row in enumerate(read_rows(source, plan.data.root, plan.lang, plan.pivot, roles), start=1):
        try:
            yield row["sentence1"], row["sentence2"], float(row["score"])
        except ValueError:
            raise DataError(
                f"{describe(plan, source)}, row {number}: expected a number as score, found {row['score']!r}"
            ) from None
