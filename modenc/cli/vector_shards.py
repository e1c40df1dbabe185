"""Shards of vectors on disk, from which a run of ``modenc encode`` resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.shards import KEPT, ShardFolder
from modenc.storage import disk_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

OUTPUT_FORMATS = (".npy", ".parquet")


@dataclass(frozen=True)
class VectorShards(ShardFolder):
    """Shards of one output file.

    A ``.npy`` file has shape [texts, width]; a ``.parquet`` file has the columns index, language and vector.
    """

    width: int
    """Number of values in a vector."""
    dtype: str
    """Type of these values."""

    def write(self, number: int, first: int, vectors: NDArray[Any], codes: Sequence[str]) -> None:
        """Store shard ``number``: vectors [n, width] of texts ``first`` … ``first + n - 1``."""
        with self.writing(number) as stream:
            if self.suffix == ".npy":
                import numpy as np

                np.save(stream, vectors)
            else:
                import pyarrow.parquet as pq

                pq.write_table(self._table(first, vectors, codes), stream)

    def join(self, shards: int) -> None:
        """Write the first ``shards`` shards, one at a time, to the output, and remove all shards."""
        temporary = self.output.with_name(f".{self.output.name}.tmp")
        paths = [self.shard(number) for number in range(shards)]
        with disk_errors(self.output, KEPT):
            try:
                join = self._join_npy if self.suffix == ".npy" else self._join_parquet
                join(paths, temporary)
                temporary.replace(self.output)
            finally:
                temporary.unlink(missing_ok=True)
        self.remove()

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        vector = pa.list_(getattr(pa, self.dtype)(), self.width)
        return pa.schema([("index", pa.int64()), ("language", pa.string()), ("vector", vector)])

    def _table(self, first: int, vectors: NDArray[Any], codes: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        index = pa.array(range(first, first + len(vectors)), pa.int64())
        flat = pa.array(vectors.reshape(-1), getattr(pa, self.dtype)())
        column = pa.FixedSizeListArray.from_arrays(flat, self.width)
        return pa.Table.from_arrays([index, pa.array(codes, pa.string()), column], schema=self._schema())

    def _join_npy(self, paths: list[Path], target: Path) -> None:
        import numpy as np

        dtype = np.dtype(self.dtype).newbyteorder("<")
        rows = sum(len(np.load(path, mmap_mode="r")) for path in paths)
        # With a memory map, a full disk would end the process without an error message.
        with target.open("wb") as stream:
            np.lib.format.write_array_header_1_0(
                stream, {"descr": dtype.str, "fortran_order": False, "shape": (rows, self.width)}
            )
            for path in paths:
                stream.write(np.load(path).astype(dtype, copy=False).tobytes())

    def _join_parquet(self, paths: list[Path], target: Path) -> None:
        import pyarrow.parquet as pq

        with pq.ParquetWriter(target, self._schema()) as writer:
            for path in paths:
                table = pq.read_table(path)
                writer.write_table(table, row_group_size=max(1, len(table)))
