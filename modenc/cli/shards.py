"""Vectors on disk in shards, so that a long run resumes and its result need not fit in memory.

``OUTPUT.parts/`` holds one file a shard and ``job.json``, which says what the shards are of. Each
shard is written under another name and renamed, so one that exists is whole. One process at a time writes
them.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.text_io import refuse_folder, refuse_overwriting
from modenc.errors import DataError
from modenc.storage import LOCK_FILE, alone_in, storing

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

logger = logging.getLogger(__name__)

OUTPUT_FORMATS = (".npy", ".parquet")
_JOB_FILE = "job.json"
_SHARD = re.compile(r"\.?\d{7}\.(npy|parquet)")
_KEPT = "finished shards are kept"


@dataclass(frozen=True)
class ShardStore:
    """The shards of one output file."""

    output: Path
    """``.npy``: float32 [texts, hidden]. ``.parquet``: columns index, language, vector."""
    hidden_size: int
    """Width of the vectors."""

    @property
    def folder(self) -> Path:
        """Where the shards lie until they are joined."""
        return self.output.with_name(f"{self.output.name}.parts")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder, made where it is missing.

        Raises:
            DataError: something that is not a folder of shards has its name, or another process holds it.
        """
        if self.folder.exists() and not self._is_ours():
            raise DataError(
                f"{self.folder}: expected a folder of shards with {_JOB_FILE}, found something else; "
                "move it away, or write the output elsewhere"
            )
        busy = DataError(
            f"{self.output}: another process writes it; wait until it is done, or write elsewhere"
        )
        with ExitStack() as held:
            with storing(self.folder, _KEPT):
                held.enter_context(alone_in(self.folder, busy))
            yield

    def _is_ours(self) -> bool:
        if not self.folder.is_dir():
            return False
        names = {path.name for path in self.folder.iterdir()}
        return _JOB_FILE in names or names <= {LOCK_FILE}

    def begin(self, job: dict[str, Any], *, resumable: bool) -> int:
        """Make the folder ready for ``job``; returns how many shards of it are done already.

        Shards of another job (the input, its date or a setting differs) are removed, and the log
        says which entries differ.
        """
        job_file = self.folder / _JOB_FILE
        if job_file.is_file():
            found = _read_job(job_file)
            changed = [name for name in job if found.get(name) != job[name]]
            if resumable and not changed:
                return self._done()
            if resumable:
                logger.info(
                    "%s is of another job (%s changed); starting over", self.folder, ", ".join(changed)
                )
        with storing(self.folder, "nothing has been computed yet"):
            self._clear()
            job_file.write_text(json.dumps(job, indent=1), encoding="utf-8")
        return 0

    def _clear(self) -> None:
        # The job last, by which a folder that was half cleared is known.
        for path in [path for path in self.folder.iterdir() if _SHARD.fullmatch(path.name)]:
            path.unlink()
        (self.folder / _JOB_FILE).unlink(missing_ok=True)

    def write(self, number: int, first: int, vectors: NDArray[np.float32], codes: Sequence[str]) -> None:
        """Store shard ``number``: vectors [n, hidden] of texts ``first`` … ``first + n - 1``."""
        target = self._shard(number)
        temporary = target.with_name(f".{target.name}")
        with storing(self.folder, _KEPT), temporary.open("wb") as stream:
            if self.output.suffix == ".npy":
                import numpy as np

                np.save(stream, vectors)
            else:
                import pyarrow.parquet as pq

                pq.write_table(self._table(first, vectors, codes), stream)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)

    def join(self, shards: int) -> None:
        """Put the first ``shards`` shards together as the output, one at a time, and remove them."""
        temporary = self.output.with_name(f".{self.output.name}.tmp")
        paths = [self._shard(number) for number in range(shards)]
        with storing(self.output, _KEPT):
            try:
                if self.output.suffix == ".npy":
                    self._join_npy(paths, temporary)
                else:
                    self._join_parquet(paths, temporary)
                temporary.replace(self.output)
            finally:
                temporary.unlink(missing_ok=True)
        self._clear()
        (self.folder / LOCK_FILE).unlink(missing_ok=True)
        with suppress(OSError):  # somebody else's files are in it
            self.folder.rmdir()

    def _done(self) -> int:
        number = 0
        while self._shard(number).is_file():
            number += 1
        return number

    def _shard(self, number: int) -> Path:
        return self.folder / f"{number:07d}{self.output.suffix}"

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        vector = pa.list_(pa.float32(), self.hidden_size)
        return pa.schema([("index", pa.int64()), ("language", pa.string()), ("vector", vector)])

    def _table(self, first: int, vectors: NDArray[np.float32], codes: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        index = pa.array(range(first, first + len(vectors)), pa.int64())
        flat = pa.array(vectors.reshape(-1), pa.float32())
        column = pa.FixedSizeListArray.from_arrays(flat, self.hidden_size)
        return pa.Table.from_arrays(
            [index, pa.array(list(codes), pa.string()), column], schema=self._schema()
        )

    def _join_npy(self, paths: list[Path], target: Path) -> None:
        import numpy as np

        rows = [np.load(path, mmap_mode="r").shape[0] for path in paths]
        # Not a memory map, in which a full disk ends the process without a word.
        with target.open("wb") as stream:
            np.lib.format.write_array_header_1_0(
                stream, {"descr": "<f4", "fortran_order": False, "shape": (sum(rows), self.hidden_size)}
            )
            for path in paths:
                stream.write(np.load(path).astype("<f4", copy=False).tobytes())

    def _join_parquet(self, paths: list[Path], target: Path) -> None:
        import pyarrow.parquet as pq

        with pq.ParquetWriter(target, self._schema()) as writer:
            for path in paths:
                table = pq.read_table(path)
                writer.write_table(table, row_group_size=max(1, len(table)))


def check_output(output: Path, source: str) -> None:
    """Check before hours of work that the result can be written.

    Raises:
        DataError: the name's ending is no output format, the folder does not exist, or it is ``source``.
    """
    refuse_overwriting(source, output)
    if output.suffix not in OUTPUT_FORMATS:
        raise DataError(
            f"{output}: expected an output ending in {' or '.join(OUTPUT_FORMATS)}, "
            f"found {output.suffix or 'no ending'!r}; rename it"
        )
    if not output.parent.is_dir():
        raise DataError(f"{output.parent}: no such folder; make it, or write the output elsewhere")
    refuse_folder(output)


def _read_job(path: Path) -> dict[str, Any]:
    try:
        job = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return job if isinstance(job, dict) else {}
