"""Safe writing of files: errors of full disks, atomic replacement, locks, and modenc's cache."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from modenc.errors import ModencError, StorageError

_CODES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
# Outside the folder being written, these errors concern files that were read.
_CODES_BELOW = {errno.EACCES, errno.EPERM}
# Errors of numpy, torch and others that do not name the cause.
_UNNAMED = re.compile(
    r"requested and \d+ written|inline_container|PytorchStreamWriter|file write failed|iostream error"
)


@contextmanager
def disk_errors(where: Path, kept: str) -> Iterator[None]:
    """Turn errors of a full or read-only disk in the block into a :class:`StorageError`.

    Args:
        where: the file or folder that the block writes.
        kept: what a failure leaves intact, for the message.

    Raises:
        StorageError: the disk is full, over its quota or read-only, or this user may not write there.
    """
    try:
        yield
    except ModencError:
        raise
    except Exception as error:  # tokenizers raises no narrower type
        # Another disk may be full: that of the cache, or of temporary files.
        name = getattr(error, "filename", None)
        below = not isinstance(name, str | bytes) or Path(os.fsdecode(name)).is_relative_to(where)
        reason = _reason(error, _CODES | _CODES_BELOW if below else _CODES)
        if reason is None:
            raise
        place = where if below else name
        raise StorageError(
            f"{place}: cannot be written ({reason}); {kept}. "
            "Make room or make it writable, then run the same command again"
        ) from error


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling path; its file replaces ``path`` when the block succeeds."""
    temporary = path.with_name(f".{path.stem}.tmp-{secrets.token_hex(8)}{path.suffix}")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that readers see either the old or the new content, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def sync(path: Path) -> None:
    """Flush a file or a folder's entries to disk."""
    # Windows flushes only what is open for writing.
    flags = os.O_RDWR if sys.platform == "win32" else os.O_RDONLY
    try:
        descriptor = os.open(path, flags)
    except PermissionError:
        return  # folders cannot be opened on Windows, and need not be
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Apply :func:`sync` to a folder and everything below it."""
    for path in root.rglob("*"):
        sync(path)
    sync(root)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling folder; it becomes ``path``, missing or empty, when the block succeeds."""
    temporary = path.with_name(f".{path.name}.tmp-{secrets.token_hex(8)}")
    temporary.mkdir()
    try:
        yield temporary
        sync_tree(temporary)
        if path.is_dir():
            path.rmdir()
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def exclusive_lock(folder: Path, error_if_held: ModencError, timeout: float = 0) -> Iterator[None]:
    """Lock a folder, which is made if it is missing; the lock ends with this process in any case.

    If another process holds the lock for ``timeout`` more seconds, ``error_if_held`` is raised.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(folder / ".lock").acquire(timeout=timeout)
    except Timeout:
        raise error_if_held from None
    with lock:
        yield


def cache_dir() -> Path:
    """Return modenc's cache folder: ``$MODENC_CACHE``, ``$XDG_CACHE_HOME/modenc``, or ``~/.cache/modenc``."""
    if explicit := os.environ.get("MODENC_CACHE"):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modenc"


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


def recall(path: Path) -> str:
    """Return the line that :func:`remember` wrote into a file of the cache; empty without one."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8").strip()
    return ""


def remember(path: Path, line: str) -> None:
    """Write a line into a file of the cache; if it cannot be written, what it says is found out again."""
    with suppress(OSError):
        write_atomically(path, f"{line}\n")


def _reason(error: Exception, wanted: set[int]) -> str | None:
    """Return why a file could not be written; None if the error has another cause."""
    text = str(error)
    codes = {getattr(error, "errno", None)}
    # safetensors puts the error number into its message, and shutil the messages of many errors.
    codes |= {int(code) for code in re.findall(r"(?:os error |Errno )(\d+)", text)}
    for code in wanted & codes:
        return os.strerror(code)
    return "the disk is full" if _UNNAMED.search(text) else None
