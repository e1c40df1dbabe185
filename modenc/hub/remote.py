"""Hubs on Hugging Face: at one commit; only the languages that are used are fetched.

A commit's ``hub.json`` and cards are downloaded into a folder of modenc's cache, in the layout of any hub; so
are a language's files when its modules are first needed.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from modenc.errors import HubError, ModencError
from modenc.hub.card import Card
from modenc.hub.checks import listing_issues, raise_issues
from modenc.hub.layout import CARD_FILE, HUB_FILE, MOST_JSON_BYTES, read_info
from modenc.hub.reading import read_language
from modenc.hub.store import Hub
from modenc.storage import cache_dir, disk_errors, recall, remember

logger = logging.getLogger(__name__)

_CARD = re.compile(rf"[a-z]{{2,8}}/{re.escape(CARD_FILE)}")
REPOSITORY_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_SECONDS = 10.0


@contextmanager
def hugging_face_errors(repository: str, revision: str | None = None) -> Iterator[None]:
    """Turn errors of huggingface_hub in the block into :class:`HubError`.

    Raises:
        HubError: the repository is not there, may not be read or written, or cannot be reached.
    """
    try:
        yield
    except ModencError:
        raise
    except Exception as error:  # several libraries raise many types
        said = " ".join(str(error).split())[:600]
        raise HubError(
            f"{repository} at {revision or 'main'}: Hugging Face refuses this or cannot be reached "
            f"({type(error).__name__}: {said}). Check the id (or the folder's path), the revision and the "
            "network; for a private or gated repository give token=, set HF_TOKEN, or run hf auth login"
        ) from error


def open_hub(
    hub: str | Path | Hub,
    *,
    revision: str | None = None,
    token: bool | str | None = None,
    local_files_only: bool = False,
) -> Hub:
    """Open a hub: a folder, or one on Hugging Face, which stays at its present commit.

    If Hugging Face cannot be reached, a revision is opened at the commit last found there.

    Args:
        hub: a folder, an id (``organization/name``), or an open hub.
        revision: commit, branch or tag, only with an id; ``None``: the main branch.
        token: as in huggingface_hub.
        local_files_only: use the cache only, not the network.

    Raises:
        HubError: there is no such hub, it cannot be fetched, or a revision is given for a folder.
    """
    name = os.fspath(hub) if isinstance(hub, os.PathLike) else hub
    # Path.exists would raise for a name that is too long. Hub.open reports what is no text.
    if isinstance(hub, Hub) or not isinstance(name, str) or os.path.exists(name):
        if revision is not None:
            raise HubError(
                f"{name!s:.200}: revision={revision!r:.60} only applies to hubs on Hugging Face, and this is "
                "a local folder; leave it out"
            )
        return hub if isinstance(hub, Hub) else Hub.open(hub)
    if not REPOSITORY_ID.fullmatch(name):
        raise HubError(
            f"{name:.200}: expected a hub's folder, found no such folder; nor is it the id of a hub on "
            "Hugging Face (organization/name). Give a hub's path, or train one"
        )
    return RemoteHub(name, revision, token, local_files_only)


class RemoteHub(Hub):
    """A hub on Hugging Face at the present commit of a revision, in the cache, which has all of its cards.

    Raises:
        HubError: there is no such hub or revision, or it is not in the cache and cannot be fetched.
        StorageError: the cache cannot be written.
    """

    def __init__(
        self,
        repository: str,
        revision: str | None,
        token: bool | str | None,
        local_files_only: bool = False,
    ) -> None:
        cache = cache_dir() / "hubs" / repository.replace("/", "--")
        last = cache / "refs" / quote(revision or "main", safe="")
        try:
            commit, sizes = _listing(repository, revision, token, local_files_only)
        except HubError as error:
            commit = recall(last) or revision or ""
            if not (cache / commit / HUB_FILE).is_file():
                raise
            if not local_files_only:
                logger.warning("%s: using the cache, at commit %s (%s)", repository, commit, error)
        else:
            _fetch_index(cache / commit, repository, sizes, token)
            remember(last, commit)
        super().__init__(cache / commit, read_info(cache / commit))
        self.name = repository
        self.commit = commit
        self._token = token
        self._local_files_only = local_files_only

    def folder(self, lang: str) -> Path:
        """Return the folder of a language; files that the cache lacks are fetched first.

        Raises:
            HubError: the hub lacks the language, or its files cannot be fetched or differ from the card: they
                are then removed.
            StorageError: the cache cannot be written.
        """
        folder, card = super().folder(lang), self.card(lang)
        if _is_whole(folder / card.version, card):
            return folder
        code, where = folder.name, f"{self.name}, {folder.name} at commit {self.commit}"
        _, sizes = _listing(self.name, self.commit, self._token, self._local_files_only)
        prefix = f"{code}/{card.version}/"
        there = {name.removeprefix(prefix): size for name, size in sizes.items() if name.startswith(prefix)}
        raise_issues(list(listing_issues(there, card.files, self.info.hidden_size)), code, where)
        _download(self.path, self.name, [prefix + name for name in card.files], self._token)
        logger.info("fetched %s", where)
        _, issues = read_language(folder / card.version, card, self.info, code)
        if issues:
            for name in card.files:
                (folder / card.version / name).unlink(missing_ok=True)
        raise_issues(issues, code, where)
        return folder

    def __getstate__(self) -> dict[str, object]:
        # Pickles should not hold the token. Other processes find their own, or use the cache.
        return {**self.__dict__, "_token": None}


def _listing(
    repository: str, revision: str | None, token: bool | str | None, local_files_only: bool
) -> tuple[str, dict[str, int]]:
    """Return the present commit of a revision, and the size of each of its files in bytes."""
    if local_files_only:
        raise HubError(
            f"{repository}: expected the files of {revision or 'main'!r:.60} in this machine's cache, "
            "found some missing, and local_files_only is set; use the hub once with a network, or "
            "copy it (modenc hub install)"
        )
    from huggingface_hub import HfApi

    with hugging_face_errors(repository, revision):
        # This request has a timeout; the first one of a download has none.
        info = HfApi(token=token).model_info(
            repository, revision=revision, files_metadata=True, timeout=_SECONDS
        )
    return str(info.sha), {file.rfilename: int(file.size or 0) for file in info.siblings or ()}


def _download(root: Path, repository: str, names: Iterable[str], token: bool | str | None) -> None:
    """Download files of a commit that its folder ``root`` lacks."""
    from huggingface_hub import snapshot_download

    with hugging_face_errors(repository, root.name), disk_errors(root, "what was fetched before is kept"):
        snapshot_download(
            repository, revision=root.name, local_dir=root, allow_patterns=list(names), token=token
        )


def _fetch_index(root: Path, repository: str, sizes: dict[str, int], token: bool | str | None) -> None:
    names = [name for name in sizes if name == HUB_FILE or _CARD.fullmatch(name)]
    if HUB_FILE not in names:
        raise HubError(
            f"{repository}: expected a hub (a repository with {HUB_FILE}), found one without it at commit "
            f"{root.name}; give another id or revision"
        )
    if large := [name for name in names if sizes[name] > MOST_JSON_BYTES]:
        raise HubError(
            f"{repository}: expected {large[0]} of at most {MOST_JSON_BYTES >> 20} MB, found "
            f"{sizes[large[0]]} bytes; do not use this hub, and tell its publisher"
        )
    _download(root, repository, names, token)


def _is_whole(root: Path, card: Card) -> bool:
    try:
        return all((root / name).stat().st_size == record["bytes"] for name, record in card.files.items())
    except OSError:
        return False
