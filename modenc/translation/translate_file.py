"""Translation of a file to TSV, with a filter and a record of how it was translated."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from modenc import __version__
from modenc.data.formats import Row, file_format, read_file, text_in_column
from modenc.data.text import one_line
from modenc.errors import DataError
from modenc.provenance import TranslationRecord, read_record, write_record
from modenc.storage import disk_errors, sync, whole_file
from modenc.texts import normalize
from modenc.translation import Chain, credit
from modenc.translation.pair_filter import FilterSettings, PairFilter, first_reason

KEPT = "what was finished before is kept"
"""Part of error messages about failures to write."""

UNKNOWN = "unknown"
"""Column with the largest share of unknown words in a row's translations."""

_ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class TranslationJob:
    """What is translated in each file.

    A translation replaces the text of its column, and the original moves to ``COLUMN_SOURCE``
    (``sentence1_en``). A column called by the source's code (``en``) keeps its text, and the translation goes
    into a column called by the target's code; the lines of plain text are such a column.
    """

    source: str
    """Normalized code of the texts' language."""
    target: str
    """Normalized code of the translations' language."""
    columns: tuple[str, ...] = ()
    """Columns to translate; by default the lines of plain text, and the column ``text`` of other files."""
    filters: FilterSettings = field(default_factory=FilterSettings)
    unknown: bool = False
    """Whether to add the column of shares of unknown words."""
    license: str = ""
    """License of the texts; by default that of the record of a file that is a translation itself."""

    def columns_in(self, path: Path) -> tuple[str, ...]:
        """Return the columns to translate in a file.

        Raises:
            DataError: the file is plain text, and columns were named.
        """
        plain = path.is_file() and file_format(path) == ".txt"
        if plain and self.columns:
            raise DataError(f"{path}: plain text has no columns; leave out --column")
        return self.columns or (self.source if plain else "text",)

    def places(self, column: str) -> tuple[str, str]:
        """Return the output columns of the texts of a column, and of their translations."""
        if column == self.source:
            return column, self.target
        return f"{column}_{self.source}", column


@dataclass(frozen=True)
class Part:
    """An output file, ``.tsv`` or ``.tsv.gz``, and the rows of an input file that it is made of."""

    source: Path
    output: Path
    first: int
    """First row, from 0."""
    rows: int
    """Number of rows."""
    digest: str
    """Hash of the rows."""


def list_parts(
    job: TranslationJob, source: Path, outputs: Iterable[Path], size: int | None = None
) -> list[Part]:
    """Divide a file among outputs, ``size`` rows each; by default the first one has all rows.

    All rows are read, so that faults are found before hours of work.

    Raises:
        DataError: the file cannot be read, has no rows, lacks a column, or has one that the output adds.
    """
    rows, parts, first = _read(job, source), list[Part](), 0
    for output in outputs:
        hasher, count = hashlib.sha256(), 0
        for row in islice(rows, size):
            hasher.update(_hashed(row))
            count += 1
        if not count:
            break
        parts.append(Part(source, output, first, count, hasher.hexdigest()))
        first += count
    if not parts:
        raise DataError(f"{source}: expected rows to translate, found none")
    return parts


def describe_part(job: TranslationJob, chain: Chain, part: Part) -> TranslationRecord:
    """Describe what a part is made of: its record, without counts of rows."""
    before = read_record(part.source)
    steps = chain.describe()
    return TranslationRecord(
        translator=f"{before.translator}, then {credit(steps)}" if before else credit(steps),
        license=job.license or (before.license if before else ""),
        text=part.source.name,
        source=job.source,
        target=job.target,
        made_by=f"modenc {__version__}",
        steps=[*(before.steps if before else ()), *steps],
        columns=list(job.columns_in(part.source)),
        filters=asdict(job.filters),
        counts={},
        input=part.digest,
    )


def is_done(part: Part, record: TranslationRecord) -> bool:
    """Say whether a part is there already; a part has its name only when it is whole.

    Raises:
        DataError: the file is no part, or one that was made of anything else.
    """
    if not part.output.exists():
        return False
    found = read_record(part.output)
    names = [one.name for one in fields(record) if one.name not in ("made_by", "counts")]
    differing = [name for name in names if getattr(found, name, None) != getattr(record, name)]
    if differing:
        raise DataError(
            f"{part.output}: expected a part of the present input, engine and settings, found a "
            f"difference in {', '.join(differing)}; write to another folder, or "
            "delete the parts to translate them again"
        )
    return True


