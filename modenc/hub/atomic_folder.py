"""Putting a finished folder in place of an old one, so that a killed process leaves one of the two.

Folders that are not yet, or no longer, a language are siblings with a dotted name,
``.kk.tmp-<pid>-<random>`` (to be thrown away) or ``.kk.old-<pid>-<random>`` (to be put back where
``kk`` is missing). Their owner holds a lock on them, so that others can tell a dead owner's
leftovers from work in progress, also across containers, where process ids mean nothing.
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

from modenc.storage import sync

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger(__name__)

STAGING_FOLDER = re.compile(r"\.(?P<lang>[^.]+)\.(?P<kind>tmp|old)-\d+-[0-9a-f]+")
"""Names of folders that a language is made in, or was moved away to."""
# As storage.whole_file names them, in a hub's folder and in those of sentence-transformers' modules.
_SIDE_FILE = re.compile(r"\.[^.]+\.tmp-\d+-[0-9a-f]{8}\.json")
_SIDE_FILES = (".*.tmp-*.json", "[0-9]_*/.*.tmp-*.json")
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def staging_path(target: Path, kind: str) -> Path:
    """A fresh name beside ``target``; ``kind`` is ``tmp`` or ``old``."""
    return target.with_name(f".{target.name}.{kind}-{os.getpid()}-{secrets.token_hex(4)}")


@contextmanager
def staging_folder(target: Path) -> Iterator[Path]:
    """A new locked folder beside ``target``; what is left of it at the end is removed."""
    folder = staging_path(target, "tmp")
    with ExitStack() as held:
        # Those who clean up hold this lock, so that none of them finds the folder before it is locked.
        with _locked(target.parent):
            folder.mkdir()
            held.callback(_discard, folder)
            held.enter_context(_locked(folder))
        yield folder


@contextmanager
def writing_files(root: Path) -> Iterator[None]:
    """Within the block files are written in a hub's own folder; nobody takes them for leftovers."""
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root):
        yield


def replace_folder(new: Path, target: Path) -> None:
    """Make ``new`` the folder ``target`` in one step; the old folder, if there is one, is removed."""
    old = _swap_in(new, target)
    _sync_names(target.parent)
    if old is not None:
        _discard(old)


def remove_folder(target: Path) -> None:
    """Remove a folder in one step: it is renamed first, so that no half of it is ever seen.

    Raises:
        OSError: it is there as before.
    """
    doomed = staging_path(target, "tmp")
    with _locked(target):
        target.rename(doomed)
        # It is gone by now: what cannot be deleted is left to :func:`clean_up`.
        _sync_names(target.parent)
        _discard(doomed)


def clean_up(root: Path) -> None:
    """Repair what dead processes left: put back what they moved away, remove what they began."""
    with _locked(root, alone=True):
        for pattern in _SIDE_FILES:
            for file in root.glob(pattern):
                if _SIDE_FILE.fullmatch(file.name) and file.is_file():
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
                continue  # its owner was about to remove it, too
            except OSError as error:
                logger.warning("%s: left by a process that ended early; cannot be removed: %s", folder, error)


def _delete(folder: Path) -> None:
    """Remove a folder, or a link alone.

    Raises:
        OSError: it cannot be removed.
    """
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
    """:func:`sync` after a renaming, which is done: an error would say that all is as it was."""
    try:
        sync(folder)
    except OSError as error:
        logger.warning("%s: changed, but the change may not outlast a power cut: %s", folder, error)


def needs_recovery(root: Path) -> bool:
    """Whether a language may have been moved away by a process that died before the new one came."""
    return any(STAGING_FOLDER.fullmatch(folder.name) for folder in root.glob(".*.old-*"))


def _swap_in(new: Path, target: Path) -> Path | None:
    """Rename ``new`` to ``target``; returns where the old folder is now, if there was one."""
    for _ in range(100):  # others may publish or remove the same language between two steps
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
    """For systems that cannot exchange two folders; :func:`clean_up` mends an interruption."""
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
    """Swap two folders in one system call; False where the system or file system cannot."""
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
def _locked(folder: Path, *, alone: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a folder, shared or ``alone``; the system lets it go when the process dies, however.

    Raises:
        OSError: there is no such folder, or, without ``wait``, somebody holds a lock on it.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _is_in_use(folder: Path) -> bool:
    """Whether somebody still holds a side folder."""
    with suppress(OSError), _locked(folder, alone=True, wait=False):
        return sys.platform == "win32"  # no lock can be asked for there
    return True
