"""Hubs on Hugging Face: pinned to a commit; only the languages that are used are fetched.

A commit's index (``hub.json``, the cards, the files for sentence-transformers) is downloaded into modenc's
cache folder in the layout of any hub; so are a language's files when its modules are first needed. A download
that was cut off goes on with what is missing.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from modenc.cache import COMMIT, Marker, cache_dir, fetched_marker
from modenc.errors import HubError, StorageError
from modenc.hub.card import Card
from modenc.hub.checks import listing_issues, raise_issues
from modenc.hub.files import MOST_JSON_BYTES
from modenc.hub.layout import (
    CARD_FILE,
    CONFIG_FILE,
    HUB_FILE,
    MODULES_FILE,
    POOLING_FOLDER,
    README_FILE,
    HubInfo,
    LanguageLayout,
    read_info,
)
from modenc.hub.store import Hub, read_language
from modenc.languages import listed_codes, normalize_code
from modenc.storage import disk_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

logger = logging.getLogger(__name__)

ROOT_FILES = (HUB_FILE, MODULES_FILE, CONFIG_FILE, f"{POOLING_FOLDER}/config.json")
"""Files of a hub that belong to no language."""
_CARD = re.compile(rf"[a-z]{{2,8}}/{re.escape(CARD_FILE)}")
_KEPT = "what was fetched before is kept"
_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_SECONDS = 10.0
_LATER = (None, 408, 429, *range(500, 600))


class UnreachableError(HubError):
    """Raised if Hugging Face cannot be reached, or the network may not be used."""


@dataclass(frozen=True)
class Repository:
    """A model repository on Hugging Face.

    Raises:
        HubError: ``name`` is no id.
    """

    name: str
    """Id: ``organization/name``."""
    token: bool | str | None = field(default=None, repr=False)
    """Access token, as in huggingface_hub."""
    local_files_only: bool = False
    """Whether to use the cache only, not the network."""

    def __post_init__(self) -> None:
        if not self.is_id(self.name):
            raise HubError(
                "expected the id of a repository on Hugging Face (organization/name), found "
                f"{self.name!r:.200}; give its id"
            )

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def is_id(name: Any) -> bool:
        """Check whether a name has the form of an id."""
        return isinstance(name, str) and _ID.fullmatch(name) is not None

    @property
    def api(self) -> HfApi:
        """Client for requests."""
        from huggingface_hub import HfApi

        return HfApi(token=self.token)

    @property
    def cache(self) -> Path:
        """Folder of its commits in modenc's cache."""
        return cache_dir() / "hubs" / self.name.replace("/", "--")

    def listing(self, revision: str | None) -> tuple[str, dict[str, int]]:
        """Return the present commit of a revision, and the size of each of its files in bytes.

        Raises:
            UnreachableError: Hugging Face cannot be reached.
            HubError: there is no such repository or revision, or the token gives no access.
        """
        with self.errors(revision):
            if self.local_files_only:
                raise UnreachableError(
                    f"{self.name}: expected the files of {revision or 'main'!r:.60} in this machine's cache, "
                    "found some missing, and local_files_only is set; use the hub once with a network, or "
                    "pull it (modenc hub pull)"
                )
            # This request has a timeout; the first one of a download has none.
            info = self.api.model_info(self.name, revision=revision, files_metadata=True, timeout=_SECONDS)
            return str(info.sha), {file.rfilename: int(file.size or 0) for file in info.siblings or ()}

    def fetch(self, commit: str, names: Iterable[str]) -> None:
        """Download the files of a commit that the cache lacks.

        Raises:
            HubError: they cannot be downloaded.
            StorageError: the cache cannot be written.
        """
        from huggingface_hub import snapshot_download

        with disk_errors(cache_dir(), _KEPT), self.errors(commit):
            snapshot_download(
                self.name,
                revision=commit,
                local_dir=self.cache / commit,
                allow_patterns=list(names),
                token=self.token,
            )

    @contextmanager
    def errors(self, revision: str | None = None) -> Iterator[None]:
        """Turn errors of huggingface_hub and its dependencies in the block into those of modenc.

        Raises:
            HubError: such an error was raised.
        """
        try:
            yield
        except (HubError, StorageError):
            raise
        except Exception as error:  # several libraries raise many types
            network = isinstance(error, ConnectionError | TimeoutError)
            if isinstance(error, OSError) and type(error).__module__ == "builtins" and not network:
                raise  # an error of the disk
            status = getattr(getattr(error, "response", None), "status_code", None)
            invalid = isinstance(error, ValueError) and not isinstance(error, OSError)
            where, said = f"{self.name} at {revision or 'main'}", " ".join(str(error).split())[:600]
            if status in _LATER and not invalid:
                raise UnreachableError(
                    f"{where}: Hugging Face cannot be reached ({type(error).__name__}: {said}), and files "
                    "are missing in this machine's cache; try again later"
                ) from error
            raise HubError(
                f"{where}: Hugging Face refuses this ({type(error).__name__}: {said}). Check the id and the "
                "revision; for a private or gated repository give token=, set HF_TOKEN, or run hf auth login"
            ) from error


