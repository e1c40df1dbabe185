"""Rows of text, TSV, CSV, JSONL and Parquet files, plain or compressed, one at a time."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, cast

from modenc.errors import DataError

Row = dict[str, str]

COMPRESSIONS = (".gz", ".zst")

# Python's csv stops at 128 KiB a field; a web page in one field is longer.
_CSV_FIELD_LIMIT = 1 << 26
# Of a line, and of a compressed Parquet file in a piece.
_MOST_BYTES = 1 << 26
_MOST_PARQUET_BYTES = 1 << 30


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


def flatten(record: dict[str, Any], prefix: str = "") -> Row:
    """A record of any values as strings; dicts and lists inside become dotted columns, null ``""``.

    Bytes are read as UTF-8, and left out where they are not.
    """
    row: Row = {}
    for name, value in record.items():
        column = f"{prefix}{name}"
        if isinstance(value, dict):
            row |= flatten(value, f"{column}.")
        elif isinstance(value, list | tuple):
            row |= flatten({str(i): item for i, item in enumerate(value)}, f"{column}.")
        elif isinstance(value, bool):
            row[column] = str(value).lower()
        elif isinstance(value, bytes):
            # Pictures and the like beside the texts are no columns of text.
            with suppress(UnicodeDecodeError):
                row[column] = value.decode("utf-8")
        else:
            row[column] = "" if value is None else str(value)
    return row


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
            header = line.split("\t")
        elif line:
            yield _row(path, number, header, line.split("\t"))
    if header is None:
        raise DataError(f"{path}: expected a header line with column names, found an empty file")


def _read_csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), _CSV_FIELD_LIMIT))
    # Fields may span lines, so each line keeps its end.
    reader = csv.reader((f"{line}\n" for _, line in _lines(path)), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise DataError(f"{path}: expected a header line with column names, found an empty file")
        for fields in reader:
            if fields:
                yield _row(path, reader.line_num, header, fields)
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); mend its quotes"
        ) from error


def _row(path: Path, number: int, header: list[str], fields: list[str]) -> Row:
    if len(fields) != len(header):
        raise DataError(
            f"{path}, line {number}: expected {len(header)} fields ({', '.join(header)}), "
            f"found {len(fields)}; mend the line (tabs and line ends inside a field are not allowed in TSV)"
        )
    return dict(zip(header, fields, strict=True))


def _read_jsonl(path: Path) -> Iterator[Row]:
    for number, line in _lines(path):
        if not line.strip():
            continue
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
        try:
            yield flatten(record)
        except RecursionError as error:
            raise DataError(f"{path}, line {number}: nested too deeply to be columns; flatten it") from error


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with _open(path) as stream:
            # Parquet needs to seek, which a compressed stream cannot do cheaply.
            compressed = path.suffix.lower() in COMPRESSIONS
            table = pq.ParquetFile(io.BytesIO(_whole(path, stream)) if compressed else stream)
            for batch in table.iter_batches(batch_size=4096):
                for record in batch.to_pylist():
                    yield flatten(record)
    except (pa.ArrowException, UnicodeDecodeError, *_DAMAGE) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); fetch or write it again") from error


def _whole(path: Path, stream: BinaryIO) -> bytes:
    content = stream.read(_MOST_PARQUET_BYTES + 1)
    if len(content) > _MOST_PARQUET_BYTES:
        raise DataError(
            f"{path}: expected at most {_MOST_PARQUET_BYTES >> 20} MB in a compressed Parquet file, "
            "found more; decompress it first"
        )
    return content


FORMATS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".txt": _read_text,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
}
