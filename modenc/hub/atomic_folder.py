"""Atomic replacement of a folder: a killed process leaves either the old or the new one.

New and replaced folders of a language are siblings with a dotted name: ``.kk.tmp-<pid>-<random>`` (removed
after a crash) or ``.kk.old-<pid>-<random>`` (put back after a crash if ``kk`` is missing). The process that
uses one holds a lock on it, so that others can tell leftovers from work in progress, even from another
container, where process ids mean nothing.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from modenc.hub.files import sync_tree
from modenc.storage import sync

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

STAGING_FOLDER = re.compile(r"\.(?P<lang>[^.]+)\.(?P<kind>tmp|old)-\d+-[0-9a-f]+")
"""Names of new and replaced folders of a language."""
# Names of temporary files from storage.whole_file; they can be in a hub and its folder 1_Pooling.
_TEMPORARY_FILE = re.compile(r"\.[^.]+\.tmp-\d+-[0-9a-f]{8}\.json")
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def staging_path(target: Path, kind: str) -> Path:
    """Make an unused sibling name of ``target``; ``kind`` is ``tmp`` or ``old``."""
    return target.with_name(f".{target.name}.{kind}-{os.getpid()}-{secrets.token_hex(4)}")


@contextmanager
def staging_folder(target: Path) -> Iterator[Path]:
    """Make a new locked sibling folder of ``target``, which is removed at the end unless it was renamed."""
    folder = staging_path(target, "tmp")
    with ExitStack() as held:
        # clean_up holds this lock, too, so that it cannot find the folder before it is locked.
        with _locked(target.parent):
            folder.mkdir()
            held.callback(_discard, folder)
            held.enter_context(_locked(folder))
        yield folder


@contextmanager
def writing_files(root: Path) -> Iterator[None]:
    """Lock a hub's folder while files are written in it, so that :func:`clean_up` does not remove these."""
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root):
        yield


def replace_folder(new: Path, target: Path) -> None:
    """Rename ``new``, once its files are on the disk, to ``target`` in one step; an old folder is removed."""
    sync_tree(new)
    old = _swap_in(new, target)
    _sync_names(target.parent)
    if old is not None:
        _discard(old)


def remove_folder(target: Path) -> None:
    """Remove a folder in one step: it is renamed first, so that it is never seen half removed.

    Raises:
        OSError: it cannot be renamed, and is unchanged.
    """
    renamed = staging_path(target, "tmp")
    with _locked(target):
        target.rename(renamed)
        # Files that cannot be deleted now are left to clean_up.
        _sync_names(target.parent)
        _discard(renamed)


def clean_up(root: Path) -> None:
    """Repair what killed processes left: put back replaced folders, and remove unfinished ones."""
    with _locked(root, exclusive=True):
        for file in (*root.glob(".*.json"), *root.glob("[0-9]_*/.*.json")):
            if _TEMPORARY_FILE.fullmatch(file.name) and file.is_file():
                with suppress(OSError):
                    file.unlink()
        for folder in sorted(root.glob(".*.???-*")):
            match = STAGING_FOLDER.fullmatch(folder.name)
            if match is None or not folder.is_dir() or _is_in_use(folder):
                continue
            target = root / match["lang"]
            try:
                if match["kind"] == "old" and not target.exists():
                    folder.rename(target)
                    logger.warning("%s: put back after an interrupted replacement", target)
                else:
                    _delete(folder)
                    logger.info("%s: removed, left by a process that ended early", folder)
            except FileNotFoundError:
                continue  # its owner removed it at the same time
            except OSError as error:
                logger.warning("%s: left by a process that ended early; cannot be removed: %s", folder, error)


def _delete(folder: Path) -> None:
    """Remove a folder, or a link without its target."""
    if folder.is_symlink():
        folder.unlink()
        return
    try:
        shutil.rmtree(folder)
    except RecursionError:
        raise OSError(errno.ENAMETOOLONG, "folders too deep to remove", str(folder)) from None


def _discard(folder: Path) -> None:
    with suppress(OSError):
        _delete(folder)


def _sync_names(folder: Path) -> None:
    """Apply :func:`sync` after a rename; errors are only logged, since the rename cannot be undone."""
    try:
        sync(folder)
    except OSError as error:
        logger.warning("%s: changed, but the change may not outlast a power cut: %s", folder, error)


def needs_recovery(root: Path) -> bool:
    """Check whether a process died while it replaced a language in two steps."""
    return any(STAGING_FOLDER.fullmatch(folder.name) for folder in root.glob(".*.old-*"))


def _swap_in(new: Path, target: Path) -> Path | None:
    """Rename ``new`` to ``target``; returns the new path of the old folder, if there was one."""
    for _ in range(100):  # other processes may publish or remove the same language between two steps
        if not target.exists():
            try:
                new.rename(target)
                return None
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        elif _exchange(new, target):
            return new
        elif target.exists():
            return _swap_in_two_steps(new, target)
    raise OSError(errno.EBUSY, "another process keeps replacing this folder", str(target))


def _swap_in_two_steps(new: Path, target: Path) -> Path:
    """Replace a folder where two cannot be exchanged; :func:`clean_up` repairs an interruption."""
    old = staging_path(target, "old")
    with _locked(target):
        target.rename(old)
        try:
            new.rename(target)
        except OSError:
            old.rename(target)
            raise
    return old


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one system call; returns False if the system or file system cannot."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    paths = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other))
    if rename(*paths, ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOENT):
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


@contextmanager
def _locked(folder: Path, *, exclusive: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold a shared or exclusive lock on a folder; the system releases it when the process dies.

    Without ``wait``, another process's lock is an ``OSError``.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        fcntl.flock(descriptor, mode | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _is_in_use(folder: Path) -> bool:
    """Check whether a process still holds the lock on a folder."""
    with suppress(OSError), _locked(folder, exclusive=True, wait=False):
        return sys.platform == "win32"  # where there are no locks
    return True
