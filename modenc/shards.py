"""Work in shards, so that a long run can resume and its result need not fit in memory.

``OUTPUT.parts/`` holds one file for each shard, and ``job.json``, which describes the work. Each shard is
written under another name and renamed, so a shard that exists is complete. One process at a time writes them.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from modenc.errors import DataError
from modenc.storage import LOCK_FILE, disk_errors, exclusive_lock

logger = logging.getLogger(__name__)

KEPT = "finished shards are kept"
"""Part of error messages about failures to write."""

_JOB_FILE = "job.json"
_SHARD = re.compile(r"\.?\d{7}\.(npy|parquet|jsonl)")


@dataclass(frozen=True)
class ShardFolder:
    """Folder with the shards of one output file."""

    output: Path
    """File that the shards are joined to in the end."""
    suffix: str
    """Ending of a shard's name."""

    @property
    def folder(self) -> Path:
        """Folder of the shards until they are joined."""
        return self.output.with_name(f"{self.output.name}.parts")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder, and make it if it is missing.

        Raises:
            DataError: another process holds it.
            StorageError: the disk is full or read-only.
        """
        busy = DataError(
            f"{self.output}: another process writes it; wait until it is done, or write elsewhere"
        )
        with disk_errors(self.folder, KEPT), exclusive_lock(self.folder, busy):
            yield

    def begin(self, job: dict[str, Any], *, resumable: bool) -> int:
        """Prepare the folder for ``job``; returns the number of its shards that are done already.

        Shards of another job (the input, its date or a setting differs) are removed; the log names the
        differing entries.
        """
        job_file = self.folder / _JOB_FILE
        if resumable and job_file.is_file():
            found = _read_job(job_file)
            changed = [name for name in job if found.get(name) != job[name]]
            if not changed:
                return self._done()
            logger.info("%s is of another job (%s changed); starting over", self.folder, ", ".join(changed))
        if not job_file.is_file() and any(_SHARD.fullmatch(path.name) for path in self.folder.iterdir()):
            raise DataError(
                f"{self.folder}: expected a new folder or shards with their {_JOB_FILE}, found files "
                "that are named like shards; move these away"
            )
        with disk_errors(self.folder, "nothing has been computed yet"):
            self._clear()
            job_file.write_text(json.dumps(job, indent=1), encoding="utf-8")
        return 0

    @contextmanager
    def writing(self, number: int) -> Iterator[BinaryIO]:
        """Yield a stream whose content becomes shard ``number`` when the block succeeds."""
        target = self.shard(number)
        temporary = target.with_name(f".{target.name}")
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)

    def shard(self, number: int) -> Path:
        """Return the file of a shard, counted from 0."""
        return self.folder / f"{number:07d}{self.suffix}"

    def remove(self) -> None:
        """Remove the shards, and the folder unless other files are in it."""
        self._clear()
        (self.folder / LOCK_FILE).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _clear(self) -> None:
        for path in [path for path in self.folder.iterdir() if _SHARD.fullmatch(path.name)]:
            path.unlink()
        (self.folder / _JOB_FILE).unlink(missing_ok=True)

    def _done(self) -> int:
        number = 0
        while self.shard(number).is_file():
            number += 1
        return number


def _read_job(path: Path) -> dict[str, Any]:
    try:
        job = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return job if isinstance(job, dict) else {}
