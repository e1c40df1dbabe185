"""Rows as text, TSV, JSONL and Parquet, plain or .gz; the same rows give the same bytes."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from modenc.data.files import Converted
from modenc.data.text import one_line
from modenc.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Value = str | int | float | bool | None
Record = dict[str, Value]

OUTPUT_FORMATS = (".txt", ".tsv", ".jsonl", ".parquet")
_ROWS_AT_ONCE = 4096
_LARGEST = 1 << 63


def output_format(path: Path) -> str:
    """The ending that says an output's format, without ``.gz``.

    Raises:
        DataError: it is none of those that are written.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    ending = (suffixes[:-1] if packed else suffixes)[-1:]
    if not ending or ending[0] not in OUTPUT_FORMATS or (packed and ending[0] == ".parquet"):
        raise DataError(
            f"{path}: expected an output ending in {', '.join(OUTPUT_FORMATS)} (all but the last also .gz), "
            f"found {''.join(suffixes[-2:]) or 'no ending'!r}; rename it"
        )
    return ending[0]


def typed(text: str) -> Value:
    """A value as it was in its file: what was a number, true, false or null there is one again."""
    if not isinstance(text, Converted):
        return str(text)
    if not text:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return str(text)  # such as a date
    fits = isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < _LARGEST)
    return value if fits else str(text)


class Columns:
    """The columns of rows, in the order in which they first occur, each with its type."""

    def __init__(self) -> None:
        self._types: dict[str, set[type]] = {}

    def see(self, record: Record) -> None:
        """Count a row's columns in."""
        for name, value in record.items():
            self._types.setdefault(name, set()).add(type(value))

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._types)

    def schema(self) -> pa.Schema:
        """Their Parquet types: numbers where all values are, or are missing; else text."""
        import pyarrow as pa

        return pa.schema([(name, self._arrow(types)) for name, types in self._types.items()])

    def _arrow(self, types: set[type]) -> pa.DataType:
        import pyarrow as pa

        kinds = types - {type(None)}
        if kinds == {bool}:
            return pa.bool_()
        if kinds == {int}:
            return pa.int64()
        return pa.float64() if kinds and kinds <= {int, float} else pa.string()


def write_table(path: Path, ending: str, columns: Columns, records: Iterable[Record]) -> None:
    """Write rows to a file.

    Args:
        path: the file.
        ending: its format, as :func:`output_format` gives it.
        columns: of all the rows.
        records: the rows; in ``.txt`` the last value of each is its line.
    """
    if ending == ".parquet":
        _write_parquet(path, columns, records)
        return
    with _text_stream(path) as stream:
        if ending == ".tsv":
            stream.write(_line(columns.names))
        for record in records:
            if ending == ".jsonl":
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")
            else:
                names = columns.names if ending == ".tsv" else list(record)[-1:]
                stream.write(_line(_field(record.get(name)) for name in names))


def _line(fields: Iterable[str]) -> str:
    return "\t".join(map(one_line, fields)) + "\n"


def _field(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


@contextmanager
def _text_stream(path: Path) -> Iterator[IO[str]]:
    with path.open("wb") as plain:
        if path.suffix != ".gz":
            with io.TextIOWrapper(plain, encoding="utf-8", errors="replace", newline="\n") as stream:
                yield stream
            return
        # Without the time and the name, by which the bytes would differ.
        with (
            gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed,
            io.TextIOWrapper(packed, encoding="utf-8", errors="replace", newline="\n") as stream,
        ):
            yield stream


def _write_parquet(path: Path, columns: Columns, records: Iterable[Record]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = columns.schema()
    texts = {field.name for field in schema if field.type == pa.string()}
    waiting: list[Record] = []
    with pq.ParquetWriter(path, schema) as writer:
        for record in records:
            waiting.append(
                {
                    name: _field(value) if name in texts and value is not None else value
                    for name, value in record.items()
                }
            )
            if len(waiting) == _ROWS_AT_ONCE:
                writer.write_table(pa.Table.from_pylist(waiting, schema))
                waiting = []
        writer.write_table(pa.Table.from_pylist(waiting, schema))
