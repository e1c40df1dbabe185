"""A whole file translated: a shard at a time, filtered, and with a record of how it came about."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from modenc import __version__
from modenc.data.files import Row, format_of, read_file
from modenc.errors import DataError
from modenc.provenance import TranslationRecord, write_record
from modenc.shards import KEPT, ShardFolder
from modenc.storage import storing, sync
from modenc.translation.filters import REASONS, FilterSettings, PairFilter, first_reason
from modenc.translation.rows import Layout
from modenc.translation.steps import Chain, credit
from modenc.translation.tables import Columns, Record, output_format, write_table

RULES_SHARD, MODELS_SHARD = 512, 64
"""Rows of a shard, by engine: a minute's work or less, which a run that is cut off may lose."""


@dataclass(frozen=True)
class TranslationJob:
    """What is translated to what."""

    input: Path
    """Text, TSV, CSV, JSONL or Parquet."""
    output: Path
    """``.txt``, ``.tsv``, ``.jsonl`` (also ``.gz``) or ``.parquet``."""
    layout: Layout
    """Columns and languages."""
    filters: FilterSettings = field(default_factory=FilterSettings)
    """What the translations must be like."""
    licence: str = ""
    """Of the text."""
    shard_size: int = RULES_SHARD
    """Rows between two savings."""
    before: TranslationRecord | None = None
    """The input's own record, where it is a translation itself."""
    encoder_digest: str = ""
    """Of what makes the vectors for ``filters.min_similarity``."""
    column_option: str = ""
    """What the columns were named with, for messages, such as ``--column``."""


@dataclass(frozen=True)
class Summary:
    """What became of the rows."""

    read: int
    kept: int
    dropped: dict[str, int]
    """Reason → rows; the reasons are those of ``filters.REASONS``."""
    cut: int
    """Rows of which the end was not translated, since the model takes no more."""

    def line(self) -> str:
        """One line: ``read 1,000, kept 940 (40 with unknown words, 20 copies of the source)``."""
        reasons = [f"{count:,} {REASONS[reason]}" for reason, count in self.dropped.items()]
        return f"read {self.read:,}, kept {self.kept:,}" + (f" ({', '.join(reasons)})" if reasons else "")


class _Shards(ShardFolder):
    """Rows with the reason to drop them, until the output is written."""

    @property
    def suffix(self) -> str:
        return ".jsonl"


def translate_file(
    job: TranslationJob,
    chain: Chain,
    pair_filter: PairFilter,
    progress: Callable[[int], object] = lambda rows: None,
) -> Summary:
    """Translate a file; a run that was cut off goes on from its last shard, to the same bytes.

    Args:
        job: what is translated to what.
        chain: what translates.
        pair_filter: what checks the translations.
        progress: called with the number of rows that are newly done.

    Raises:
        DataError: the input cannot be read, has no rows or lacks a column; the engine translates nothing; or
            another process writes the output.
        StorageError: the disk is full or read-only.
    """
    check_first_row(job)
    shards = _Shards(job.output)
    with shards.alone():
        state = _state(job.input)
        steps = chain.describe()
        done = shards.begin(_entries(job, steps) | state, resumable=True)
        rows = _rows(job)
        progress(sum(1 for _ in islice(rows, done * job.shard_size)))
        while batch := list(islice(rows, job.shard_size)):
            lines = list(_translated(job, chain, pair_filter, batch))
            if _state(job.input) != state:
                raise DataError(f"{job.input}: changed while it was translated; run the same again")
            with shards.writing(done) as stream:
                stream.writelines(f"{json.dumps(line)}\n".encode() for line in lines)
            done += 1
            progress(len(batch))
        summary = _finish(job, [shards.shard(number) for number in range(done)], steps)
        shards.remove()
    return summary


def check_first_row(job: TranslationJob) -> None:
    """See that there are rows with the job's columns, before a model is loaded or anything is written.

    Raises:
        DataError: the input cannot be read, has no rows or lacks a column.
    """
    for number, row in _rows(job):
        job.layout.texts(row, job.input, number, job.column_option)
        return
    raise DataError(f"{job.input}: expected rows to translate, found none")


