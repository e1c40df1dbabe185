"""Translation of a file in shards, with a filter and a record of how it was translated."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from modenc import __version__
from modenc.data.formats import Row, file_format, read_file
from modenc.errors import DataError
from modenc.provenance import TranslationRecord, write_record
from modenc.shards import KEPT, ShardFolder
from modenc.storage import disk_errors, sync, whole_file
from modenc.translation.output_columns import OutputColumns
from modenc.translation.pair_filter import REASONS, FilterSettings, PairFilter, first_reason
from modenc.translation.steps import Chain, credit
from modenc.translation.tables import Columns, OutputRow, output_format, write_table

RULES_SHARD, MODELS_SHARD = 512, 64
"""Rows in a shard, by engine: an interrupted run loses at most one shard, about a minute of work."""


@dataclass(frozen=True)
class TranslationJob:
    """A file to translate, and how its output is written."""

    input: Path
    """Input file: text, TSV, CSV, JSONL or Parquet."""
    output: Path
    """Output file: ``.txt``, ``.tsv``, ``.jsonl`` (also ``.gz``) or ``.parquet``."""
    layout: OutputColumns
    filters: FilterSettings = field(default_factory=FilterSettings)
    license: str = ""
    """License of the text."""
    shard_size: int = RULES_SHARD
    before: TranslationRecord | None = None
    """Record of the input, if it is a translation itself."""
    encoder: dict[str, Any] = field(default_factory=dict)
    """Description of the encoder that computes the vectors for ``filters.min_similarity``."""


@dataclass(frozen=True)
class Summary:
    """Counts of rows."""

    read: int
    kept: int
    dropped: dict[str, int]
    """Reason, one of ``pair_filter.REASONS`` → number of dropped rows."""
    cut: int
    """Number of rows that were truncated, since they are longer than the model's maximum length."""

    def line(self) -> str:
        """Summarize the counts: ``read 1,000, kept 940 (40 with unknown words, 20 copies of the source)``."""
        reasons = [f"{count:,} {REASONS[reason]}" for reason, count in self.dropped.items()]
        return f"read {self.read:,}, kept {self.kept:,}" + (f" ({', '.join(reasons)})" if reasons else "")


def translate_file(
    job: TranslationJob,
    chain: Chain,
    pair_filter: PairFilter,
    progress: Callable[[int], object] = lambda rows: None,
) -> Summary:
    """Translate a file; an interrupted run resumes from its last shard, with the same bytes as output.

    ``progress`` is called with the number of newly finished rows.

    Raises:
        DataError: the input cannot be read or lacks a column; the engine translates nothing; or another
            process writes the output.
        StorageError: the disk is full or read-only.
    """
    # A shard holds output rows, each with the reason to drop it or none.
    shards = ShardFolder(job.output, ".jsonl")
    with shards.alone():
        state = _state(job.input)
        steps = chain.describe()
        done = shards.begin(_entries(job, steps) | state, resumable=True)
        rows = _rows(job)
        progress(sum(1 for _ in islice(rows, done * job.shard_size)))
        while batch := list(islice(rows, job.shard_size)):
            lines = list(_translate(job, chain, pair_filter, batch))
            if _state(job.input) != state:
                raise DataError(f"{job.input}: changed while it was translated; run the same command again")
            with shards.writing(done) as stream:
                stream.writelines(f"{json.dumps(line)}\n".encode() for line in lines)
            done += 1
            progress(len(batch))
        summary = _write_output(job, [shards.shard(number) for number in range(done)], steps)
        shards.remove()
    return summary


def check_first_row(job: TranslationJob) -> None:
    """Check that there are rows with the job's columns, before a model is loaded or anything is written.

    Raises:
        DataError: the input cannot be read, has no rows or lacks a column.
    """
    first = next(_rows(job), None)
    if first is None:
        raise DataError(f"{job.input}: expected rows to translate, found none")
    job.layout.texts(first[1], job.input, first[0])


def _rows(job: TranslationJob) -> Iterator[tuple[int, Row]]:
    """Yield rows, numbered from 1; the lines of plain text are in the first column of ``job.layout``."""
    plain = job.input.is_file() and file_format(job.input) == ".txt"
    for number, row in enumerate(read_file(job.input), start=1):
        yield number, {job.layout.columns[0]: row["text"]} if plain else row


def _translate(
    job: TranslationJob, chain: Chain, pair_filter: PairFilter, batch: list[tuple[int, Row]]
) -> Iterator[dict[str, Any]]:
    """Yield an entry of the shard for each row."""
    width = len(job.layout.columns)
    texts = [text for number, row in batch for text in job.layout.texts(row, job.input, number)]
    results = chain.translate(texts)
    reasons, cosines = pair_filter.check(list(zip(texts, results, strict=True)))
    for i, (_, row) in enumerate(batch):
        own = slice(i * width, (i + 1) * width)
        yield {
            "record": job.layout.output_row(row, texts[own], results[own], cosines[own]),
            "reason": first_reason(reasons[own]),
            "cut": any(result.cut for result in results[own]),
        }


def _write_output(job: TranslationJob, shards: list[Path], steps: list[dict[str, Any]]) -> Summary:
    columns: Columns = {}
    counts, cut = Counter[str](), 0
    for line in _lines(shards):
        for name, value in line["record"].items():
            columns.setdefault(name, set()).add(type(value))
        counts[line["reason"]] += 1
        cut += line["cut"]
    dropped = {reason: counts[reason] for reason in REASONS if counts[reason]}
    summary = Summary(counts.total(), counts[""], dropped, cut)
    ending = output_format(job.output)
    if ending == ".txt":
        columns = {job.layout.output_column(job.layout.columns[0]): {str}}
    with disk_errors(job.output, KEPT), whole_file(job.output) as temporary:
        write_table(temporary, ending, columns, _kept_rows(shards, ending))
        sync(temporary)
        # Before the output, so that the output always has a record.
        write_record(job.output, _record(job, steps, summary))
    return summary


def _kept_rows(shards: list[Path], ending: str) -> Iterator[OutputRow]:
    """Yield the rows to write; in plain text, a dropped row is an empty line, so that lines stay aligned."""
    for line in _lines(shards):
        if not line["reason"]:
            yield line["record"]
        elif ending == ".txt":
            yield {}


def _lines(shards: list[Path]) -> Iterator[dict[str, Any]]:
    for shard in shards:
        with shard.open(encoding="utf-8") as stream:
            yield from map(json.loads, stream)


def _entries(job: TranslationJob, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return all that must be equal for finished shards to be used again."""
    entries = {
        "input": str(job.input.resolve()),
        "layout": asdict(job.layout),
        "filters": asdict(job.filters),
        "encoder": job.encoder,
        "shard_size": job.shard_size,
        "engine": steps,
    }
    plain: dict[str, Any] = json.loads(json.dumps(entries))  # tuples become lists, as when they are read
    return plain


def _state(path: Path) -> dict[str, Any]:
    found = path.stat()
    return {"size": found.st_size, "date": found.st_mtime_ns}


def _record(job: TranslationJob, steps: list[dict[str, Any]], summary: Summary) -> TranslationRecord:
    before = job.before
    return TranslationRecord(
        translator=f"{before.translator}, then {credit(steps)}" if before else credit(steps),
        license=job.license,
        text=job.input.name,
        source=job.layout.source,
        target=job.layout.target,
        made_by=f"modenc {__version__}",
        steps=[*(before.steps if before else ()), *steps],
        columns=list(job.layout.columns),
        filters=asdict(job.filters),
        counts=asdict(summary),
    )
