"""Rows of text, TSV, CSV, JSONL and Parquet files, plain or compressed, one at a time."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from modenc.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, str]


class Converted(str):
    """A value that was no text where it was read: null, a number, true or false."""

    __slots__ = ("place",)
    place: str
    """The file and the line or row, for messages."""


COMPRESSIONS = (".gz", ".zst")

# Python's csv stops at 128 KiB a field; a web page in one field is longer.
_CSV_FIELD_LIMIT = 1 << 26
# Of a line or a Parquet row, and of a compressed Parquet file in a piece.
_MOST_BYTES = 1 << 26
_MOST_PARQUET_BYTES = 1 << 30
# Of a CSV or JSON row, each character of which can become a value of 50 bytes; and of its columns' names,
# each of which repeats those that it is nested in.
_MOST_ROW_CHARACTERS = 1 << 24
_MOST_NAME_CHARACTERS = 1 << 22
_ROWS_AT_ONCE = 512
# Of a header in a message.
_MOST_SHOWN = 1000


def read_file(path: Path) -> Iterator[Row]:
    """The rows of a file as column → value, read as a stream; the name's ending says the format.

    A text file has one column, ``text``, and one row a line, empty lines included. TSV is read
    literally (no quotes), CSV with quotes; both start with a header line. Nested JSON and Parquet
    values get dotted columns: ``translation.en``, ``set.0``.

    Raises:
        DataError: the file is missing, of an unknown format, damaged or not UTF-8.
    """
    if not path.is_file():
        raise DataError(_missing(path))
    return FORMATS[format_of(path)](path)


def format_of(path: Path) -> str:
    """The ending that says a file's format, without ``.gz`` / ``.zst``: ``.tsv`` for ``a.tsv.gz``.

    Raises:
        DataError: no reader for it.
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
    """A record of any values as strings; dicts and lists inside become dotted columns, null ``""``.

    Bytes are read as UTF-8, and left out where they are not.

    Raises:
        DataError: the names of the columns have more than 4 million characters.
    """
    row: Row = {}
    _flatten_into(row, record.items(), "", 0)
    return row


def _flatten_into(row: Row, values: Iterable[tuple[object, Any]], prefix: str, named: int) -> int:
    """Add the columns of ``values``; returns ``named``, a number of characters, and that of their names."""
    for name, value in values:
        column = f"{prefix}{name}"
        named += len(column)
        if named > _MOST_NAME_CHARACTERS:
            raise _names_too_long()
        if isinstance(value, str):
            row[column] = value
        elif isinstance(value, dict):
            named = _flatten_into(row, value.items(), f"{column}.", named)
        elif isinstance(value, list | tuple):
            named = _flatten_into(row, enumerate(value), f"{column}.", named)
        elif isinstance(value, bool):
            row[column] = Converted(str(value).lower())
        elif isinstance(value, bytes):
            # Pictures and the like beside the texts are no columns of text.
            with suppress(UnicodeDecodeError):
                row[column] = value.decode("utf-8")
        else:
            row[column] = Converted("" if value is None else str(value))
    return named


def _names_too_long() -> DataError:
    return DataError(
        f"expected at most {_MOST_NAME_CHARACTERS} characters in the names of a row's columns, found more; "
        "put texts and numbers into fewer columns, and these into fewer levels"
    )


def _flattened(record: dict[str, Any], where: str, number: int) -> Row:
    try:
        row = flatten(record)
        for value in row.values():
            if isinstance(value, Converted):
                value.place = f"{where} {number}"
        return row
    except RecursionError as error:
        raise DataError(f"{where} {number}: nested too deeply to be columns; flatten it") from error
    except DataError as error:
        raise DataError(f"{where} {number}: {error}") from error


_CHECK = "check the path, and where it starts from (data.root, --data)"


def _missing(path: Path) -> str:
    folder = path.parent
    if path.exists():
        found = "a folder" if path.is_dir() else "a pipe or device"
        return f"{path}: expected a file, found {found}; give a file's path"
    if not folder.is_dir():
        return f"{path}: no such file, nor its folder; {_CHECK}"
    near = get_close_matches(path.name, [entry.name for entry in folder.iterdir()], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else _CHECK
    return f"{path}: no such file; {hint}"


def _open(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix.lower() == ".zst":
        import pyarrow as pa

        # Not zstandard, whose stream ends without a word where a file was cut off.
        return io.BufferedReader(pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


# What reading a damaged compressed file raises.
_DAMAGE = (OSError, EOFError, zlib.error)


def read_lines(stream: BinaryIO, where: str) -> Iterator[str]:
    r"""Lines without their ends; only ``\n`` and ``\r\n`` end one, and a byte order mark is dropped.

    Raises:
        DataError: a line is longer than 64 MB, or not UTF-8; ``where`` is the stream's name.
    """
    # Bounded, since a small compressed file can hold a line of any length.
    for number, raw in enumerate(iter(lambda: stream.readline(_MOST_BYTES), b""), start=1):
        if len(raw) == _MOST_BYTES:
            raise DataError(
                f"{where}, line {number}: expected at most {_MOST_BYTES >> 20} MB in a line, found "
                "more; is it text?"
            )
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
    """Numbered lines from 1."""
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
    header: list[str] | None = None
    for number, line in _lines(path):
        if header is None:
            header = line.split("\t", _MOST_NAME_CHARACTERS)
            _check_header(path, header)
        elif line:
            # No more fields than tell that there are too many.
            fields = line.split("\t", len(header))
            if len(fields) > len(header):
                raise _uneven(path, number, header, line.count("\t") + 1)
            yield _row(path, number, header, fields)
    if header is None:
        raise DataError(f"{path}: expected a header line with column names, found an empty file")


def _read_csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), _CSV_FIELD_LIMIT))
    size = 0

    def lines() -> Iterator[str]:
        nonlocal size
        for number, line in _lines(path):
            size += len(line)
            if size > _MOST_ROW_CHARACTERS:
                raise _row_too_long(path, number)
            # Fields may span lines, so each line keeps its end.
            yield f"{line}\n"

    reader = csv.reader(lines(), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise DataError(f"{path}: expected a header line with column names, found an empty file")
        _check_header(path, header)
        size = 0
        for fields in reader:
            size = 0
            if fields:
                yield _row(path, reader.line_num, header, fields)
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); mend its quotes"
        ) from error


