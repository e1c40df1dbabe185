"""Files of embeddings, written as a stream: .npy and .parquet."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Batch = tuple[NDArray[Any], list[str]]
    """Vectors [texts, width], and for each text the code of the language whose modules encoded it."""

OUTPUT_FORMATS = (".npy", ".parquet")
_KEY = b"modenc"


def write_npy(path: Path, batches: Iterable[Batch], width: int, dtype: str) -> int:
    """Write vectors to a .npy file of shape [texts, width]; returns the number of texts."""
    import numpy as np

    stored, rows = np.dtype(dtype).newbyteorder("<"), 0
    header = {"descr": stored.str, "fortran_order": False}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header | {"shape": (0, width)})
        for vectors, _ in batches:
            stream.write(vectors.astype(stored, copy=False).tobytes())
            rows += len(vectors)
        stream.seek(0)  # NumPy leaves room in a header for more rows
        np.lib.format.write_array_header_1_0(stream, header | {"shape": (rows, width)})
    return rows


def write_parquet(
    path: Path, batches: Iterable[Batch], width: int, dtype: str, first: int, made_of: dict[str, Any]
) -> int:
    """Write a Parquet file with the columns index (from ``first``), language and vector; returns its rows.

    ``made_of`` is kept in the file for :func:`read_made_of`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, rows = getattr(pa, dtype)(), 0
    columns = {"index": pa.int64(), "language": pa.string(), "vector": pa.list_(number, width)}
    schema = pa.schema(columns, {_KEY: json.dumps(made_of)})
    # With a stream of Python's, errors of a full disk keep their number.
    with path.open("wb") as stream, pq.ParquetWriter(stream, schema) as writer:
        for vectors, codes in batches:
            index = pa.array(range(first + rows, first + rows + len(vectors)), pa.int64())
            vector = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1), number), width)
            writer.write_table(pa.table([index, pa.array(codes, pa.string()), vector], schema=schema))
            rows += len(vectors)
    return rows


def read_made_of(path: Path) -> dict[str, Any]:
    """Read what a file of :func:`write_parquet` was made of; nothing of any other file."""
    import pyarrow.parquet as pq

    try:
        return dict(json.loads(pq.read_schema(path).metadata[_KEY]))
    except (OSError, KeyError, TypeError, ValueError):
        return {}
