"""Rows of text, TSV, CSV, JSONL and Parquet files, plain or compressed, one at a time."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from modenc.errors import DataError
from modenc.suggest import closest_match
from modenc.texts import is_missing

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, str]

LINE_BYTES = 1 << 24
"""Longest line that is read, so that a file that is no text is refused before it fills the memory."""
_PARQUET_ROWS_AT_ONCE = 512


class NonText(str):
    """A value that is no text in its file: null, a number, true or false."""

    __slots__ = ("place",)
    place: str
    """File and line or row, for messages."""


COMPRESSIONS = (".gz", ".zst")

# Characters of a header in messages.
_MOST_SHOWN = 1000

Columns = Collection[str] | None
"""Names of the columns to read; None: all."""


def read_file(path: Path, columns: Columns = None, may_lack: Collection[str] = ()) -> Iterator[Row]:
    """Read the rows of a file as a stream, each as column → value; the name's ending says the format.

    A text file has one column, ``text``, and a row for each line, also for empty ones. TSV is read literally
    (no quotes), CSV with quotes; both start with a header line. Nested values in JSON and Parquet become
    dotted columns: ``translation.en``, ``set.0``. A blank line is a row with an empty text where a table has
    one column; JSONL and wider tables may have blank lines only at their end.

    Args:
        path: the file.
        columns: columns to read, by default all. Of others a row may have the name alone, with an empty
            :class:`NonText`, so that their values cannot be at fault. Each row has to be checked for them.
        may_lack: further columns to read, if the file has them.

    Raises:
        DataError: the file is missing, of an unknown format, damaged or not UTF-8; a line is blank or two
            columns have one name; or the file has no rows, and its header or schema lacks a column.
    """
    if not path.is_file():
        raise DataError(_missing_file(path))
    wanted = None if columns is None else [*columns, *may_lack]
    return FORMATS[file_format(path)](path, columns or (), wanted)


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
        DataError: the names of two columns are the same.
    """
    row: Row = {}
    if columns is not None:
        inside = _inside(columns)
        record = {name: value if name in inside else None for name, value in record.items()}
    _flatten_into(row, record.items(), "")
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


def _flattened(record: dict[str, Any], place: str, columns: Columns = None) -> Row:
    try:
        row = flatten(record, columns)
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
        raise DataError(_missing_column(f"{path}, row {number}", column, row, option))
    text = row[column]
    if isinstance(text, NonText) and (text or not may_be_null):
        raise DataError(
            f"{text.place}: expected a text in {column!r}, found {str(text)[:60] or 'null'}; drop the row, "
            "or store the value as a string"
        )
    return str(text)


def _missing_column(place: str, column: str, names: Collection[str], option: str = "") -> str:
    if near := closest_match(column, names, 0.5):
        hint = f"did you mean {option} {near}?" if option else f"did you mean {near!r}?"
    else:
        hint = "name the column of the texts" + (f" with {option}" if option else "")
    found = ", ".join(names)[:_MOST_SHOWN] or "none"
    return f"{place}: expected a column {column!r} of text in UTF-8, found {found}; {hint}"


def _check_empty(path: Path, names: Collection[str], needed: Collection[str]) -> None:
    """Check that a file without rows has the columns by name; where it has rows, each is checked."""
    for column in needed:
        if _inside([column]).isdisjoint(names):
            raise DataError(_missing_column(str(path), column, names))


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


