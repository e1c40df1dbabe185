"""Rows of text, TSV, CSV, JSONL and Parquet files, plain or compressed, one at a time."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from modenc.data.limits import (
    LINE_BYTES,
    CharacterLimit,
    decompressed,
    limited_batches,
    name_limit,
)
from modenc.errors import DataError
from modenc.suggest import closest_match
from modenc.texts import is_missing

Row = dict[str, str]


class NonText(str):
    """A value that is no text in its file: null, a number, true or false."""

    __slots__ = ("place",)
    place: str
    """File and line or row, for messages."""


COMPRESSIONS = (".gz", ".zst")

# Characters of a header in messages.
_MOST_SHOWN = 1000


def read_file(path: Path) -> Iterator[Row]:
    """Read the rows of a file as a stream, each as column → value; the name's ending says the format.

    A text file has one column, ``text``, and a row for each line, also for empty ones. TSV is read literally
    (no quotes), CSV with quotes; both start with a header line. Nested values in JSON and Parquet become
    dotted columns: ``translation.en``, ``set.0``.

    Raises:
        DataError: the file is missing, of an unknown format, damaged or not UTF-8.
    """
    if not path.is_file():
        raise DataError(_missing_file(path))
    return FORMATS[file_format(path)](path)


def file_format(path: Path) -> str:
    """Return the ending that says a file's format, without ``.gz`` / ``.zst``: ``.tsv`` for ``a.tsv.gz``.

    Raises:
        DataError: the format is unknown.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    ending = suffixes[-1] if suffixes else ""
    if ending not in FORMATS:
        raise DataError(
            f"{path}: expected a file ending in {', '.join(FORMATS)} (plain, .gz or .zst), "
            f"found {ending or 'no ending'!r}; rename or convert it"
        )
    return ending


def flatten(record: dict[str, Any]) -> Row:
    """Convert a record's values to strings; dicts and lists become dotted columns, null ``""``.

    Bytes are read as UTF-8, and left out if they are something else.

    Raises:
        DataError: the names of the columns have more than 4 million characters.
    """
    row: Row = {}
    _flatten_into(row, record.items(), "", name_limit())
    return row


def _flatten_into(row: Row, values: Iterable[tuple[object, Any]], prefix: str, names: CharacterLimit) -> None:
    for name, value in values:
        column = names.add(f"{prefix}{name}")
        if isinstance(value, str):
            row[column] = value
        elif isinstance(value, dict):
            _flatten_into(row, value.items(), f"{column}.", names)
        elif isinstance(value, list | tuple):
            _flatten_into(row, enumerate(value), f"{column}.", names)
        elif isinstance(value, bool):
            row[column] = NonText(str(value).lower())
        elif isinstance(value, bytes):
            # Images and other binary columns have no text.
            with suppress(UnicodeDecodeError):
                row[column] = value.decode("utf-8")
        else:
            row[column] = NonText("" if is_missing(value) else str(value))


def _flattened(record: dict[str, Any], place: str) -> Row:
    try:
        row = flatten(record)
        for value in row.values():
            if isinstance(value, NonText):
                value.place = place
        return row
    except RecursionError as error:
        raise DataError(f"{place}: nested too deeply to be columns; flatten it") from error
    except DataError as error:
        raise DataError(f"{place}: {error}") from error


_CHECK = "check the path, and where it starts from (data.root, --data)"


def _missing_file(path: Path) -> str:
    folder = path.parent
    if path.exists():
        found = "a folder" if path.is_dir() else "a pipe or device"
        return f"{path}: expected a file, found {found}; give a file's path"
    if not folder.is_dir():
        return f"{path}: no such file, nor its folder; {_CHECK}"
    near = closest_match(path.name, (entry.name for entry in folder.iterdir()), 0.5)
    hint = f"did you mean {near!r}?" if near else _CHECK
    return f"{path}: no such file; {hint}"


def text_in_column(
    row: Row, column: str, path: Path, number: int, option: str = "", *, may_be_null: bool = False
) -> str:
    """Return the text that a row has in a column; with ``may_be_null`` an empty one for null.

    The file, the row's number from 1, and the option that named the column (``--column``) are for messages.

    Raises:
        DataError: there is no such column, or its value is no text (null, a number).
    """
    if column not in row:
        if near := closest_match(column, row, 0.5):
            hint = f"did you mean {option} {near}?" if option else f"did you mean {near!r}?"
        else:
            hint = "name the column of the texts" + (f" with {option}" if option else "")
        raise DataError(
            f"{path}, row {number}: expected a column {column!r} of text in UTF-8, "
            f"found {', '.join(row) or 'none'}; {hint}"
        )
    text = row[column]
    if isinstance(text, NonText) and (text or not may_be_null):
        raise DataError(
            f"{text.place}: expected a text in {column!r}, found {str(text)[:60] or 'null'}; drop the row, "
            "or write the text in quotes"
        )
    return str(text)


