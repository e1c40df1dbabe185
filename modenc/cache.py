"""Cache of files that can be made again: converted bases, fingerprints, downloads."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from modenc.errors import StorageError
from modenc.storage import disk_errors

COMMIT = re.compile(r"[0-9a-f]{40}")
"""Hash of a commit on Hugging Face."""


def cache_dir() -> Path:
    """Return modenc's cache folder: ``$MODENC_CACHE``, ``$XDG_CACHE_HOME/modenc``, or ``~/.cache/modenc``.

    Raises:
        StorageError: neither variable is set, and the user has no home folder.
    """
    if explicit := os.environ.get("MODENC_CACHE"):
        return Path(explicit)
    if above := os.environ.get("XDG_CACHE_HOME"):
        return Path(above) / "modenc"
    try:
        return Path.home() / ".cache" / "modenc"
    except RuntimeError as error:
        raise StorageError(
            "expected a home folder to keep a cache in, found none; set MODENC_CACHE to a folder"
        ) from error


@dataclass(frozen=True)
class Marker:
    """A file that marks some work as completed; it may hold lines of text."""

    path: Path

    def exists(self) -> bool:
        """Check whether the work was completed."""
        return self.path.is_file()

    def lines(self) -> list[str]:
        """Return the lines; none if the work was not completed."""
        with suppress(OSError):
            return self.path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]
        return []

    def write(self, lines: Iterable[str] = ()) -> None:
        """Mark the work as completed; if the cache cannot be written, it will be done again."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = "".join(f"{line}\n" for line in lines)
            self.path.write_text(content, encoding="utf-8", errors="surrogateescape")


@contextmanager
def new_cache_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary sibling folder that is renamed to ``target`` when the block succeeds.

    If another process finishes ``target`` first, its folder is kept and this one is removed.

    Raises:
        StorageError: the cache cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise StorageError(
            f"{target.parent}: cannot be written ({error.strerror}); set MODENC_CACHE to a folder that can"
        ) from error
    try:
        with disk_errors(target.parent, "what was there is kept"):
            yield temporary
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