def translate_part(
    job: TranslationJob,
    chain: Chain,
    pair_filter: PairFilter,
    part: Part,
    progress: Callable[[int], object] = lambda rows: None,
) -> Counter[str]:
    """Translate a part; it is written whole or not at all, with its record beside it.

    ``progress`` is called with the number of newly finished rows.

    Returns:
        Numbers of rows: ``read``, ``kept``, ``cut`` (longer than the model's maximum length), and dropped
        ones by their reason, one of ``pair_filter.REASONS``.

    Raises:
        DataError: the input cannot be read, or changed meanwhile.
        StorageError: the disk is full or read-only.
    """
    rows = islice(_read(job, part.source), part.first, part.first + part.rows)
    counts, hasher, header = Counter[str](read=0, kept=0, cut=0), hashlib.sha256(), list[str]()
    record = describe_part(job, chain, part)
    with disk_errors(part.output, KEPT), whole_file(part.output) as temporary:
        with _open(temporary) as stream:
            while batch := list(islice(rows, _ROWS_AT_ONCE)):
                for row in batch:
                    hasher.update(_hashed(row))
                for output, reason, cut in _translate(job, chain, pair_filter, part.source, batch):
                    if not header:
                        header = list(output)
                        stream.write(_line(header))
                    if not reason:
                        stream.write(_line([output[name] for name in header]))
                    counts.update({"read": 1, reason or "kept": 1, "cut": int(cut)})
                progress(len(batch))
        if hasher.hexdigest() != part.digest:
            raise DataError(f"{part.source}: changed while it was translated; run the same command again")
        sync(temporary)
        # Before the output, so that the output always has a record.
        write_record(part.output, replace(record, counts=dict(counts)))
    return counts


def _read(job: TranslationJob, path: Path) -> Iterator[Row]:
    """Read the rows of a file; each has the columns of the first one, with normalized texts to translate."""
    columns = job.columns_in(path)
    added = {place for column in columns for place in job.places(column)} - {*columns} | (
        {UNKNOWN} if job.unknown else set()
    )
    plain = path.is_file() and file_format(path) == ".txt"
    header = list[str]()
    for number, row in enumerate(read_file(path), start=1):
        if plain:
            row = {columns[0]: row["text"]}
        header = header or list(row)
        if different := sorted({*row} ^ {*header}):
            raise DataError(
                f"{path}, row {number}: expected the columns of row 1, found a difference in "
                f"{', '.join(different)}; give each row all columns"
            )
        if taken := sorted(added.intersection(row)):
            raise DataError(
                f"{path}, row {number}: expected no column {taken[0]!r}, which is an output column; rename it"
            )
        texts = {
            column: normalize(text_in_column(row, column, path, number, may_be_null=True))
            for column in columns
        }
        yield row | texts


def _translate(
    job: TranslationJob, chain: Chain, pair_filter: PairFilter, path: Path, batch: Sequence[Row]
) -> Iterator[tuple[dict[str, str], str, bool]]:
    """Yield for each row the output row, the reason to drop it or "", and whether a text was cut."""
    columns = job.columns_in(path)
    texts = [row[column] for row in batch for column in columns]
    results = chain.translate(texts)
    reasons = pair_filter.check(texts, results)
    for number, row in enumerate(batch):
        own = slice(number * len(columns), (number + 1) * len(columns))
        output = dict(row)
        for column, result in zip(columns, results[own], strict=True):
            original, translation = job.places(column)
            output |= {original: row[column], translation: result.text}
        if job.unknown:
            output[UNKNOWN] = str(round(max(result.unknown for result in results[own]), 4))
        yield output, first_reason(reasons[own]), any(result.cut for result in results[own])


def _hashed(row: Row) -> bytes:
    return _line([*row, *row.values()]).encode()


def _line(values: Sequence[str]) -> str:
    return "\t".join(map(one_line, values)) + "\n"


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    with ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("wb"))
        if path.suffix == ".gz":
            # Without time and name, so that equal rows give equal bytes.
            stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
        yield stack.enter_context(io.TextIOWrapper(stream, encoding="utf-8", newline="\n"))