def _open(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix.lower() == ".zst":
        import pyarrow as pa

        # The package zstandard would end a truncated file without an error.
        return io.BufferedReader(pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


# Exceptions on reading a damaged compressed file.
_DAMAGE = (OSError, EOFError, zlib.error)


def read_lines(stream: BinaryIO, where: str) -> Iterator[str]:
    r"""Read lines without their ends; only ``\n`` and ``\r\n`` end one, and a byte order mark is dropped.

    Raises:
        DataError: a line is longer than 16 MB, or not UTF-8; ``where`` is the stream's name.
    """
    for number, raw in enumerate(iter(lambda: stream.readline(LINE_BYTES), b""), start=1):
        if len(raw) == LINE_BYTES:
            found = f"expected at most {LINE_BYTES >> 20} MB in a line, found more; is it text?"
            raise DataError(f"{where}, line {number}: {found}")
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where}, line {number}: expected UTF-8, found byte 0x{error.object[error.start]:02x} at "
                f"position {error.start}; convert it, e.g. with iconv -f ENCODING -t UTF-8"
            ) from error
        yield line


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Read the lines of a file, numbered from 1."""
    number = 0
    with _open(path) as stream:
        try:
            for number, line in enumerate(read_lines(stream, str(path)), start=1):
                yield number, line
        except _DAMAGE as error:
            raise DataError(
                f"{path}: damaged after line {number} ({error}); fetch or compress it again"
            ) from error


def _read_text(path: Path) -> Iterator[Row]:
    for _, line in _lines(path):
        yield {"text": line}


def _read_tsv(path: Path) -> Iterator[Row]:
    lines = ((number, line.split("\t")) for number, line in _lines(path) if line or number == 1)
    return _table(path, lines)


def _read_csv(path: Path) -> Iterator[Row]:
    return _table(path, _csv_lines(path))


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    # Python's csv refuses fields above 128 KiB by default; a web page is longer.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))
    limit = CharacterLimit(LINE_BYTES, "a row", "fix its quotes, or split it into several")
    # Fields may span lines, so each line keeps its end.
    lines = (limit.add(f"{line}\n", f"{path}, line {number}: ") for number, line in _lines(path))
    reader = csv.reader(lines, strict=True)
    try:
        for fields in reader:
            limit.count = 0
            if fields or reader.line_num == 1:
                yield reader.line_num, fields
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not valid CSV ({error}); fix its quotes") from error


def _table(path: Path, lines: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    """Make rows of the fields of numbered lines, the first of which is the header."""
    _, header = next(lines, (0, None))
    if header is None:
        raise DataError(f"{path}: expected a header line with column names, found an empty file")
    _check_header(path, header)
    for number, fields in lines:
        if len(fields) != len(header):
            raise DataError(
                f"{path}, line {number}: expected {len(header)} fields ({', '.join(header)[:_MOST_SHOWN]}), "
                f"found {len(fields)}; fix the line (tabs and line ends inside a field are not allowed in "
                "TSV)"
            )
        yield dict(zip(header, fields, strict=True))


def _check_header(path: Path, names: list[str]) -> None:
    limit = name_limit()
    for name in names:
        limit.add(f"{name}.", f"{path}, line 1: ")
    # Columns without a name cannot be asked for, so there may be several.
    if twice := next((name for name, count in Counter(names).items() if name and count > 1), None):
        raise DataError(
            f"{path}, line 1: expected column names that differ, found {twice[:_MOST_SHOWN]!r} twice; "
            "rename one"
        )


def _read_jsonl(path: Path) -> Iterator[Row]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            record = json.loads(line)
        # RecursionError: objects nested thousands deep.
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: not valid JSON ({error}); expected one object a line") from error
        if not isinstance(record, dict):
            raise DataError(
                f"{place}: expected a JSON object, found {type(record).__name__}; "
                'write each row as {"column": "value", ...}'
            )
        yield _flattened(record, place)


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa

    number = 0
    try:
        with _open(path) as stream:
            # Parquet needs to seek, which a compressed stream cannot do cheaply.
            compressed = path.suffix.lower() in COMPRESSIONS
            source = io.BytesIO(decompressed(stream, path)) if compressed else stream
            for batch in limited_batches(source, path):
                for record in batch.to_pylist():
                    number += 1
                    yield _flattened(record, f"{path}, row {number}")
    except (pa.ArrowException, UnicodeDecodeError, RecursionError, OverflowError, *_DAMAGE) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); fetch or write it again") from error


FORMATS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".txt": _read_text,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
}
