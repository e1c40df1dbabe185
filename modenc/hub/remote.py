"""A hub's folder: on this disk, or at one commit on Hugging Face, fetched into the cache."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from modenc.cache import cache_dir, fetched_whole
from modenc.errors import HubError

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_SECONDS = 10.0


def hub_folder(
    hub: str | Path,
    *,
    revision: str | None = None,
    token: bool | str | None = None,
    local_files_only: bool = False,
    subfolder: str = "",
) -> str | Path:
    """Where a hub is, fetched first where it is the id of one on Hugging Face.

    A commit that was fetched whole is taken from the cache without a question to the network.

    Args:
        hub: a folder, or an id (``organization/name``).
        revision: the commit, of 40 hexadecimal digits; for an id alone.
        token: as in huggingface_hub.
        local_files_only: take what the cache has, and ask no network.
        subfolder: of the repository, where the hub is.

    Raises:
        HubError: it is neither, a commit is missing or given for a folder, or it cannot be fetched.
    """
    name = os.fspath(hub) if isinstance(hub, os.PathLike) else hub
    if not isinstance(name, str):
        return hub  # for the error of whoever opens it
    if os.path.exists(name):  # not Path.exists, which raises where a name is too long
        if revision is not None:
            raise HubError(
                f"{name}: expected no revision for a folder, found {revision!r:.60}; it is for hubs on "
                "Hugging Face: leave it out, or give such a hub's id"
            )
        return hub
    if not _ID.fullmatch(name):
        raise HubError(
            f"{name:.200}: expected a hub's folder, found no such folder; nor is it the id of a hub on "
            "Hugging Face (organization/name, with revision=). Give a hub's path, or train one"
        )
    if revision is None or not _COMMIT.fullmatch(str(revision)):
        raise HubError(
            f"{name}: no such folder. If it is a hub on Hugging Face: expected revision= with a commit (40 "
            f"hex digits), found {revision!r:.60}; what a branch names may change"
        )
    options = {"token": token} if token is not None else {}
    folder = _fetched(name, str(revision), options, offline=local_files_only)
    place = Path(folder, subfolder).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise HubError(
            f"{name}: expected a folder of its own in its modules.json, found the path {subfolder!r}, which "
            "leads out of it; do not use this hub, and tell who publishes it"
        )
    return place


def _fetched(name: str, commit: str, options: dict[str, Any], *, offline: bool) -> Path:
    """Plain files, where Hugging Face's own cache has links; again where a cleaner of caches removed some.

    Raises:
        HubError: they cannot be had.
    """
    from huggingface_hub import HfApi, snapshot_download

    target = cache_dir() / "hubs" / commit
    mark = fetched_whole("hub", name, commit)
    names = mark.names()
    gone = [found for found in names if not (target / found).is_file()]
    if names and not gone:
        return target
    refused: Exception | None = None
    if not offline:
        try:
            # Asked first, since fetching waits for this answer without end.
            HfApi().model_info(name, revision=commit, timeout=_SECONDS, **options)
        except Exception as error:  # of several libraries
            refused = error
    local = offline or refused is not None
    try:
        folder = Path(
            snapshot_download(name, local_dir=target, revision=commit, local_files_only=local, **options)
        )
    except Exception as error:  # of several libraries
        raise HubError(
            f"{name}: expected a hub's folder, or a hub on Hugging Face that this machine can reach or has "
            f"in its cache; {refused or error}"
        ) from error
    if not local:
        # Not what huggingface_hub notes beside the hub's files.
        inside = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
        mark.make(sorted(path.as_posix() for path in inside if ".cache" not in path.parts))
    elif gone:
        raise HubError(
            f"{target}: expected all files of {name} that were fetched, found {len(gone)} missing, such as "
            f"{gone[0]!r:.200}, and they cannot be fetched again now ({refused or 'local_files_only is set'})"
            "; open it again with a network"
        )
    return folder
