"""A hub folder: which languages it has, and how they come in and go out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path

from modenc.errors import HubError, LanguageError
from modenc.hub import atomic_folder
from modenc.hub.card import Card, FileRecord
from modenc.hub.checks.folder import ADVICE, refuse
from modenc.hub.files import files_below, read_text, sha256, sync_tree
from modenc.hub.hub_file import read_info, write_info
from modenc.hub.layout import CARD_FILE, HUB_FILE, HubInfo, LanguageLayout, info_faults
from modenc.hub.publishing import check_base, check_nothing_lost, refuse_other_files
from modenc.hub.reader import Language, read_language
from modenc.hub.readme import readme
from modenc.hub.st_files import write_sentence_transformers_files
from modenc.languages import language_name, normalize_code
from modenc.storage import disk_errors

# More often than any language is replaced while it is being read.
_TRIES = 20
_KEPT = "the hub is as it was"
_NO_HALF = "no half of a hub can be opened"
_EACH_WHOLE = "each language there is whole, the old one or the new"


class LanguageGoneError(HubError):
    """The hub lacks a language, or has by now other modules for it than those in use."""


class Hub:
    """A hub on disk; made by :meth:`open` or :meth:`create`.

    Example:
        >>> from modenc import Hub
        >>> hub = Hub.open("adapters_hub/me5-small")
        >>> licenses = {lang: hub.card(lang).licences for lang in hub.languages()}
    """

    advice = ADVICE
    """What to do about modules that cannot be used."""

    def __init__(self, path: Path, info: HubInfo) -> None:
        self.path = path
        self.info = info

    @classmethod
    def open(cls, path: str | Path) -> Hub:
        """Open a hub; reads ``hub.json`` alone.

        Raises:
            HubError: there is no hub, or it is of a format this version cannot read.
        """
        root = _path(path)
        info = read_info(root)
        if atomic_folder.needs_recovery(root):
            atomic_folder.clean_up(root)
        return cls(root, info)

    @classmethod
    def create(cls, path: str | Path, info: HubInfo) -> Hub:
        """Make a hub folder, or open it where it exists with the same info.

        Raises:
            HubError: the folder is a hub with another base or use of it, or holds other files.
        """
        hub = cls._begin(path, info)
        hub._write_info()
        return hub

    def copy(self, path: str | Path, info: HubInfo, languages: Iterable[str] | None = None) -> Hub:
        """Make another hub of this one's languages, all or those given, or add them to one with ``info``.

        A new folder is no hub before all of them are in it; what an interrupted copying left there is
        copied again.

        Raises:
            HubError: the folder is a hub with other than ``info``, or holds other files.
            StorageError: the disk is full or read-only.
        """
        kept = _EACH_WHOLE if (_path(path) / HUB_FILE).exists() else _NO_HALF
        hub = Hub._begin(path, info, self)
        if hub.path.resolve() != self.path.resolve():
            for lang in self.languages() if languages is None else languages:
                hub._copy_in(self.layout(lang).root, lang, kept)
        hub._write_info()
        return hub

    @classmethod
    def _begin(cls, path: str | Path, info: HubInfo, source: Hub | None = None) -> Hub:
        """A folder with all but ``hub.json``, where it is no hub yet; it may have languages of ``source``."""
        root = _path(path)
        if faults := list(info_faults(info)):
            raise HubError(f"{root}: {'; '.join(faults)}; no such hub could be opened")
        if (root / HUB_FILE).exists():
            hub = cls.open(root)
            different = [
                f"{item.name}: expected {getattr(info, item.name)!r}, found {getattr(hub.info, item.name)!r}"
                for item in fields(HubInfo)
                if getattr(info, item.name) != getattr(hub.info, item.name)
            ]
            if different:
                raise HubError(f"{root} is another kind of hub ({'; '.join(different)}); use another folder")
        else:
            refuse_other_files(root, None if source is None else source.path)
        with disk_errors(root, _NO_HALF), atomic_folder.writing_files(root):
            write_sentence_transformers_files(root, info)
        return cls(root, info)

    def _write_info(self) -> None:
        """Last, since it is what makes the folder a hub."""
        with disk_errors(self.path, _NO_HALF), atomic_folder.writing_files(self.path):
            write_info(self.path, self.info)

    def languages(self) -> list[str]:
        """Codes of the languages that have modules here, sorted, the pivot first.

        Folders that are not named by a standard code are left out; ``verify`` tells of them.

        Raises:
            HubError: the hub is gone, or may not be read.
        """
        try:
            folders = [folder for folder in self.path.iterdir() if (folder / CARD_FILE).is_file()]
        except OSError as error:
            raise HubError(f"{self.path}: the hub cannot be read any more ({error.strerror})") from error
        found = [folder.name for folder in folders if _is_code(folder.name)]
        return sorted(found, key=lambda lang: (lang != self.info.pivot, lang))

    def card(self, lang: str) -> Card:
        """The card of a language.

        Raises:
            HubError: the hub lacks the language, or its card cannot be read.
        """
        return _read_card(self._indexed(lang).card)

    def parts(self, lang: str) -> tuple[str, ...]:
        """Which of ``tokenizer embeddings la se cla`` a language has.

        Raises:
            HubError: the hub lacks the language, or a part of it lacks a file.
        """
        return self._indexed(lang).present()

    def read(self, lang: str, *, checksums: bool = True) -> Language:
        """A language's modules, checked, and of one state even if another process replaces them.

        Args:
            lang: the language.
            checksums: compare every file with its checksum on the card, beside its size and content.

        Raises:
            LanguageGoneError: the hub lacks the language.
            HubError: its modules cannot be used; the reasons are listed.
        """
        for _ in range(_TRIES):
            before = self._stamp(lang)
            try:
                layout, card = self.layout(lang), self.card(lang)
                code = layout.root.name
                language, problems = read_language(layout, card, self.info, code, checksums=checksums)
                refuse(problems, code, layout.root, self.advice)
            except (HubError, FileNotFoundError):
                if self._stamp(lang) == before:
                    raise
            else:
                if self._stamp(lang) == before:
                    return language
        raise HubError(f"{self.path}: {lang} keeps changing on disk; retry when installations have finished")

    def _stamp(self, lang: str) -> tuple[int, ...]:
        """Changes whenever a language is installed again, also with the same modules."""
        try:
            found = self._folder(lang).stat()
        except OSError as error:
            raise self._no_language(lang) from error
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def layout(self, lang: str) -> LanguageLayout:
        """The folder of a language.

        Raises:
            LanguageGoneError: the hub lacks the language; the message lists those it has.
            LanguageError: ``lang`` names no language.
        """
        return self._indexed(lang)

    def _indexed(self, lang: str) -> LanguageLayout:
        """The folder of a language, of which the card is there."""
        root = self._folder(lang)
        if not (root / CARD_FILE).is_file():
            raise self._no_language(lang)
        return LanguageLayout(root)

    @contextmanager
    def staging(self, lang: str, kept: str = _KEPT) -> Iterator[Path]:
        """A new empty folder inside the hub to build a language's modules in.

        It is gone when the context ends, unless :meth:`publish` has made it the language.

        Args:
            lang: the language.
            kept: what is not lost where the disk is full, for the message.

        Raises:
            StorageError: the disk is full or read-only; the hub is left as it was.
        """
        with disk_errors(self.path, kept), atomic_folder.staging_folder(self._folder(lang)) as folder:
            yield folder

    def publish(self, staging_dir: Path, card: Card) -> Card:
        """Make the modules in a staging folder the language's, in one atomic step.

        Writes ``README.md`` and ``card.json`` there first, the latter with every file's checksum.

        Returns:
            The card with ``files`` filled in.

        Raises:
            HubError: the card is for another base, the modules are not fit for use, or an alignment would
                replace the modules that it builds on; the hub is left as it was.
        """
        check_base(card, self.info)
        layout = LanguageLayout(staging_dir)
        check_nothing_lost(layout, card, self._earlier_card(card.lang))
        layout.card.unlink(missing_ok=True)
        layout.readme.write_text(readme(card), encoding="utf-8", errors="backslashreplace")
        records = {
            name: FileRecord(sha256=sha256(path), bytes=path.stat().st_size)
            for name, path in files_below(staging_dir)
        }
        complete = replace(card, files=records)
        layout.card.write_text(complete.to_json(), encoding="utf-8")
        self._take_in(staging_dir, complete, shown_as=self._folder(card.lang))
        return complete

    def _earlier_card(self, lang: str) -> Card | None:
        try:
            return self.card(lang)
        except HubError:  # none, or a damaged one: publishing is how it is replaced
            return None

    def remove(self, lang: str) -> None:
        """Remove a language's modules.

        Raises:
            HubError: the hub lacks the language.
            StorageError: the hub is read-only, and left as it was.
        """
        root = self.layout(lang).root
        with disk_errors(self.path, _KEPT):
            atomic_folder.clean_up(self.path)
            atomic_folder.remove_folder(root)

    def install(self, folder: str | Path, lang: str | None = None) -> Card:
        """Copy a language's folder, made with any hub of the same base, into this hub.

        Args:
            folder: A language's folder, or a hub with the language ``lang``.
            lang: The language expected there; None takes what a language's folder holds.

        Raises:
            HubError: there is no such language, its files are not what its card says, or it was
                made for another base; the hub is left as it was.
            StorageError: the disk is full or read-only; the hub is left as it was.
        """
        return self._copy_in(Path(folder), lang, _KEPT)

    def _copy_in(self, folder: Path, lang: str | None, kept: str) -> Card:
        source = _language_folder(folder, lang)
        card = _read_card(source / CARD_FILE)
        check_base(card, self.info)
        expected = card.lang if lang is None else normalize_code(lang)
        # Before anything is copied: a malicious folder could fill the disk.
        self._check(source, card, expected, shown_as=source)
        with self.staging(card.lang, kept) as staging:
            for name, path in files_below(source):
                if path.is_symlink() or not path.is_file():
                    raise HubError(f"{path}: expected a plain file, found a link or special file")
                target = staging / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            self._take_in(staging, card, shown_as=source)
        return card

    def _take_in(self, staging: Path, card: Card, shown_as: Path) -> None:
        """Check a finished folder and swap it in."""
        self._check(staging, card, card.lang, shown_as=shown_as)
        sync_tree(staging)
        atomic_folder.clean_up(self.path)
        atomic_folder.replace_folder(staging, self._folder(card.lang))

    def _check(self, folder: Path, card: Card, lang: str, shown_as: Path) -> None:
        _, problems = read_language(LanguageLayout(folder), card, self.info, lang)
        refuse(problems, lang, shown_as, self.advice)

    def _folder(self, lang: str) -> Path:
        return self.path / normalize_code(lang)

    def _no_language(self, lang: str) -> LanguageGoneError:
        code, has = normalize_code(lang), self.languages()
        listed = ", ".join(has) if has else "none yet"
        return LanguageGoneError(
            f"{self.path}: no modules for {code} ({language_name(code)}); languages here: {listed}. "
            "Train it with a recipe (modenc train) or copy it in (modenc hub install)"
        )


def _path(path: str | Path) -> Path:
    """Absolute, so that a process may change its folder later."""
    if not isinstance(path, str | os.PathLike):
        raise HubError(f"expected a hub's folder, found {path!r:.60}; give its path")
    return Path(path).absolute()


@lru_cache(maxsize=4096)
def _is_code(name: str) -> bool:
    try:
        return normalize_code(name) == name
    except LanguageError:
        return False


def _read_card(path: Path) -> Card:
    return Card.from_json(read_text(path), where=str(path))


def _language_folder(folder: Path, lang: str | None) -> Path:
    """The folder with the card: ``folder`` itself, or a language of the hub it is."""
    if (folder / CARD_FILE).is_file():
        return folder
    if (folder / HUB_FILE).is_file():
        hub = Hub.open(folder)
        if lang is None:
            raise HubError(
                f"{folder}: expected a language's folder, found a hub; say which of its languages "
                f"to install: {', '.join(hub.languages())}"
            )
        return hub.layout(lang).root
    found = "a folder without it" if folder.is_dir() else "no such folder"
    raise HubError(f"{folder}: expected a language's folder (with {CARD_FILE}), found {found}")