_MIXED_ENDS = (
    "expected line ends of one kind, found both \\n and \\r; convert each \\r that ends a line "
    "(perl -pe 's/\\r\\n?/\\n/g'), and remove others (tr -d '\\r')"
)
_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # begins like UTF-16's
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def read_lines(stream: BinaryIO, where: str, *, quoted: bool = False) -> Iterator[str]:
    r"""Read lines without their ends; a byte order mark is dropped.

    All lines end with ``\n`` (also ``\r\n``) or, if the first does, all with ``\r`` alone. Nothing else ends
    a line. Whether the other of ``\n`` and ``\r`` is the end of a line or part of a text cannot be known, so
    it is refused; with ``quoted`` the caller does so, if it is outside of quotes.

    Raises:
        DataError: a line is longer than 16 MB, not UTF-8, or has both line ends; ``where`` is the stream's
            name.
    """
    first = stream.readline(LINE_BYTES)
    if first in (b"", codecs.BOM_UTF8):
        return
    _check_encoding(first, where)
    has_returns = re.search(rb"\r([^\r\n]|\Z)", first) is not None
    rest = iter(lambda: stream.readline(LINE_BYTES), b"")
    lines = _split_at_returns(first, stream) if has_returns else chain([first], rest)
    for number, raw in enumerate(lines, start=1):
        if len(raw) >= LINE_BYTES:
            found = f"expected at most {LINE_BYTES >> 20} MB in a line, found more; is it text?"
            raise DataError(f"{where}, line {number}: {found}")
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            # Programs that convert line ends twice write several \r before the \n.
            line = (raw if has_returns else raw.removesuffix(b"\n").rstrip(b"\r")).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{where}, line {number}: expected UTF-8, found byte 0x{error.object[error.start]:02x} at "
                f"position {error.start}; convert it, e.g. with iconv -f ENCODING -t UTF-8"
            ) from error
        if not quoted and ("\n" if has_returns else "\r") in line:
            raise DataError(f"{where}, line {number}: {_MIXED_ENDS}")
        yield line


def _check_encoding(first: bytes, where: str) -> None:
    """Check the first bytes of a file, which show encodings whose line ends would not be found."""
    for mark, name in _ENCODINGS.items():
        if first.startswith(mark):
            raise DataError(f"{where}: expected UTF-8, found {name}; convert it: iconv -f {name} -t UTF-8")
    if b"\0" in first:
        raise DataError(
            f"{where}, line 1: expected UTF-8, found a zero byte, as in UTF-16; convert it, e.g. with "
            "iconv -f UTF-16LE -t UTF-8"
        )


def _split_at_returns(first: bytes, stream: BinaryIO) -> Iterator[bytes]:
    r"""Read lines that end with ``\r`` alone; ``first`` are the bytes read already."""
    line = b""
    start = io.BytesIO(first)
    for chunk in chain(iter(lambda: start.read(1 << 16), b""), iter(lambda: stream.read(1 << 16), b"")):
        *ended, line = (line + chunk).split(b"\r")
        yield from ended
        if len(line) >= LINE_BYTES:
            break  # too long, as its reader finds
    if line:
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


def _without_blank_end(
    path: Path, lines: Iterable[tuple[int, list[str]]], expected: str
) -> Iterator[tuple[int, list[str]]]:
    """Leave out blank lines at the end; in the middle it cannot be known whether they are rows."""
    blank = 0
    for number, fields in lines:
        if len(fields) == 1 and not fields[0].strip():
            blank = blank or number
        elif blank:
            raise DataError(
                f"{path}, line {blank}: expected {expected}, found a blank line; remove or fix it"
            )
        else:
            yield number, fields


def _read_text(path: Path, needed: Collection[str], wanted: Columns) -> Iterator[Row]:
    line = None
    for _, line in _lines(path):
        yield {"text": line}
    if line is None:
        _check_empty(path, ["text"], needed)


_TSV_FIELDS = "tabs and line ends inside a field are not allowed in TSV"
_CSV_FIELDS = "a field with commas or line ends has to be in quotes in CSV"


def _read_tsv(path: Path, needed: Collection[str], wanted: Columns) -> Iterator[Row]:
    return _table(path, ((number, line.split("\t")) for number, line in _lines(path)), needed, _TSV_FIELDS)


def _read_csv(path: Path, needed: Collection[str], wanted: Columns) -> Iterator[Row]:
    return _table(path, _csv_lines(path), needed, _CSV_FIELDS)


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
            fault = _MIXED_ENDS
        raise DataError(f"{path}, line {reader.line_num}: {fault}") from error


