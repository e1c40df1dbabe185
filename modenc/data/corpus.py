"""A language's running text: filtered, counted, and split into training and held-out lines."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from modenc.data.files import Row
from modenc.data.filters import FilterReport, RowShape, TextFilter
from modenc.data.language_check import check_enough
from modenc.data.readers import describe_source, read_rows, resolve_source
from modenc.data.text import stable_hash
from modenc.langid import LanguageIdentifier
from modenc.recipe.settings import LanguagePlan, Source

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SourceRecord:
    """One source as a card names it."""

    role: str
    source: str
    licence: str
    rows: int


@dataclass(frozen=True)
class Corpus:
    """Running text."""

    train: list[str]
    held_out: list[str]
    """Chosen by a hash of the line and the run's seed: the same lines whatever else changes."""
    report: FilterReport
    sources: list[SourceRecord]
    digest: str
    """sha256 of the content."""


def load_text(plan: LanguagePlan, identifier: LanguageIdentifier | None) -> Corpus:
    """Read and filter ``data.text``.

    Raises:
        DataError: a source cannot be read, too little of it is in the language, or under 50 lines are usable.
    """
    selector = TextFilter(plan.data, plan.lang, identifier)
    shape = RowShape(required=("text",), own=("text",))
    rows, sources = read_sources(plan, selector, plan.data.text, "text", shape)
    lines = [row["text"] for row in rows]
    check(plan, selector, len(lines), "text")
    held_out = held_out_positions([row["text"] for row in rows], plan.data.dev.text_held_out, plan.run.seed)
    return Corpus(
        train=[line for number, line in enumerate(lines) if number not in held_out],
        held_out=[lines[number] for number in sorted(held_out)],
        report=selector.report,
        sources=sources,
        digest=digest_of(lines, [str(plan.data.dev.text_held_out)]),
    )


def read_sources(
    plan: LanguagePlan, selector: TextFilter, sources: Sequence[Source], role: str, shape: RowShape
) -> tuple[list[Row], list[SourceRecord]]:
    """The kept rows of all sources, each repeated as its source asks, and a record of each source."""
    kept: list[Row] = []
    records = []
    for source in sources:
        rows = list(selector.select(_rows(plan, source, shape), shape))
        kept += rows * source.repeat
        records.append(SourceRecord(role, describe(plan, source), source.licence, len(rows)))
    return kept, records


def describe(plan: LanguagePlan, source: Source) -> str:
    """The source in words, its placeholders filled in, without the path of the data folder."""
    return describe_source(resolve_source(source, plan.lang, plan.pivot))


def _rows(plan: LanguagePlan, source: Source, shape: RowShape) -> Iterable[Row]:
    return read_rows(source, plan.data.root, plan.lang, plan.pivot, shape.required)


def check(plan: LanguagePlan, selector: TextFilter, usable: int, what: str) -> None:
    """Refuse a corpus that is mostly another language, or too small; log what was kept."""
    selector.check_share()
    check_enough(usable, plan.lang, what, selector.report.summary())
    logger.info("  %s: %s", what, selector.report.summary())


def held_out_positions(keys: Sequence[str], count: int, seed: int) -> set[int]:
    """Positions of the ``count`` smallest seeded hashes, at most a tenth of all."""
    count = min(count, len(keys) // 10)
    order = sorted(range(len(keys)), key=lambda number: stable_hash(keys[number], str(seed)))
    return set(order[:count])


def digest_of(*parts: Iterable[str]) -> str:
    """sha256 over strings, in order."""
    digest = hashlib.sha256()
    for text in _flat(parts):
        digest.update(text.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _flat(parts: Iterable[Iterable[str]]) -> Iterator[str]:
    for part in parts:
        yield from part
        yield "\x1f"
