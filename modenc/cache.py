"""The cache of what modenc can make again: converted bases, fingerprints, fetched files."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from modenc.errors import StorageError
from modenc.storage import disk_errors


def cache_dir() -> Path:
    """The user's cache folder for modenc: ``$MODENC_CACHE``, else ``$XDG_CACHE_HOME/modenc``.

    Raises:
        StorageError: neither is set, and the user has no home.
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
class Mark:
    """A file that marks something as completed; it may name what was made."""

    path: Path

    def there(self) -> bool:
        """Whether it was completed."""
        return self.path.is_file()

    def names(self) -> list[str]:
        """What was made; empty where it was not completed, or the mark has no names."""
        with suppress(OSError):
            return self.path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]
        return []

    def make(self, names: Iterable[str] = ()) -> None:
        """Mark it as completed; where the cache cannot be written it will be done again."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = "".join(f"{name}\n" for name in names)
            self.path.write_text(content, encoding="utf-8", errors="surrogateescape")


def fetched_whole(*what: object) -> Mark:
    """The mark of a commit's files that were all fetched, so that they need not be requested again."""
    return Mark(cache_dir() / "fetched" / hashlib.sha256(repr(what).encode()).hexdigest())


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``target`` that is renamed to it once the block succeeds.

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
