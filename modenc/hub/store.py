"""Hubs on disk: making and copying them, and publishing, installing and removing languages.

A language's files are in a version folder, which its card names: ``kk/card.json`` and ``kk/v-0123abcd/``. A
new version is written beside the old one, and replacing the card puts it in use. The version before stays
until the next one, for those who are reading it.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from modenc.errors import HubError
from modenc.hub.card import Card, file_records
from modenc.hub.checks import raise_issues
from modenc.hub.layout import (
    CARD_FILE,
    CONFIG_FILE,
    FORMAT_VERSION,
    HUB_FILE,
    MODULES_FILE,
    POOLING_FOLDER,
    README_FILE,
    HubInfo,
    check_info,
    files_below,
    json_text,
    read_info,
    read_text,
    sentence_transformers_files,
)
from modenc.hub.page import language_page
from modenc.hub.reading import StoredLanguage, read_language
from modenc.languages import find_code, language_name, normalize_code
from modenc.storage import disk_errors, sync, sync_tree, write_atomically

logger = logging.getLogger(__name__)

_KEPT = "the hub is as it was"
_INCOMPLETE = "the incomplete hub cannot be opened"
_EACH_WHOLE = "each language there is complete, in the old version or the new one"
# After so long no process is still writing a version, and none is reading one that was replaced.
_LEFT_BEHIND_SECONDS = 3600.0


class Hub:
    """A hub on disk; made by :meth:`open` or :meth:`create`.

    Examples:
        >>> from modenc import Hub
        >>> hub = Hub.open("adapters_hub/me5-small")
        >>> licenses = {lang: hub.card(lang).licenses for lang in hub.languages()}
    """

    def __init__(self, path: Path, info: HubInfo) -> None:
        self.path = path
        self.info = info
        # In messages: of a folder its name, of a hub on Hugging Face its id.
        self.name = path.resolve().name

    @classmethod
    def open(cls, path: str | Path) -> Hub:
        """Open a hub; reads only ``hub.json``.

        Raises:
            HubError: there is no hub, or its format is not that of this version.
        """
        root = _path(path)
        return cls(root, read_info(root))

    def languages(self) -> list[str]:
        """Return the codes of the hub's languages, sorted, the pivot first.

        Folders whose name is no normalized code are left out.

        Raises:
            HubError: the folder is gone or not readable.
        """
        try:
            # Names first: other folders, such as a volume's lost+found, may be closed to this user.
            folders = [folder for folder in self.path.iterdir() if find_code(folder.name) == folder.name]
            found = [folder.name for folder in folders if (folder / CARD_FILE).is_file()]
        except OSError as error:
            raise HubError(f"{self.path}: the hub cannot be read any more ({error.strerror})") from error
        return sorted(found, key=lambda lang: (lang != self.info.pivot, lang))

    def card(self, lang: str) -> Card:
        """Return the card of a language.

        Raises:
            HubError: the hub lacks the language (then the message lists its own), or the card cannot be read.
            LanguageError: ``lang`` names no language.
        """
        return read_card(Hub.folder(self, lang))  # no download in subclasses

    def folder(self, lang: str) -> Path:
        """Return the folder of a language, with its card and the files of its versions.

        Raises:
            HubError: the hub lacks the language; the message lists its languages.
            LanguageError: ``lang`` names no language.
        """
        folder = self._folder(lang)
        if not (folder / CARD_FILE).is_file():
            raise self._no_language(lang)
        return folder

    def version_folder(self, lang: str) -> Path:
        """Return the folder with the modules of a language, of the version that is in use.

        Raises:
            HubError: as for :meth:`card`.
        """
        folder = self.folder(lang)
        return folder / read_card(folder).version

    def read(self, lang: str) -> StoredLanguage:
        """Read and check a language's modules.

        Raises:
            HubError: the hub lacks the language, or its modules cannot be used; the message lists the issues.
        """
        folder = self.folder(lang)
        card = read_card(folder)
        language, issues = read_language(folder / card.version, card, self.info, folder.name)
        # A version is removed with its language, or at the second replacement after it.
        if issues and self.card(lang).version != card.version:
            return self.read(lang)
        raise_issues(issues, folder.name, folder)
        return language

    def verify(self, lang: str | None = None) -> list[str]:
        """Check all files of the hub, or of one language, and their checksums; returns a line for each issue.

        Raises:
            HubError: the hub lacks the language ``lang``.
        """
        issues: list[str] = []
        for code in self.languages() if lang is None else [self.folder(lang).name]:
            try:
                folder, card = self.folder(code), self.card(code)
            except HubError as error:
                issues.append(f"{code}/{CARD_FILE}: {error}")
                continue
            _, found = read_language(folder / card.version, card, self.info, code)
            issues += [f"{code}/{issue}" for issue in found]
        return issues

    def _folder(self, lang: str) -> Path:
        return self.path / normalize_code(lang)

    def _no_language(self, lang: str) -> HubError:
        code, has = normalize_code(lang), self.languages()
        listed = ", ".join(has) if has else "none yet"
        return HubError(
            f"{self.path}: no modules for {code} ({language_name(code)}); languages here: {listed}. "
            "Train it with a recipe (modenc train) or copy it in (modenc hub install)"
        )

    @classmethod
    def create(cls, path: str | Path, info: HubInfo) -> Hub:
        """Make a hub folder, or open an existing one with the same info.

        Raises:
            HubError: the folder is a hub with other ``info``, or holds other files.
        """
        hub = cls._begin(path, info)
        hub._write_info()
        return hub

    def copy(self, path: str | Path, info: HubInfo, languages: Iterable[str] | None = None) -> Hub:
        """Copy languages (all, or those given) to a new hub, or to an existing one with the same ``info``.

        A new folder becomes a hub when all languages are in it.

        Raises:
            HubError: the folder is a hub with other ``info``, or holds other files.
            StorageError: the disk is full or read-only.
        """
        kept = _EACH_WHOLE if (_path(path) / HUB_FILE).exists() else _INCOMPLETE
        hub = Hub._begin(path, info)
        if hub.path.resolve() != self.path.resolve():
            for lang in self.languages() if languages is None else languages:
                hub._copy_in(self.folder(lang), lang, kept)
        hub._write_info()
        return hub

    @classmethod
    def _begin(cls, path: str | Path, info: HubInfo) -> Hub:
        """Prepare a folder, without ``hub.json`` if it is no hub yet."""
        root = _path(path)
        check_info(info, str(root))
        if (root / HUB_FILE).exists():
            hub = cls.open(root)
            if different := info.differences(hub.info):
                raise HubError(f"{root} is another kind of hub ({different}); use another folder")
        else:
            _refuse_other_files(root)
        with disk_errors(root, _INCOMPLETE):
            for name, text in sentence_transformers_files(info).items():
                write_atomically(root / name, text)
        return cls(root, info)

    def _write_info(self) -> None:
        """Write ``hub.json``, as the last file, since it makes the folder a hub."""
        with disk_errors(self.path, _INCOMPLETE):
            content = {"format_version": FORMAT_VERSION, **asdict(self.info)}
            write_atomically(self.path / HUB_FILE, json_text(content))

    @contextmanager
    def _new_version(self, lang: str, kept: str = _KEPT) -> Iterator[Path]:
        """Make a version folder, which is removed at the end of the context unless it was put in use.

        ``kept`` is what a disk error leaves intact, for the message.
        """
        folder = self._folder(lang)
        version = folder / f"v-{secrets.token_hex(4)}"
        if folder.is_symlink():
            raise HubError(f"{folder}: expected a plain folder, found a link; remove the language first")
        with disk_errors(self.path, kept):
            try:
                version.mkdir(parents=True)
                yield version
            finally:
                if _version_in_use(folder) != version.name:
                    shutil.rmtree(version, ignore_errors=True)
                    with suppress(OSError):  # it has another version
                        folder.rmdir()

    def publish(self, folder: str | Path, card: Card) -> Card:
        """Copy the modules in a folder to the hub as the version of their language that is in use.

        A ``README.md`` is written beside them.

        Returns:
            The card with ``version`` and, for every file, size and checksum.

        Raises:
            HubError: there is no such folder, the card is for another base, or the modules cannot be used;
                the hub is left as it was.
            StorageError: the disk is full or read-only; the hub is left as it was.
        """
        if not Path(folder).is_dir():
            raise HubError(f"{folder}: expected a folder of modules, found none; give its path")
        with self._new_version(card.lang) as version:
            for name, path in files_below(Path(folder)):
                if path.is_symlink() or not path.is_file():
                    raise HubError(f"{path}: expected a plain file, found a link, folder or special file")
                _copy_file(path, version / name)
            page = language_page(card)
            (version / README_FILE).write_text(page, "utf-8", "backslashreplace", newline="\n")
            return self._put_in_use(version, replace(card, files=file_records(version)))

    def remove(self, lang: str) -> None:
        """Remove a language's modules, or what an interrupted publication or removal has left of them.

        Raises:
            HubError: the hub lacks the language.
            StorageError: the hub is read-only; it is left as it was.
        """
        folder = self._folder(lang)
        if not folder.is_dir():
            raise self._no_language(lang)
        with disk_errors(self.path, _KEPT):
            if folder.is_symlink():
                folder.unlink()
                return
            # Without its card a language is gone, whatever else can be deleted.
            (folder / CARD_FILE).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)

    def install(self, folder: str | Path, lang: str | None = None) -> Card:
        """Copy a language's folder from a hub of the same base into this hub.

        Args:
            folder: a language's folder, or a hub with the language ``lang``.
            lang: the expected language; ``None``: any, if ``folder`` is a language's.

        Raises:
            HubError: there is no such language, its files differ from its card, or it was made for another
                base or, as its hub says, for another pivot, pooling or prompt; the hub is left as it was.
            StorageError: the disk is full or read-only; the hub is left as it was.
        """
        source = Path(folder)
        if lang is not None and not (source / CARD_FILE).is_file():
            source = Hub.open(source).folder(lang)
        if (source.parent / HUB_FILE).is_file():
            found = read_info(source.parent)
            used = replace(self.info, pivot=found.pivot, pooling=found.pooling, prompt=found.prompt)
            if different := self.info.differences(used):
                raise HubError(
                    f"{source}: its hub is used in another way than {self.path} ({different}), so its "
                    "vectors would be others here; install it into a hub with the same settings"
                )
        return self._copy_in(source, lang, _KEPT)

    def _copy_in(self, source: Path, lang: str | None, kept: str) -> Card:
        card = read_card(source)
        files = source / card.version
        lang = normalize_code(card.lang if lang is None else lang)
        # Checked before copying, since a malicious folder could fill the disk.
        raise_issues(read_language(files, card, self.info, lang)[1], lang, source)
        with self._new_version(card.lang, kept) as version:
            for name in card.files:
                _copy_file(files / name, version / name)
            return self._put_in_use(version, card)

    def _put_in_use(self, written: Path, card: Card) -> Card:
        """Check a version folder, have the card name it, and remove the versions before the last one."""
        folder = written.parent
        raise_issues(read_language(written, card, self.info, folder.name)[1], folder.name, folder)
        sync_tree(written)
        # Named after its content, so that copies of a hub have the same names.
        version, last = folder / f"v-{card.fingerprint()[:8]}", _version_in_use(folder)
        try:
            written.rename(version)
        except OSError:  # there are such files already, which may be damaged
            version = written
        complete = replace(card, version=version.name)
        try:
            write_atomically(folder / CARD_FILE, complete.to_json())
        except OSError:
            shutil.rmtree(version, ignore_errors=True)
            raise
        with suppress(OSError):  # the new version is in use, whatever else goes wrong
            sync(folder)
            _remove_unused(folder, (version.name, last))
        return complete


def _path(path: str | Path) -> Path:
    """Make a path absolute, so that the process may change its working directory."""
    if not isinstance(path, str | os.PathLike):
        raise HubError(f"expected a hub's folder, found {path!r:.60}; give its path")
    return Path(path).absolute()


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file's content, without permissions: safetensors gives its files those of their owner alone."""
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(source, target)


