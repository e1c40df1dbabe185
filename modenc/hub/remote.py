"""Hubs on Hugging Face: pinned to a commit; only the languages that are used are fetched.

A commit's index (``hub.json``, the cards, the files for sentence-transformers) is stored in modenc's cache
folder in the layout of any hub. A language's folder at first holds only its card. The rest is fetched when
its modules are first needed, checked, and swapped in whole. All files are plain, as the checks of hubs
require; Hugging Face's own cache uses links.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from modenc.cache import COMMIT, Marker, cache_dir, fetched_marker
from modenc.errors import HubError
from modenc.hub import atomic_folder
from modenc.hub.card import Card
from modenc.hub.checks.adapters import most_adapter_bytes
from modenc.hub.checks.folder import HubIssue, raise_issues
from modenc.hub.checks.tensors import MOST_HEADER
from modenc.hub.checks.tokenizer import TOKENIZER_FILE, TOKENIZER_FILES
from modenc.hub.files import MOST_JSON_BYTES, read_text
from modenc.hub.hugging_face import Repository, UnreachableError
from modenc.hub.layout import CARD_FILE, HUB_FILE, PART_FILES, README_FILE, HubInfo, LanguageLayout, read_info
from modenc.hub.reader import StoredLanguage
from modenc.hub.st_files import CONFIG_FILE, MODULES_FILE, POOLING_FOLDER
from modenc.hub.store import Hub
from modenc.languages import listed_codes, normalize_code
from modenc.storage import disk_errors

logger = logging.getLogger(__name__)

ROOT_FILES = (HUB_FILE, MODULES_FILE, CONFIG_FILE, f"{POOLING_FOLDER}/config.json")
"""Files of a hub that belong to no language."""
_CARD = re.compile(rf"[a-z]{{2,8}}/{re.escape(CARD_FILE)}")
# Least bytes of a piece of a vocabulary in a tokenizer.json, with its quotes, number and commas.
_LEAST_PIECE = 5
_KEPT = "what was fetched before is kept"


def open_hub(
    hub: str | Path | Hub,
    *,
    revision: str | None = None,
    token: bool | str | None = None,
    local_files_only: bool = False,
    subfolder: str = "",
) -> Hub:
    """Open a hub: a folder, or one on Hugging Face, which stays at its present commit.

    A commit whose index is in the cache is opened without the network. If the network cannot be reached, a
    branch is opened at the commit last found there.

    Args:
        hub: a folder, an id (``organization/name``), or an open hub.
        revision: commit, branch or tag, only with an id; ``None``: the main branch.
        token: as in huggingface_hub.
        local_files_only: use the cache only, not the network.
        subfolder: folder of the hub in the repository.

    Raises:
        HubError: there is no such hub, it cannot be fetched, or a revision is given for a folder.
    """
    name = os.fspath(hub) if isinstance(hub, os.PathLike) else hub
    # Path.exists would raise for a name that is too long. Hub.open reports what is no text.
    if isinstance(hub, Hub) or not isinstance(name, str) or os.path.exists(name):
        if revision is not None:
            raise HubError(
                f"{name!s:.200}: expected no revision for a folder, found {revision!r:.60}; it is for hubs "
                "on Hugging Face: leave it out, or give such a hub's id"
            )
        return hub if isinstance(hub, Hub) else Hub.open(hub)
    if not Repository.is_id(name):
        raise HubError(
            f"{name:.200}: expected a hub's folder, found no such folder; nor is it the id of a hub on "
            "Hugging Face (organization/name). Give a hub's path, or train one"
        )
    return RemoteHub.at(Repository(name, token, local_files_only, subfolder), revision)


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

    advice = (
        "If that is a folder on this machine, delete it, and the language is fetched again; if that does not "
        "help, tell the hub's publisher"
    )
    advice_if_none = (
        "Open another revision, if one has it; or copy the hub into a folder (modenc hub pull) and train it "
        "there with a recipe (modenc train)"
    )

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

    def parts(self, lang: str) -> tuple[str, ...]:
        """As :meth:`HubReader.parts`; fetches nothing."""
        return self.card(lang).parts

    def read(self, lang: str, *, checksums: bool = True) -> StoredLanguage:
        """As :meth:`HubReader.read`; what the cache lacks is fetched first."""
        self.layout(lang)  # fetched now, so that the folder does not change during the reading
        return super().read(lang, checksums=checksums)

    def layout(self, lang: str) -> LanguageLayout:
        """Return the folder of a language, which is fetched first if it is incomplete.

        Raises:
            LanguageGoneError: the hub lacks the language.
            HubError: it cannot be fetched, or differs from its card; the fetched files are removed.
            StorageError: the cache cannot be written.
        """
        layout, card = super().layout(lang), self.card(lang)
        if not _is_whole(layout.root, card):
            self._fetch(layout.root, card)
        return layout

    def _fetch(self, root: Path, card: Card) -> None:
        lang, where = root.name, f"{self.repository}, {root.name} at commit {self.commit}"
        _, sizes = self.repository.listing(self.commit)
        there = {
            name.removeprefix(f"{lang}/"): size for name, size in sizes.items() if name.startswith(f"{lang}/")
        }
        if not there:
            raise HubError(
                f"{where}: expected its files, found none; it was removed there after the hub was opened. "
                "Open the hub again without revision= for what it has now"
            )
        raise_issues(list(_differences(there, card, self.info.hidden_size)), lang, where, self.advice)
        with disk_errors(self.path, _KEPT), atomic_folder.staging_folder(root) as staging:
            found = self.repository.fetch(self.commit, [f"{lang}/{name}" for name in there], staging) / lang
            if read_text(found / CARD_FILE) != read_text(root / CARD_FILE):
                issue = HubIssue(CARD_FILE, "expected the card as when the hub was opened, found another")
                raise_issues([issue], lang, where, self.advice)
            logger.info("fetched %s", where)
            self._check_and_swap(found, card, shown_as=Path(where))

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
    return cache_dir() / "hubs" / repository.name.replace("/", "--") / commit / repository.subfolder


def _marker(repository: Repository, commit: str) -> Marker:
    return fetched_marker("hub", repository.name, commit, repository.subfolder)


def _has_index(repository: Repository, commit: str) -> bool:
    """Check whether the index was fetched, and none of its files was removed from the cache since."""
    root, names = _root(repository, commit), _marker(repository, commit).lines()
    return bool(names) and all((root / name).is_file() for name in names)


def _fetch_index(repository: Repository, commit: str, sizes: Mapping[str, int]) -> None:
    if _has_index(repository, commit):
        return
    root = _root(repository, commit)
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
    with disk_errors(cache_dir(), _KEPT):
        root.parent.mkdir(parents=True, exist_ok=True)
        atomic_folder.clean_up(root.parent)
        with atomic_folder.staging_folder(root) as staging:
            found = repository.fetch(commit, names, staging)
            for name in names:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (found / name).replace(root / name)
    _marker(repository, commit).write(sorted(names))


def _is_whole(root: Path, card: Card) -> bool:
    try:
        return all((root / name).stat().st_size == record["bytes"] for name, record in card.files.items())
    except OSError:
        return False


def _differences(there: Mapping[str, int], card: Card, hidden_size: int) -> Iterable[HubIssue]:
    """Yield the differences between a language's files on Hugging Face and its card; fetches nothing."""
    listed = {name: record["bytes"] for name, record in card.files.items()}
    most = _most_bytes(listed, hidden_size)
    for name in sorted((listed.keys() | there.keys()) - {CARD_FILE}):
        if name not in there:
            yield HubIssue(name, "expected by the card, not found")
        elif name not in listed:
            yield HubIssue(name, "not in the card")
        elif there[name] != listed[name]:
            yield HubIssue(name, f"expected {listed[name]} bytes, found {there[name]}")
        elif there[name] > most.get(name, 0):
            expected = f"at most {most[name]} bytes" if name in most else "only files of a language"
            yield HubIssue(name, f"expected {expected}, found one of {there[name]} bytes")


def _most_bytes(sizes: Mapping[str, int], hidden_size: int) -> dict[str, int]:
    """Return the most bytes that the checks accept for each file of a language."""
    most = {f"tokenizer/{name}": limit for name, limit in TOKENIZER_FILES.items()}
    pieces = sizes.get(f"tokenizer/{TOKENIZER_FILE}", 0) // _LEAST_PIECE
    for names in PART_FILES.values():
        for name in names:
            limit = MOST_JSON_BYTES if name.endswith(".json") else most_adapter_bytes(hidden_size)
            most.setdefault(name, limit)
    return most | {
        PART_FILES["embeddings"][0]: MOST_HEADER + 4 * pieces * (hidden_size + 1),
        README_FILE: MOST_JSON_BYTES,
    }