def _rows(job: TranslationJob) -> Iterator[tuple[int, Row]]:
    """Numbered rows from 1; a line of text has the column that the layout names."""
    plain = job.input.is_file() and format_of(job.input) == ".txt"
    for number, row in enumerate(read_file(job.input), start=1):
        yield number, {job.layout.columns[0]: row["text"]} if plain else row


def _translated(
    job: TranslationJob, chain: Chain, pair_filter: PairFilter, batch: list[tuple[int, Row]]
) -> Iterator[dict[str, Any]]:
    """What a shard has of each row."""
    width = len(job.layout.columns)
    texts = [
        text for number, row in batch for text in job.layout.texts(row, job.input, number, job.column_option)
    ]
    pairs = list(zip(texts, chain.translate(texts), strict=True))
    reasons, cosines = pair_filter.check(pairs)
    for position, (_, row) in enumerate(batch):
        part = slice(position * width, (position + 1) * width)
        results = [result for _, result in pairs[part]]
        yield {
            "record": job.layout.record(row, texts[part], results, cosines[part]),
            "reason": first_reason(reasons[part]),
            "cut": any(result.cut for result in results),
        }


def _finish(job: TranslationJob, shards: list[Path], steps: list[dict[str, Any]]) -> Summary:
    """Write the output and its record."""
    ending = output_format(job.output)
    columns, counts, cut = Columns(), Counter[str](), 0
    for line in _lines(shards):
        columns.see(line["record"])
        counts[line["reason"]] += 1
        cut += line["cut"]
    dropped = {reason: counts[reason] for reason in REASONS if counts[reason]}
    summary = Summary(counts.total(), counts[""], dropped, cut)
    # The same name each time, so that one that a killed run left is written over.
    temporary = job.output.with_name(f".tmp-{job.output.name}")
    with storing(job.output, KEPT):
        try:
            write_table(temporary, ending, columns, _kept(shards, job, ending))
            sync(temporary)
            # First, so that no output is ever without.
            write_record(job.output, _record(job, steps, summary))
            temporary.replace(job.output)
        finally:
            temporary.unlink(missing_ok=True)
    return summary


def _kept(shards: list[Path], job: TranslationJob, ending: str) -> Iterator[Record]:
    """The rows that are written; in plain text a dropped one is an empty line, so that lines stay aligned."""
    place = job.layout.output_column(job.layout.columns[0])
    for line in _lines(shards):
        if ending == ".txt":
            yield {place: "" if line["reason"] else line["record"][place]}
        elif not line["reason"]:
            yield line["record"]


def _lines(shards: list[Path]) -> Iterator[dict[str, Any]]:
    for shard in shards:
        with shard.open(encoding="utf-8") as stream:
            yield from map(json.loads, stream)


def _entries(job: TranslationJob, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """What must be the same for finished shards to count."""
    entries = {
        "input": str(job.input.resolve()),
        "layout": asdict(job.layout),
        "filters": asdict(job.filters),
        "encoder": job.encoder_digest,
        "shard_size": job.shard_size,
        "engine": steps,
    }
    plain: dict[str, Any] = json.loads(json.dumps(entries))  # tuples as the lists that they are read back as
    return plain


def _state(path: Path) -> dict[str, Any]:
    """What others may change while a run is at work; nothing of a file that is not there."""
    if not path.is_file():
        return {}
    found = path.stat()
    return {"size": found.st_size, "date": found.st_mtime_ns}


def _record(job: TranslationJob, steps: list[dict[str, Any]], summary: Summary) -> TranslationRecord:
    before = job.before
    return TranslationRecord(
        translator=f"{before.translator}, then {credit(steps)}" if before else credit(steps),
        licence=job.licence,
        text=job.input.name,
        source=job.layout.source,
        target=job.layout.target,
        made_by=f"modenc {__version__}",
        steps=[*(before.steps if before else ()), *steps],
        columns=list(job.layout.columns),
        filters=asdict(job.filters),
        counts=asdict(summary),
    )