def _version_in_use(folder: Path) -> str | None:
    """Return the version that a card names; None without a card."""
    with suppress(HubError):
        return read_card(folder).version
    return None


def _remove_unused(folder: Path, used: Sequence[str | None]) -> None:
    """Remove what is neither the card nor ``used``, and older than what another process may be writing."""
    for path in folder.iterdir():
        if path.name in (CARD_FILE, *used):
            continue
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime < _LEFT_BEHIND_SECONDS:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def _refuse_other_files(root: Path) -> None:
    """Check that a folder is new, or has nothing in it but hidden files and those that a hub begins with."""
    if root.exists() and not root.is_dir():
        raise HubError(f"{root}: expected a new or empty folder for a hub, found a file")
    ours = {MODULES_FILE, CONFIG_FILE, POOLING_FOLDER, README_FILE}
    others = sorted(
        entry.name
        for entry in (root.iterdir() if root.exists() else ())
        if entry.name not in ours and entry.name[0] != "."
    )
    if others:
        raise HubError(
            f"{root}: expected a new or empty folder for a hub, found {', '.join(others[:5])}; "
            "give another path, or delete the folder if saving a hub there was interrupted"
        )


def read_card(folder: Path) -> Card:
    """Read the card in a language's folder.

    Raises:
        HubError: it is missing or damaged.
    """
    return Card.from_json(read_text(folder / CARD_FILE), where=str(folder / CARD_FILE))