def _check_header(path: Path, header: list[str]) -> None:
    if sum(map(len, header)) + len(header) > _MOST_NAME_CHARACTERS:
        raise DataError(f"{path}, line 1: {_names_too_long()}")


def _row_too_long(path: Path, number: int) -> DataError:
    return DataError(
        f"{path}, line {number}: expected at most {_MOST_ROW_CHARACTERS} characters in a row, found more; "
        "mend its quotes, or split it into several"
    )


def _row(path: Path, number: int, header: list[str], fields: list[str]) -> Row:
    if len(fields) != len(header):
        raise _uneven(path, number, header, len(fields))
    return dict(zip(header, fields, strict=True))


def _uneven(path: Path, number: int, header: list[str], found: int) -> DataError:
    return DataError(
        f"{path}, line {number}: expected {len(header)} fields ({', '.join(header)[:_MOST_SHOWN]}), "
        f"found {found}; mend the line (tabs and line ends inside a field are not allowed in TSV)"
    )


def _read_jsonl(path: Path) -> Iterator[Row]:
    where = f"{path}, line"
    for number, line in _lines(path):
        if not line.strip():
            continue
        if len(line) > _MOST_ROW_CHARACTERS:
            raise _row_too_long(path, number)
        try:
            record = json.loads(line)
        # Numbers of thousands of digits, and objects nested as deep.
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}, line {number}: not valid JSON ({error}); expected one object a line"
            ) from error
        if not isinstance(record, dict):
            raise DataError(
                f"{path}, line {number}: expected a JSON object, found {type(record).__name__}; "
                'write each row as {"column": "value", ...}'
            )
        yield _flattened(record, where, number)


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    where, number = f"{path}, row", 0
    try:
        with _open(path) as stream:
            # Parquet needs to seek, which a compressed stream cannot do cheaply.
            compressed = path.suffix.lower() in COMPRESSIONS
            source = io.BytesIO(_whole(path, stream)) if compressed else stream
            schema = pq.ParquetFile(source).schema
            leaves = [schema.column(place) for place in range(len(schema))]
            # So that a text that is there a million times is in memory once; Arrow cannot inside others.
            alone = [leaf for leaf in leaves if leaf.name == leaf.path and leaf.logical_type.type == "STRING"]
            texts = [leaf.name for leaf in alone]
            table = pq.ParquetFile(source, read_dictionary=texts)
            for batch in table.iter_batches(batch_size=_ROWS_AT_ONCE):
                for part in _parts(batch, where, number):
                    for record in _written_out(part).to_pylist():
                        number += 1
                        yield _flattened(record, where, number)
    except (pa.ArrowException, UnicodeDecodeError, RecursionError, *_DAMAGE) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); fetch or write it again") from error


def _whole(path: Path, stream: BinaryIO) -> bytes:
    content = stream.read(_MOST_PARQUET_BYTES + 1)
    if len(content) > _MOST_PARQUET_BYTES:
        raise DataError(
            f"{path}: expected at most {_MOST_PARQUET_BYTES >> 20} MB in a compressed Parquet file, "
            "found more; decompress it first"
        )
    return content


def _parts(batch: pa.RecordBatch, where: str, number: int) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of at most :data:`_MOST_BYTES`; ``number`` rows are before it.

    Raises:
        DataError: one row is larger.
    """
    if sum(map(_unfolded, batch.columns)) <= _MOST_BYTES:
        yield batch
    elif batch.num_rows == 1:
        raise DataError(
            f"{where} {number + 1}: expected at most {_MOST_BYTES >> 20} MB in a row, found more; is it text?"
        )
    else:
        half = batch.num_rows // 2
        yield from _parts(batch.slice(0, half), where, number)
        yield from _parts(batch.slice(half), where, number + half)


def _written_out(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without dictionaries, which are slow to go through."""
    columns = [column.dictionary_decode() if _is_shared(column) else column for column in batch.columns]
    return type(batch).from_arrays(columns, names=batch.schema.names)


def _unfolded(array: pa.Array) -> int:
    """Bytes of an array where each value of a dictionary is written out."""
    import pyarrow.compute as pc

    if not _is_shared(array):
        return int(array.nbytes)
    return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0


def _is_shared(array: pa.Array) -> bool:
    """Whether its texts are in memory once each."""
    import pyarrow as pa

    return pa.types.is_dictionary(array.type) and array.type.value_type in (pa.string(), pa.large_string())


FORMATS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".txt": _read_text,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
}
