"""Hubs on Hugging Face: pinned to a commit, and of their languages only those that are used are fetched.

A commit's index (``hub.json``, the cards, the files for sentence-transformers) lies in modenc's cache folder
as in any hub's. A language's folder, where only its card is, is fetched when its modules are first asked for,
checked, and swapped in whole. Files are plain ones, where Hugging Face's own cache has links.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from modenc.cache import Mark, cache_dir, fetched_whole
from modenc.errors import HubError
from modenc.hub import atomic_folder
from modenc.hub.card import Card
from modenc.hub.checks.adapters import most_adapter_bytes
from modenc.hub.checks.folder import Problem, refuse
from modenc.hub.checks.tensors import MOST_HEADER
from modenc.hub.checks.tokenizer import TOKENIZER_FILE, TOKENIZER_FILES
from modenc.hub.files import MOST_JSON_BYTES, read_text
from modenc.hub.hugging_face import Repository, UnreachableError
from modenc.hub.layout import CARD_FILE, HUB_FILE, PART_FILES, README_FILE, HubInfo, LanguageLayout, read_info
from modenc.hub.reader import Language
from modenc.hub.st_files import CONFIG_FILE, MODULES_FILE, POOLING_FOLDER
from modenc.hub.store import Hub
from modenc.languages import listed_codes, normalize_code
from modenc.storage import disk_errors

logger = logging.getLogger(__name__)

ROOT_FILES = (HUB_FILE, MODULES_FILE, CONFIG_FILE, f"{POOLING_FOLDER}/config.json")
"""A hub's files that are no language's."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CARD = re.compile(rf"[a-z]{{2,8}}/{re.escape(CARD_FILE)}")
# As short as a piece of a vocabulary can be in a tokenizer.json, with its quotes, number and commas.
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
    """Open a hub: a folder, or one on Hugging Face, which stays at the commit that it has now.

    A commit whose index is in the cache is opened without a question to the network; so is what a branch
    was last found at, where the network cannot be reached.

    Args:
        hub: a folder, an id (``organization/name``), or a hub that is open.
        revision: commit, branch or tag, for an id alone; ``None``: the main branch.
        token: as in huggingface_hub.
        local_files_only: take what the cache has, and ask no network.
        subfolder: of the repository, where the hub is.

    Raises:
        HubError: it is neither, a revision is given for a folder, or it cannot be fetched.
    """
    name = os.fspath(hub) if isinstance(hub, os.PathLike) else hub
    # Not Path.exists, which raises where a name is too long; and what is no text, for the error.
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
    """Copy a hub on Hugging Face, or some of its languages, into a folder: a new one, or a hub of its base.

    Every language is fetched and checked before the folder is touched; each is then swapped in whole, and a
    new folder is a hub only once all of them are in it.

    Args:
        name: its id (``organization/name``).
        output: the folder.
        languages: codes; ``None``: all.
        revision: commit, branch or tag; ``None``: the main branch.
        token: as in huggingface_hub.

    Raises:
        HubError: there is no such hub or language, it cannot be fetched, its files are not what its cards
            say, or the folder is another kind of hub; the folder is left as it was.
        StorageError: the disk is full or read-only.
    """
    remote = RemoteHub.at(Repository(name, token), revision)
    codes = remote.languages() if languages is None else list(map(normalize_code, listed_codes(languages)))
    for code in codes:
        remote.layout(code)
    return remote.copy(output, remote.info, codes)


