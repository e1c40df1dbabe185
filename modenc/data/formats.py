"""Rows of text, TSV, CSV, JSONL and Parquet files, plain or compressed, one at a time."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, cast

from modenc.errors import DataError, closest_match
from modenc.texts import is_missing

Row = dict[str, str]

LINE_BYTES = 1 << 24
"""Longest line that is read, so that a file that is no text is refused before it fills the memory."""
_PARQUET_ROWS_AT_ONCE = 512


class NonText(str):
    """A value that is no text in its file: null, a number, true or false."""

    __slots__ = ()


COMPRESSIONS = (".gz", ".zst")

# Most characters of the names of columns in a message.
_MOST_SHOWN = 1000

Columns = Collection[str] | None
"""Names of the columns to read; None: all."""


def read_file(path: Path, columns: Columns = None) -> Iterator[Row]:
    """Read the rows of a file as a stream, each as column → value; the name's ending says the format.

    A text file has one column, ``text``, and a row for each line, also for empty ones. TSV is read literally
    (no quotes), CSV with quotes; both start with a header line. Nested values in JSON and Parquet become
    dotted columns: ``translation.en``, ``set.0``. A blank line is a row with an empty text where a table has
    one column; in JSONL and wider tables it is no row.

    Args:
        path: the file.
        columns: columns of JSONL and Parquet to read, where they are there, by default all. Of others a row
            has the name alone, with an empty :class:`NonText`. Other formats are read whole.

    Raises:
        DataError: the file is missing, of an unknown format, damaged or not UTF-8, or two columns have one
            name.
    """
    if not path.is_file():
        raise DataError(_missing_file(path))
    return FORMATS[file_format(path)](path, columns)


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


def flatten(record: dict[str, Any], columns: Columns = None) -> Row:
    """Convert a record's values to strings; dicts and lists become dotted columns, null ``""``.

    Bytes are read as UTF-8, and left out if they are something else. Of values that hold none of ``columns``
    only the names are kept.

    Raises:
        DataError: the names of two columns are the same, or values are nested too deeply.
    """
    row: Row = {}
    if columns is not None:
        inside = _inside(columns)
        record = {name: value if name in inside else None for name, value in record.items()}
    try:
        _flatten_into(row, record.items(), "")
    except RecursionError as error:
        raise DataError("nested too deeply to be columns; flatten it") from error
    return row


def _inside(columns: Collection[str]) -> set[str]:
    """Return the names of values that columns may be in: ``a``, ``a.b`` and ``a.b.c`` for ``a.b.c``."""
    return {name for column in columns for name in accumulate(column.split("."), "{}.{}".format)}


def _flatten_into(row: Row, values: Iterable[tuple[object, Any]], prefix: str) -> None:
    for name, value in values:
        column = f"{prefix}{name}"
        if column in row:
            raise DataError(_same_name(column))
        if isinstance(value, str):
            row[column] = value
        elif isinstance(value, dict):
            _flatten_into(row, value.items(), f"{column}.")
        elif isinstance(value, list | tuple):
            _flatten_into(row, enumerate(value), f"{column}.")
        elif isinstance(value, bool):
            row[column] = NonText(str(value).lower())
        elif isinstance(value, bytes):
            # Images and other binary columns have no text.
            with suppress(UnicodeDecodeError):
                row[column] = value.decode("utf-8")
        else:
            row[column] = NonText("" if is_missing(value) else str(value))


def _same_name(column: str) -> str:
    return f"expected column names that differ, found {column[:_MOST_SHOWN]!r} twice; rename one"


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
    row: Row, column: str, path: Path, number: int, option: str = "--column", *, may_be_null: bool = False
) -> str:
    """Return the text that a row has in a column; with ``may_be_null`` an empty one for null.

    The file, the row's number from 1, and the option that named the column are for messages.

    Raises:
        DataError: there is no such column, or its value is no text (null, a number).
    """
    if column not in row:
        raise DataError(missing_column(f"{path}, row {number}", column, row, option))
    text = row[column]
    if isinstance(text, NonText) and (text or not may_be_null):
        raise DataError(
            f"{path}, row {number}: expected a text in {column!r}, found {str(text)[:60] or 'null'}; "
            "drop the row, or store the value as a string"
        )
    return str(text)


def missing_column(place: str, column: str, names: Collection[str], setting: str) -> str:
    """Write the message about a column that is not there; ``setting`` is what names it."""
    near = closest_match(column, names, 0.5)
    guess = f"did you mean {near!r}? " if near else ""
    found = ", ".join(map(repr, names))[:_MOST_SHOWN] or "none"
    return (
        f"{place}: expected a column {column!r} of text in UTF-8, found {found}; {guess}"
        f"name the right one with {setting}"
    )


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


_RETURN = (
    "expected lines that end with \\n, found \\r; convert each \\r that ends a line "
    "(perl -pe 's/\\r\\n?/\\n/g'), and remove others (tr -d '\\r')"
)


def read_lines(stream: BinaryIO, where: str, *, quoted: bool = False) -> Iterator[str]:
    r"""Read lines without their ends; a byte order mark is dropped.

    Lines end with ``\n`` or ``\r\n``, and nothing else ends a line. Whether another ``\r`` is the end of a
    line or part of a text cannot be known, so it is refused; with ``quoted`` the caller does so, if it is
    outside of quotes.

    Raises:
        DataError: a line is longer than 16 MB, not UTF-8, or has ``\r`` within; ``where`` is the stream's
            name.
    """
    for number, raw in enumerate(iter(lambda: stream.readline(LINE_BYTES), b""), start=1):
        place = f"{where}, line {number}"
        if len(raw) >= LINE_BYTES:
            raise DataError(
                f"{place}: expected at most {LINE_BYTES >> 20} MB in a line, found more; is it text?"
            )
        if number == 1:
            if b"\0" in raw:
                raise DataError(
                    f"{place}: expected UTF-8, found a zero byte, as in UTF-16; convert it, e.g. with "
                    "iconv -f UTF-16LE -t UTF-8"
                )
            raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw:
                return
        try:
            # Programs that convert line ends twice write several \r before the \n.
            line = raw.removesuffix(b"\n").rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{place}: expected UTF-8, found byte 0x{error.object[error.start]:02x} at "
                f"position {error.start}; convert it, e.g. with iconv -f ENCODING -t UTF-8"
            ) from error
        if not quoted and "\r" in line:
            raise DataError(f"{place}: {_RETURN}")
        yield line


def _lines(path: Path, *, quoted: bool = False) -> Iterator[tuple[int, str]]:
    """Read the lines of a file, numbered from 1."""
    number = 0
    with _open(path) as stream:
        try:
            for number, line in enumerate(read_lines(stream, str(path), quoted=quoted), start=1):
                yield number, line
        except _DAMAGE as error:
            raise DataError(
                f"{path}: damaged after line {number} ({error}); fetch or compress it again"
            ) from error


def _read_text(path: Path, columns: Columns) -> Iterator[Row]:
    for _, line in _lines(path):
        yield {"text": line}


_TSV_FIELDS = "tabs and line ends inside a field are not allowed in TSV"
_CSV_FIELDS = "a field with commas or line ends has to be in quotes in CSV"


def _read_tsv(path: Path, columns: Columns) -> Iterator[Row]:
    return _table(path, ((number, line.split("\t")) for number, line in _lines(path)), _TSV_FIELDS)


def _read_csv(path: Path, columns: Columns) -> Iterator[Row]:
    return _table(path, _csv_lines(path), _CSV_FIELDS)


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    # Python's csv refuses fields above 128 KiB by default; a web page is longer.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES))
    # Fields may span lines, so each line keeps its end.
    reader = csv.reader((f"{line}\n" for _, line in _lines(path, quoted=True)), strict=True)
    try:
        for fields in reader:
            yield reader.line_num, fields or [""]
    except csv.Error as error:
        fault = f"not valid CSV ({error}); fix its quotes"
        if "new-line character" in str(error):
            fault = _RETURN
        raise DataError(f"{path}, line {reader.line_num}: {fault}") from error


def _table(path: Path, lines: Iterator[tuple[int, list[str]]], advice: str) -> Iterator[Row]:
    """Make rows of the fields of numbered lines, the first of which is the header."""
    _, header = next(lines, (0, None))
    if header is None:
        raise DataError(f"{path}: expected a header line with column names, found an empty file")
    _check_names(f"{path}, line 1: ", header)
    expected = f"{len(header)} fields ({', '.join(header)[:_MOST_SHOWN]})"
    for number, fields in lines:
        if len(fields) != len(header):
            if len(fields) == 1 and not fields[0].strip():
                continue  # a blank line
            raise DataError(
                f"{path}, line {number}: expected {expected}, found {len(fields)}; fix the line ({advice})"
            )
        yield dict(zip(header, fields, strict=True))


def _check_names(place: str, names: Collection[str]) -> None:
    # Columns without a name cannot be asked for, so there may be several.
    if twice := next((name for name, count in Counter(names).items() if name and count > 1), None):
        raise DataError(f"{place}{_same_name(twice)}")


def _read_jsonl(path: Path, columns: Columns) -> Iterator[Row]:
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
        try:
            yield flatten(record, columns)
        except DataError as error:
            raise DataError(f"{place}: {error}") from error


def _read_parquet(path: Path, columns: Columns) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with _open(path) as stream:
            # Parquet needs to seek, which a compressed stream cannot do cheaply.
            compressed = path.suffix.lower() in COMPRESSIONS
            file = pq.ParquetFile(io.BytesIO(stream.read()) if compressed else stream)
            names = file.schema_arrow.names
            _check_names(f"{path}: ", names)
            wanted = names if columns is None else _inside(columns)
            chosen = [name for name in names if name in wanted]
            not_read: Row = {name: NonText() for name in names if name not in wanted}
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS_AT_ONCE, columns=chosen):
                for record in pa.Table.from_batches([batch]).to_pylist():
                    number += 1
                    yield not_read | flatten(record)
    except DataError as error:
        raise DataError(f"{path}, row {number}: {error}" if number else str(error)) from error
    # ArrowException is a ValueError in part; of others, such as times of nanoseconds, arrow says what to do.
    except (pa.ArrowException, ValueError, RecursionError, OverflowError, *_DAMAGE) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); fetch or write it again") from error


FORMATS: dict[str, Callable[[Path, Columns], Iterator[Row]]] = {
    ".txt": _read_text,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
}
