"""Writing to folders: by one process at a time, on disks that may be full or read-only."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from modenc.errors import ModencError, StorageError

LOCK_FILE = ".lock"
"""Name of the lock in a folder that one process at a time works in."""

_CODES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
# Elsewhere these are of files that were to be read.
_CODES_BELOW = {errno.EACCES, errno.EPERM}
# numpy, torch and others describe the failure, but not which error it was.
_WORDLESS = re.compile(
    r"requested and \d+ written|inline_container|PytorchStreamWriter|file write failed|iostream error"
)


@contextmanager
def disk_errors(where: Path, kept: str) -> Iterator[None]:
    """Turn errors of a full or read-only disk in the block into a :class:`StorageError`.

    Args:
        where: the file or folder that the block writes.
        kept: what is not lost by a failure, for the message.

    Raises:
        StorageError: the disk is full, over its quota or read-only, or this user may not write there.
    """
    try:
        yield
    except ModencError:
        raise
    except Exception as error:  # tokenizers raises nothing more specific
        # Another place may be full: the cache, or the folder of temporary files.
        name = getattr(error, "filename", None)
        below = not isinstance(name, str | bytes) or Path(os.fsdecode(name)).is_relative_to(where)
        reason = _reason(error, _CODES | _CODES_BELOW if below else _CODES)
        if reason is None:
            raise
        place = where if below else name
        raise StorageError(
            f"{place}: cannot be written ({reason}); {kept}. "
            "Make room or make it writable, then run the same again"
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``; its file replaces ``path`` once the block succeeds."""
    # Processes in containers may share an id, and threads do.
    own = f"{os.getpid()}-{secrets.token_hex(4)}"
    temporary = path.with_name(f".{path.stem}.tmp-{own}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that readers see the old content or the new, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        sync(temporary)


def sync(path: Path) -> None:
    """Flush a file or a folder's entries to disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return  # folders cannot be opened on Windows, and need not be
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_lock(folder: Path, otherwise: ModencError, wait: float = 0) -> Iterator[None]:
    """Lock a folder, made where it is missing; the lock ends with this process, however it ends.

    Args:
        folder: the folder.
        otherwise: raised where another process holds the lock.
        wait: seconds that it may go on holding it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(folder / LOCK_FILE).acquire(timeout=wait)
    except Timeout:
        raise otherwise from None
    with lock:
        yield


def _reason(error: Exception, wanted: set[int]) -> str | None:
    """What kept a file from being written; None where the error is of another kind."""
    text = str(error)
    codes = {getattr(error, "errno", None)}
    # safetensors puts the number into its message, shutil the messages of many errors.
    codes |= {int(code) for code in re.findall(r"(?:os error |Errno )(\d+)", text)}
    for code in wanted & codes:
        return os.strerror(code)
    return "the disk is full" if _WORDLESS.search(text) else None