class RemoteHub(Hub):
    """A hub on Hugging Face at one commit; made by :func:`open_hub`. Its languages cannot be changed here.

    Args:
        path: where its files are in the cache.
        info: what its ``hub.json`` says.
        repository: where it is fetched from.
        commit: 40 hexadecimal digits.
    """

    advice = (
        "If that is a folder here, delete it, and the language is fetched again; if that does not help, tell "
        "who publishes the hub"
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
        """Its id (``organization/name``)."""
        return self.repository.name

    @classmethod
    def at(cls, repository: Repository, revision: str | None) -> RemoteHub:
        """The hub at the commit that ``revision`` names now, its index fetched.

        Raises:
            HubError: it is no hub, there is no such revision, or it cannot be fetched and the cache lacks it.
            StorageError: the cache cannot be written.
        """
        known = fetched_whole("revision", repository.name, revision)
        pinned = bool(revision and _COMMIT.fullmatch(revision))
        commit = str(revision) if pinned else next(iter(known.names()), "")
        root = _root(repository, commit)
        whole = bool(commit) and not _missing(root, _mark(repository, commit))
        if not (pinned and whole):
            try:
                commit, sizes = repository.listing(revision)
            except UnreachableError as error:
                if not whole:
                    raise
                if not repository.local_files_only:
                    logger.warning("%s: taken from the cache, at commit %s (%s)", repository, commit, error)
            else:
                root = _root(repository, commit)
                _fetch_index(repository, commit, sizes, root)
                known.make([commit])
        return cls(root, read_info(root), repository, commit)

    def parts(self, lang: str) -> tuple[str, ...]:
        """Which of ``tokenizer embeddings la se cla`` a language has; nothing is fetched to know it.

        Raises:
            HubError: the hub lacks the language.
        """
        files = self.card(lang).files
        return tuple(part for part, names in PART_FILES.items() if set(names) <= files.keys())

    def read(self, lang: str, *, checksums: bool = True) -> Language:
        """A language's modules, checked, fetched first where they are not in the cache.

        Raises:
            LanguageGoneError: the hub lacks the language.
            HubError: its modules cannot be used, or cannot be fetched.
        """
        self.layout(lang)  # else its folder would change while it is read
        return super().read(lang, checksums=checksums)

    def layout(self, lang: str) -> LanguageLayout:
        """The folder of a language, fetched first where it is not whole.

        Raises:
            LanguageGoneError: the hub lacks the language.
            HubError: it cannot be fetched, or is not what its card says; nothing of it is kept.
            StorageError: the cache cannot be written.
        """
        layout, card = self._indexed(lang), self.card(lang)
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
        refuse(list(_differences(there, card, self.info.hidden_size)), lang, where, self.advice)
        with disk_errors(self.path, _KEPT), atomic_folder.staging_folder(root) as staging:
            found = self.repository.fetch(self.commit, [f"{lang}/{name}" for name in there], staging) / lang
            if read_text(found / CARD_FILE) != read_text(root / CARD_FILE):
                problem = Problem(None, CARD_FILE, "expected it as when the hub was opened, found another")
                refuse([problem], lang, where, self.advice)
            logger.info("fetched %s", where)
            self._take_in(found, card, shown_as=Path(where))

    def staging(self, *_: object, **__: object) -> NoReturn:  # type: ignore[override]
        """Refused: a commit stays as it is.

        Raises:
            HubError: always; the message says what to do.
        """
        raise HubError(
            f"{self.repository}: expected a hub's folder to change, found one on Hugging Face; pull it "
            "(modenc hub pull), change the folder, and push that (modenc hub push)"
        )

    remove = staging

    def __getstate__(self) -> dict[str, object]:
        # Other processes find the token where this one did, or what was fetched; files should not have it.
        return {**self.__dict__, "repository": replace(self.repository, token=None)}


def _root(repository: Repository, commit: str) -> Path:
    return cache_dir() / "hubs" / repository.name.replace("/", "--") / commit / repository.subfolder


def _mark(repository: Repository, commit: str) -> Mark:
    return fetched_whole("hub", repository.name, commit, repository.subfolder)


def _missing(root: Path, mark: Mark) -> bool:
    """Whether the index was not fetched, or a cleaner of caches removed some of it since."""
    names = mark.names()
    return not names or any(not (root / name).is_file() for name in names)


def _fetch_index(repository: Repository, commit: str, sizes: Mapping[str, int], root: Path) -> None:
    mark = _mark(repository, commit)
    if not _missing(root, mark):
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
            f"{sizes[large[0]]} bytes; do not use this hub, and tell who publishes it"
        )
    with disk_errors(cache_dir(), _KEPT):
        root.parent.mkdir(parents=True, exist_ok=True)
        atomic_folder.clean_up(root.parent)
        with atomic_folder.staging_folder(root) as staging:
            found = repository.fetch(commit, names, staging)
            for name in names:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (found / name).replace(root / name)
    mark.make(sorted(names))


def _is_whole(root: Path, card: Card) -> bool:
    try:
        return all((root / name).stat().st_size == record["bytes"] for name, record in card.files.items())
    except OSError:
        return False


def _differences(there: Mapping[str, int], card: Card, hidden_size: int) -> Iterable[Problem]:
    """Between a language's files on Hugging Face and its card, before any is fetched."""
    listed = {name: record["bytes"] for name, record in card.files.items()}
    most = _most_bytes(listed, hidden_size)
    for name in sorted((listed.keys() | there.keys()) - {CARD_FILE}):
        if name not in there:
            yield Problem(None, name, "expected by the card, not found")
        elif name not in listed:
            yield Problem(None, name, "not in the card")
        elif there[name] != listed[name]:
            yield Problem(None, name, f"expected {listed[name]} bytes, found {there[name]}")
        elif there[name] > most.get(name, 0):
            expected = f"at most {most[name]} bytes" if name in most else "only files that a language has"
            yield Problem(None, name, f"expected {expected}, found one of {there[name]} bytes")


def _most_bytes(sizes: Mapping[str, int], hidden_size: int) -> dict[str, int]:
    """File of a language → the most that checks could accept, so that no hub can fill the disk."""
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
