"""Cache of files that can be made again: converted bases, fingerprints, downloads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from modenc.storage import disk_errors, whole_folder

COMMIT = re.compile(r"[0-9a-f]{40}")
"""Hash of a commit on Hugging Face."""


def cache_dir() -> Path:
    """Return modenc's cache folder: ``$MODENC_CACHE``, ``$XDG_CACHE_HOME/modenc``, or ``~/.cache/modenc``."""
    if explicit := os.environ.get("MODENC_CACHE"):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modenc"


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
    """Yield a temporary sibling folder that becomes ``target`` when the block succeeds.

    If another process finishes ``target`` first, its folder is kept and this one is removed.

    Raises:
        StorageError: the cache cannot be written.
    """
    with disk_errors(target.parent, "what was there is kept (MODENC_CACHE names another folder)"):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with whole_folder(target) as temporary:
                yield temporary
        except OSError:
            if not target.is_dir():
                raise
