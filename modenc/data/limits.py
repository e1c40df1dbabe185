"""How much a stranger's data file may unfold to: all bounds on what its rows take in memory.

A small file can hold a line of gigabytes, millions of columns, or one text a million times. The readers of
``files.py`` draw lines, names and batches through these wrappers, and need no bounds of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from modenc.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

LINE_BYTES = 1 << 24
"""The longest line, and the longest CSV row of several; each character can become a value of 50 bytes."""
# Parquet has pictures and the like beside the texts.
_PARQUET_ROW_BYTES = 1 << 26
_PARQUET_ROWS_AT_ONCE = 512
_DECOMPRESSED_BYTES = 1 << 30
_NAME_CHARACTERS = 1 << 22


class CharacterLimit:
    """Counts the characters of a row, or of its columns' names, and refuses too many."""

    def __init__(self, most: int, what: str, advice: str) -> None:
        self.most = most
        self.message = f"expected at most {most} characters in {what}, found more; {advice}"
        self.count = 0

    def add(self, text: str, place: str = "") -> str:
        """Count ``text`` and give it back.

        Raises:
            DataError: there are too many by now; ``place`` opens the message.
        """
        self.count += len(text)
        if self.count > self.most:
            raise DataError(f"{place}{self.message}")
        return text


def name_limit() -> CharacterLimit:
    """For the names of a row's columns, each of which repeats those that it is nested in."""
    advice = "put texts and numbers into fewer columns, and these into fewer levels"
    return CharacterLimit(_NAME_CHARACTERS, "the names of a row's columns", advice)


def limited_lines(stream: BinaryIO, where: str) -> Iterator[bytes]:
    """A stream's raw lines.

    Raises:
        DataError: a line is longer than 16 MB; ``where`` is the stream's name.
    """
    for number, line in enumerate(iter(lambda: stream.readline(LINE_BYTES), b""), start=1):
        if len(line) == LINE_BYTES:
            found = f"expected at most {LINE_BYTES >> 20} MB in a line, found more; is it text?"
            raise DataError(f"{where}, line {number}: {found}")
        yield line


def decompressed(stream: BinaryIO, path: Path) -> bytes:
    """All of a compressed Parquet file.

    Raises:
        DataError: it is larger than a gigabyte.
    """
    content = stream.read(_DECOMPRESSED_BYTES + 1)
    if len(content) > _DECOMPRESSED_BYTES:
        most = f"{_DECOMPRESSED_BYTES >> 20} MB in a compressed Parquet file"
        raise DataError(f"{path}: expected at most {most}, found more; decompress it first")
    return content


def limited_batches(source: BinaryIO, path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in batches of at most 64 MB, dictionaries written out.

    Raises:
        DataError: a row is larger.
    """
    import pyarrow.parquet as pq

    schema = pq.ParquetFile(source).schema
    leaves = [schema.column(place) for place in range(len(schema))]
    # So that a text that is there a million times is in memory once; Arrow cannot inside other columns.
    shared = [leaf.name for leaf in leaves if leaf.name == leaf.path and leaf.logical_type.type == "STRING"]
    before = 0
    for batch in pq.ParquetFile(source, read_dictionary=shared).iter_batches(
        batch_size=_PARQUET_ROWS_AT_ONCE
    ):
        for part in _parts(batch, path, before):
            columns = [
                column.dictionary_decode() if _is_shared(column) else column for column in part.columns
            ]
            yield type(part).from_arrays(columns, names=part.schema.names)
        before += batch.num_rows


def _parts(batch: pa.RecordBatch, path: Path, before: int) -> Iterator[pa.RecordBatch]:
    """The batch in halves until each is small enough; so many rows of the file are ``before`` it."""
    if sum(map(_unfolded_bytes, batch.columns)) <= _PARQUET_ROW_BYTES:
        yield batch
    elif batch.num_rows == 1:
        found = f"expected at most {_PARQUET_ROW_BYTES >> 20} MB in a row, found more; is it text?"
        raise DataError(f"{path}, row {before + 1}: {found}")
    else:
        half = batch.num_rows // 2
        yield from _parts(batch.slice(0, half), path, before)
        yield from _parts(batch.slice(half), path, before + half)


def _unfolded_bytes(array: pa.Array) -> int:
    """Bytes of an array where each value of a dictionary is written out."""
    import pyarrow.compute as pc

    if not _is_shared(array):
        return int(array.nbytes)
    return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0


def _is_shared(array: pa.Array) -> bool:
    """Whether its texts are in memory once each."""
    import pyarrow as pa

    return pa.types.is_dictionary(array.type) and array.type.value_type in (pa.string(), pa.large_string())
