"""Writer of rows as text, TSV, JSONL (also .gz) and Parquet; equal rows give equal bytes."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from modenc.data.formats import NonText
from modenc.data.text import one_line, valid_utf8
from modenc.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Value = str | int | float | bool | None
OutputRow = dict[str, Value]
Columns = dict[str, set[type]]
"""Columns in the order in which they first occur → types of their values."""

OUTPUT_FORMATS = (".txt", ".tsv", ".jsonl", ".parquet")
_ROWS_AT_ONCE = 4096
_INT64_END = 1 << 63


def output_format(path: Path) -> str:
    """Return the ending that says an output's format, without ``.gz``.

    Raises:
        DataError: the format is none of :data:`OUTPUT_FORMATS`.
    """
    name = path.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    if ending not in OUTPUT_FORMATS or name.endswith(".parquet.gz"):
        raise DataError(
            f"{path}: expected an output ending in {', '.join(OUTPUT_FORMATS)} (all but the last also .gz), "
            f"found {''.join(path.suffixes[-2:]) or 'no ending'!r}; rename it"
        )
    return ending


def typed(text: str) -> Value:
    """Convert a value back to the type that it has in its file: a number, true, false, null or text."""
    if not isinstance(text, NonText):
        return text
    if not text:
        return None
    try:
        value: Value = json.loads(text)
    except ValueError:
        return str(text)  # such as a date
    too_large = isinstance(value, int) and abs(value) >= _INT64_END
    return str(text) if too_large else value


def write_table(path: Path, ending: str, columns: Columns, rows: Iterable[OutputRow]) -> None:
    """Write rows to a file in the format ``ending``, see :func:`output_format`; ``.txt`` has one column."""
    if ending == ".parquet":
        _write_parquet(path, columns, rows)
        return
    with _text_stream(path) as stream:
        if ending == ".tsv":
            stream.write(_line(columns))
        for row in rows:
            if ending == ".jsonl":
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            else:
                stream.write(_line(_field(row.get(name)) for name in columns))


def _line(fields: Iterable[str]) -> str:
    return "\t".join(map(one_line, fields)) + "\n"


def _field(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


@contextmanager
def _text_stream(path: Path) -> Iterator[IO[str]]:
    with ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("wb"))
        if path.suffix.lower() == ".gz":
            # Without time and name, so that equal rows give equal bytes.
            stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
        yield stack.enter_context(io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n"))


def _write_parquet(path: Path, columns: Columns, rows: Iterable[OutputRow]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {name: _arrow_type(found) for name, found in columns.items()}
    schema = pa.schema([(valid_utf8(name), type_) for name, type_ in types.items()])

    def converted(name: str, value: Value) -> Value:
        if value is None:
            return None
        if types[name] == pa.string():
            return valid_utf8(_field(value))
        # Arrow converts no integer above 2^53.
        return float(value) if types[name] == pa.float64() else value

    remaining = ({valid_utf8(name): converted(name, value) for name, value in row.items()} for row in rows)
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(remaining, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(batch, schema))


def _arrow_type(types: set[type]) -> pa.DataType:
    """Choose a number type if all values are numbers or missing; otherwise text."""
    import pyarrow as pa

    kinds = types - {type(None)}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()
