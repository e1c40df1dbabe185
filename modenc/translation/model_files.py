"""Files of neural translation models: where they are, and what tells them from others of the same name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modenc.errors import BaseModelError, ModencError
from modenc.extras import require_extra

_MOST_SHOWN = 500
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGITS = 16


def find_model(name: str) -> tuple[str, Path]:
    """A model's location, its folder or Hugging Face id, and the folder of its files, fetched if need be.

    Args:
        name: a folder, or a Hugging Face id as ``id`` or ``id@revision``.

    Raises:
        MissingExtraError: the package that reads tokenizers is not installed.
        BaseModelError: there is no such model, or it cannot be fetched.
    """
    from modenc.base_model.safety import folder_of, refuse_adapter

    require_extra("translate", "sentencepiece")
    local = Path(name).expanduser()
    location, _, revision = (str(local), "", "") if local.is_dir() else name.partition("@")
    with clear_errors(name):
        folder = folder_of(location, revision or None)
    refuse_adapter(name, folder)
    return location, folder


@contextmanager
def clear_errors(name: str) -> Iterator[None]:
    """Turn what libraries raise on a damaged or missing model into a :class:`BaseModelError`."""
    try:
        yield
    except ModencError:
        raise
    except Exception as error:  # of several libraries, and whatever a damaged file makes of it
        raise BaseModelError(
            f"{name}: expected a translation model's folder, or its id on Hugging Face; found "
            f"{str(error)[:_MOST_SHOWN]}"
        ) from error


def commit_of(folder: Path) -> str | None:
    """The commit of a fetched model's folder; None for other folders."""
    fetched = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if fetched else None


def digest_of(folder: Path) -> str:
    """What tells a model from others of its name: its commit, or a digest of its folder's files."""
    if commit := commit_of(folder):
        return commit
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.suffix.lower() != ".md":
            with path.open("rb") as stream:
                digest.update(f"{path.name}\0{hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:_DIGITS]


def public_name(location: str) -> str:
    """A model's name on cards: its id, or its folder's name, which says nothing of this machine."""
    return Path(location).resolve().name if Path(location).is_dir() else location