def _table(
    path: Path, lines: Iterator[tuple[int, list[str]]], needed: Collection[str], advice: str
) -> Iterator[Row]:
    """Make rows of the fields of numbered lines, the first of which is the header."""
    _, header = next(lines, (0, None))
    if header is None:
        raise DataError(f"{path}: expected a header line with column names, found an empty file")
    _check_names(f"{path}, line 1: ", header)
    expected = f"{len(header)} fields ({', '.join(header)[:_MOST_SHOWN]})"
    number = 0
    # In one column, a blank line is an empty text.
    for number, fields in lines if len(header) == 1 else _without_blank_end(path, lines, expected):
        if len(fields) != len(header):
            raise DataError(
                f"{path}, line {number}: expected {expected}, found {len(fields)}; fix the line ({advice})"
            )
        yield dict(zip(header, fields, strict=True))
    if not number:
        _check_empty(path, header, needed)


def _check_names(place: str, names: Collection[str]) -> None:
    # Columns without a name cannot be asked for, so there may be several.
    if twice := next((name for name, count in Counter(names).items() if name and count > 1), None):
        raise DataError(f"{place}{_same_name(twice)}")


def _read_jsonl(path: Path, needed: Collection[str], wanted: Columns) -> Iterator[Row]:
    lines = ((number, [line]) for number, line in _lines(path))
    for number, (line,) in _without_blank_end(path, lines, "one JSON object a line"):
        place = f"{path}, line {number}"
        try:
            # Integers stay as they are written: Python converts none of more than 4,300 digits.
            record = json.loads(line, object_pairs_hook=_with_different_keys, parse_int=NonText)
        except DataError as error:
            raise DataError(f"{place}: {error}") from error
        # RecursionError: objects nested thousands deep.
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: not valid JSON ({error}); expected one object a line") from error
        if not isinstance(record, dict):
            found = "a number" if isinstance(record, NonText) else type(record).__name__
            raise DataError(
                f"{place}: expected a JSON object, found {found}; "
                'write each row as {"column": "value", ...}'
            )
        yield _flattened(record, place, wanted)


def _with_different_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        _check_names("", [key for key, _ in pairs])
    return record


def _read_parquet(path: Path, needed: Collection[str], wanted: Columns) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with _open(path) as stream:
            # Parquet needs to seek, which a compressed stream cannot do cheaply.
            compressed = path.suffix.lower() in COMPRESSIONS
            file = pq.ParquetFile(io.BytesIO(stream.read()) if compressed else stream)
            names = list(_parquet_names(file.schema_arrow, ""))
            _check_names(f"{path}: ", names)
            chosen = None
            not_read: Row = {}
            if wanted is not None:
                inside = _inside(wanted)
                chosen = [name for name in names if name in inside]
                not_read = _flattened(dict.fromkeys(name for name in names if name not in inside), str(path))
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS_AT_ONCE, columns=chosen):
                for record in _without_nanoseconds(pa.Table.from_batches([batch])).to_pylist():
                    number += 1
                    yield not_read | _flattened(record, f"{path}, row {number}")
            if not number:
                _check_empty(path, names, needed)
    except (pa.ArrowException, UnicodeDecodeError, RecursionError, OverflowError, *_DAMAGE) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); fetch or write it again") from error


def _parquet_names(fields: Iterable[pa.Field], prefix: str) -> Iterator[str]:
    """Yield the names of columns, dotted in structs; lists and maps have one name."""
    import pyarrow as pa

    for field in fields:
        if pa.types.is_struct(field.type):
            inside = map(field.type.field, range(field.type.num_fields))
            yield from _parquet_names(inside, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def _without_nanoseconds(table: pa.Table) -> pa.Table:
    """Write times in nanoseconds as text, since only pandas has objects for them."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if getattr(field.type, "unit", "") == "ns":
            kind = pa.int64() if pa.types.is_duration(field.type) else pa.string()
            table = table.set_column(place, field.name, table.column(place).cast(kind))
    return table


FORMATS: dict[str, Callable[[Path, Collection[str], Columns], Iterator[Row]]] = {
    ".txt": _read_text,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
}
