"""Folders that are written to: by one process at a time, on a disk that may be full or read-only."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from modenc.errors import ModencError, StorageError

LOCK_FILE = ".lock"
"""In a folder that one process at a time works in."""

_CODES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
# numpy, torch and others say what they met, but not which error it was.
_WORDLESS = re.compile(
    r"requested and \d+ written|inline_container|PytorchStreamWriter|file write failed|iostream error"
)


@contextmanager
def storing(where: Path, kept: str) -> Iterator[None]:
    """Within the block files below ``where`` are written.

    Args:
        where: for the message.
        kept: what is not lost by a failure.

    Raises:
        StorageError: the disk is full, over its quota or read-only.
    """
    try:
        yield
    except ModencError:
        raise
    except Exception as error:  # tokenizers raises no other
        reason = _reason(error)
        if reason is None:
            raise
        # Another place may be full: the cache, or where temporary files go.
        name = getattr(error, "filename", None)
        place = where if name is None or Path(os.fsdecode(name)).is_relative_to(where) else name
        raise StorageError(
            f"{place}: cannot be written ({reason}); {kept}. "
            "Make room or have it writable, then do the same again"
        ) from error


@contextmanager
def alone_in(folder: Path, otherwise: ModencError) -> Iterator[None]:
    """Hold a folder, made where it is missing; the system lets it go when this process ends, however it ends.

    Args:
        folder: it.
        otherwise: raised where another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise otherwise from None
    try:
        yield
    finally:
        lock.release()


def _reason(error: Exception) -> str | None:
    """Why nothing could be written; ``None``: that was not it."""
    text = str(error)
    codes = {getattr(error, "errno", None)}
    # safetensors gives the number in its text, shutil the texts of many errors.
    codes |= {int(code) for code in re.findall(r"(?:os error |Errno )(\d+)", text)}
    for code in _CODES & codes:
        return os.strerror(code)
    return "the disk is full" if _WORDLESS.search(text) else None
