"""Where modenc keeps what it can make again: converted bases and fingerprints."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modenc.errors import StorageError
from modenc.storage import storing


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


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary sibling of ``target`` that takes its name once the block succeeds.

    If another process finishes ``target`` first, its folder is kept and ours is thrown away.

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
        with storing(target.parent, "what was there is kept"):
            yield temporary
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
