"""Limits on the memory that rows of third-party data files take.

A small file can expand to a line of gigabytes, millions of columns, or one text a million times. The readers
in ``formats.py`` keep to these limits, and raise an error in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from modenc.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

LINE_BYTES = 1 << 24
"""Longest line, and longest CSV row of several lines; each character can become a value of 50 bytes."""
# Larger, since Parquet can have images beside the texts.
_PARQUET_ROW_BYTES = 1 << 26
_PARQUET_ROWS_AT_ONCE = 512
_DECOMPRESSED_BYTES = 1 << 30
_NAME_CHARACTERS = 1 << 22


class CharacterLimit:
    """Counter of the characters of a row, or of its column names, that raises an error above a limit."""

    def __init__(self, most: int, what: str, advice: str) -> None:
        self.most = most
        self.message = f"expected at most {most} characters in {what}, found more; {advice}"
        self.count = 0

    def add(self, text: str, place: str = "") -> str:
        """Count ``text`` and return it.

        Raises:
            DataError: there are too many characters; the message starts with ``place``.
        """
        self.count += len(text)
        if self.count > self.most:
            raise DataError(f"{place}{self.message}")
        return text


def name_limit() -> CharacterLimit:
    """Return the limit for a row's column names; a nested column's name repeats those above it."""
    advice = "put texts and numbers into fewer columns, and these into fewer levels"
    return CharacterLimit(_NAME_CHARACTERS, "the names of a row's columns", advice)


def decompressed(stream: BinaryIO, path: Path) -> bytes:
    """Read all of a compressed Parquet file.

    Raises:
        DataError: the content is larger than a gigabyte.
    """
    content = stream.read(_DECOMPRESSED_BYTES + 1)
    if len(content) > _DECOMPRESSED_BYTES:
        most = f"{_DECOMPRESSED_BYTES >> 20} MB in a compressed Parquet file"
        raise DataError(f"{path}: expected at most {most}, found more; decompress it first")
    return content


def column_names(source: BinaryIO) -> list[str]:
    """Return the names of a Parquet file's columns, dotted in structs; lists and maps have one name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def names(fields: Iterable[pa.Field], prefix: str) -> Iterator[str]:
        for field in fields:
            name = f"{prefix}{field.name}"
            if pa.types.is_struct(field.type):
                yield from names(map(field.type.field, range(field.type.num_fields)), f"{name}.")
            else:
                yield name

    return list(names(pq.ParquetFile(source).schema_arrow, ""))


def limited_batches(
    source: BinaryIO, path: Path, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read columns, by default all, of a Parquet file in batches of at most 64 MB; decodes dictionaries.

    Raises:
        DataError: a row is larger than 64 MB.
    """
    import pyarrow.parquet as pq

    schema = pq.ParquetFile(source).schema
    leaves = [schema.column(place) for place in range(len(schema))]
    # A text that is repeated a million times is then in memory once. Arrow cannot do so for nested columns.
    dictionary_columns = [
        leaf.name for leaf in leaves if leaf.name == leaf.path and leaf.logical_type.type == "STRING"
    ]
    before = 0
    for batch in pq.ParquetFile(source, read_dictionary=dictionary_columns).iter_batches(
        batch_size=_PARQUET_ROWS_AT_ONCE, columns=columns
    ):
        for part in _split(batch, path, before):
            readable = list(map(_readable, part.columns))
            # One that is made of no columns has no rows.
            yield type(part).from_arrays(readable, names=part.schema.names) if readable else part
        before += batch.num_rows


def _readable(column: pa.Array) -> pa.Array:
    """Decode a dictionary, and write times in nanoseconds as text, since only pandas has objects for them."""
    import pyarrow as pa

    if _is_encoded(column):
        return column.dictionary_decode()
    if pa.types.is_temporal(column.type) and getattr(column.type, "unit", "") == "ns":
        return column.cast(pa.int64() if pa.types.is_duration(column.type) else pa.string())
    return column


def _split(batch: pa.RecordBatch, path: Path, before: int) -> Iterator[pa.RecordBatch]:
    """Halve a batch until each part is small enough; ``before`` counts the file's rows before it."""
    if sum(map(_decoded_bytes, batch.columns)) <= _PARQUET_ROW_BYTES:
        yield batch
    elif batch.num_rows == 1:
        found = f"expected at most {_PARQUET_ROW_BYTES >> 20} MB in a row, found more; is it text?"
        raise DataError(f"{path}, row {before + 1}: {found}")
    else:
        half = batch.num_rows // 2
        yield from _split(batch.slice(0, half), path, before)
        yield from _split(batch.slice(half), path, before + half)


def _decoded_bytes(array: pa.Array) -> int:
    """Count the bytes of an array after its dictionary is decoded."""
    import pyarrow.compute as pc

    if not _is_encoded(array):
        return int(array.nbytes)
    return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0


def _is_encoded(array: pa.Array) -> bool:
    """Say whether an array of texts is dictionary-encoded."""
    import pyarrow as pa

    return pa.types.is_dictionary(array.type) and array.type.value_type in (pa.string(), pa.large_string())