def open_hub(
    hub: str | Path | Hub,
    *,
    revision: str | None = None,
    token: bool | str | None = None,
    local_files_only: bool = False,
) -> Hub:
    """Open a hub: a folder, or one on Hugging Face, which stays at its present commit.

    A commit whose index is in the cache is opened without the network. If the network cannot be reached, a
    branch is opened at the commit last found there.

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
    if not Repository.is_id(name):
        raise HubError(
            f"{name:.200}: expected a hub's folder, found no such folder; nor is it the id of a hub on "
            "Hugging Face (organization/name). Give a hub's path, or train one"
        )
    return RemoteHub.at(Repository(name, token, local_files_only), revision)


def pull_hub(
    name: str,
    output: str | Path,
    *,
    languages: str | Iterable[str] | None = None,
    revision: str | None = None,
    token: bool | str | None = None,
) -> Hub:
    """Copy a hub on Hugging Face, or some of its languages, to a new folder or a hub of the same base.

    All languages are fetched and checked before the folder is changed. Each is then swapped in whole; a new
    folder becomes a hub when the last one is in it.

    Args:
        name: its id (``organization/name``).
        output: the folder.
        languages: codes; ``None``: all.
        revision: commit, branch or tag; ``None``: the main branch.
        token: as in huggingface_hub.

    Raises:
        HubError: there is no such hub or language, it cannot be fetched, its files differ from its cards, or
            the folder is another kind of hub; the folder is left as it was.
        StorageError: the disk is full or read-only.
    """
    remote = RemoteHub.at(Repository(name, token), revision)
    codes = remote.languages() if languages is None else list(map(normalize_code, listed_codes(languages)))
    for code in codes:
        remote.layout(code)
    return remote.copy(output, remote.info, codes)


class RemoteHub(Hub):
    """A hub on Hugging Face at one commit, read-only, in the cache; made by :func:`open_hub`."""

    def __init__(self, path: Path, info: HubInfo, repository: Repository, commit: str) -> None:
        super().__init__(path, info)
        self.repository = repository
        self.commit = commit

    @property
    def name(self) -> str:
        """Id of the hub (``organization/name``)."""
        return self.repository.name

    @classmethod
    def at(cls, repository: Repository, revision: str | None) -> RemoteHub:
        """Open the hub at the present commit of ``revision``, and fetch its index.

        Raises:
            HubError: there is no such hub or revision, or it is not in the cache and cannot be fetched.
            StorageError: the cache cannot be written.
        """
        known = fetched_marker("revision", repository.name, revision)
        pinned = bool(revision and COMMIT.fullmatch(revision))
        commit = str(revision) if pinned else next(iter(known.lines()), "")
        cached = _has_index(repository, commit)
        if not (pinned and cached):
            try:
                commit, sizes = repository.listing(revision)
            except UnreachableError as error:
                if not cached:
                    raise
                if not repository.local_files_only:
                    logger.warning("%s: using the cache, at commit %s (%s)", repository, commit, error)
            else:
                _fetch_index(repository, commit, sizes)
                known.write([commit])
        root = _root(repository, commit)
        return cls(root, read_info(root), repository, commit)

    def folder(self, lang: str) -> Path:
        """Return the folder of a language; files that the cache lacks are fetched first.

        Raises:
            HubError: the hub lacks the language, or its files cannot be fetched or differ from the card: they
                are then removed.
            StorageError: the cache cannot be written.
        """
        folder, card = super().folder(lang), self.card(lang)
        if not _is_whole(folder / card.version, card):
            self._fetch(folder, card)
        return folder

    def _fetch(self, folder: Path, card: Card) -> None:
        lang, where = folder.name, f"{self.repository}, {folder.name} at commit {self.commit}"
        _, sizes = self.repository.listing(self.commit)
        prefix = f"{lang}/{card.version}/"
        there = {name.removeprefix(prefix): size for name, size in sizes.items() if name.startswith(prefix)}
        raise_issues(list(listing_issues(there, card.files, self.info.hidden_size)), lang, where)
        self.repository.fetch(self.commit, [prefix + name for name in card.files])
        logger.info("fetched %s", where)
        layout = LanguageLayout(folder / card.version)
        _, issues = read_language(layout, card, self.info, lang)
        if issues:
            for name in card.files:
                (layout.root / name).unlink(missing_ok=True)
        raise_issues(issues, lang, where)

    def staging(self, *_: object, **__: object) -> NoReturn:  # type: ignore[override]
        """Refuse to change a commit.

        Raises:
            HubError: always; the message says what to do.
        """
        raise HubError(
            f"{self.repository}: expected a hub's folder to change, found one on Hugging Face; pull it "
            "(modenc hub pull), change the folder, and push that (modenc hub push)"
        )

    remove = staging

    def __getstate__(self) -> dict[str, object]:
        # Pickles should not hold the token. Other processes find their own, or use the cache.
        return {**self.__dict__, "repository": replace(self.repository, token=None)}


def _root(repository: Repository, commit: str) -> Path:
    return repository.cache / commit


def _marker(repository: Repository, commit: str) -> Marker:
    return fetched_marker("hub", repository.name, commit)


def _has_index(repository: Repository, commit: str) -> bool:
    """Check whether the index was fetched, and none of its files was removed from the cache since."""
    root, names = _root(repository, commit), _marker(repository, commit).lines()
    return bool(names) and all((root / name).is_file() for name in names)


def _fetch_index(repository: Repository, commit: str, sizes: Mapping[str, int]) -> None:
    if _has_index(repository, commit):
        return
    names = [name for name in sizes if name in (*ROOT_FILES, README_FILE) or _CARD.fullmatch(name)]
    if HUB_FILE not in names:
        raise HubError(
            f"{repository}: expected a hub (a repository with {HUB_FILE}), found one without it at commit "
            f"{commit}; give another id or revision"
        )
    if large := [name for name in names if sizes[name] > MOST_JSON_BYTES]:
        raise HubError(
            f"{repository}: expected {large[0]} of at most {MOST_JSON_BYTES >> 20} MB, found "
            f"{sizes[large[0]]} bytes; do not use this hub, and tell its publisher"
        )
    repository.fetch(commit, names)
    _marker(repository, commit).write(sorted(names))


def _is_whole(root: Path, card: Card) -> bool:
    try:
        return all((root / name).stat().st_size == record["bytes"] for name, record in card.files.items())
    except OSError:
        return False
