"""A hub folder: which languages it has, and how they come in and go out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from modenc.errors import HubError, LanguageError
from modenc.hub import swap
from modenc.hub.card import Card, FileRecord
from modenc.hub.checks.folder import refuse
from modenc.hub.checks.schema import key_faults, listed
from modenc.hub.files import files_below, json_object, read_text, sha256, sync_tree
from modenc.hub.layout import (
    CARD_FILE,
    FORMAT_VERSION,
    HUB_FILE,
    PART_FILES,
    README_FILE,
    HubInfo,
    LanguageLayout,
    info_faults,
)
from modenc.hub.reader import Language, read_language
from modenc.hub.readme import readme
from modenc.hub.seal import SEAL, check_seal, sealed_text
from modenc.hub.st_files import CONFIG_FILE, MODULES_FILE, POOLING_FOLDER, write_sentence_transformers_files
from modenc.languages import language_name, normalize_code
from modenc.storage import storing, write_atomically

# More often than any language is replaced while it is being read.
_TRIES = 20
_KEPT = "the hub is as it was"
_NO_HALF = "no half of a hub can be opened"
# Part → the stage of training that makes it.
_STAGE_OF = {
    "tokenizer": "vocabulary",
    "embeddings": "vocabulary",
    "la": "language_adaptation",
    "se": "sentence_encoding",
    "cla": "alignment",
}
_EACH_WHOLE = "each language there is whole, the old one or the new"


class MissingLanguageError(HubError):
    """The hub lacks a language."""


class Hub:
    """A hub on disk; made by :meth:`open` or :meth:`create`."""

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
        try:
            found = (root / HUB_FILE).is_file()
        except OSError as error:  # a name that is too long
            raise HubError(f"expected a hub's folder, found {str(root)!r:.60}… ({error.strerror})") from error
        if not found:
            raise HubError(_no_hub(root))
        info = _read_info(root / HUB_FILE)
        if swap.needs_recovery(root):
            swap.clean_up(root)
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

    def copy(self, path: str | Path, info: HubInfo) -> Hub:
        """Make another hub of this one's languages, or add them to one that exists with ``info``.

        A new folder is no hub before all of them are in it; what an interrupted copying left there is
        copied again.

        Raises:
            HubError: the folder is a hub with other than ``info``, or holds other files.
            StorageError: the disk is full or read-only.
        """
        kept = _EACH_WHOLE if (_path(path) / HUB_FILE).exists() else _NO_HALF
        hub = self._begin(path, info, self)
        if hub.path.resolve() != self.path.resolve():
            for lang in self.languages():
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
            _refuse_foreign_folder(root, source)
        with storing(root, _NO_HALF), swap.writing_files(root):
            write_sentence_transformers_files(root, info)
        return cls(root, info)

    def _write_info(self) -> None:
        """Last, since it is what makes the folder a hub."""
        with storing(self.path, _NO_HALF), swap.writing_files(self.path):
            write_atomically(self.path / HUB_FILE, _info_text(self.info))

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
        return _read_card(self.layout(lang).card)

    def read(self, lang: str, *, checksums: bool = True) -> Language:
        """A language's modules, checked, and of one state where another process replaces them meanwhile.

        Args:
            lang: the language.
            checksums: compare every file with its checksum on the card, beside its size and content.

        Raises:
            MissingLanguageError: the hub lacks the language.
            HubError: its modules cannot be used; the reasons are listed.
        """
        for _ in range(_TRIES):
            before = self._stamp(lang)
            try:
                layout, card = self.layout(lang), self.card(lang)
                code = layout.root.name
                language, problems = read_language(layout, card, self.info, code, checksums=checksums)
                refuse(problems, code, layout.root)
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
            MissingLanguageError: the hub lacks the language; the message lists those it has.
            LanguageError: ``lang`` names no language.
        """
        root = self._folder(lang)
        if not (root / CARD_FILE).is_file():
            raise self._no_language(lang)
        return LanguageLayout(root)

    @contextmanager
    def staging(self, lang: str) -> Iterator[Path]:
        """A new empty folder inside the hub to build a language's modules in.

        It is gone when the context ends, unless :meth:`publish` has made it the language.

        Raises:
            StorageError: the disk is full or read-only; the hub is left as it was.
        """
        with self._staging(lang, _KEPT) as folder:
            yield folder

    @contextmanager
    def _staging(self, lang: str, kept: str) -> Iterator[Path]:
        with storing(self.path, kept), swap.side_folder(self._folder(lang)) as folder:
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
        self._check_base(card)
        layout = LanguageLayout(staging_dir)
        self._check_nothing_lost(layout, card)
        layout.card.unlink(missing_ok=True)
        layout.readme.write_text(readme(card), encoding="utf-8", errors="backslashreplace")
        sealed = replace(card, files=_records(staging_dir))
        layout.card.write_text(sealed.to_json(), encoding="utf-8")
        self._take_in(staging_dir, sealed, shown_as=self._folder(card.lang))
        return sealed

    def _check_nothing_lost(self, layout: LanguageLayout, card: Card) -> None:
        """See that an alignment adapter does not replace the modules that it was trained on top of."""
        try:
            earlier = self.card(card.lang).files
        except HubError:  # none, or damaged: publishing is how it is replaced
            return
        parts = layout.present()
        lost = [
            part
            for part, files in PART_FILES.items()
            if part not in parts and _STAGE_OF[part] not in card.stages and set(files) <= set(earlier)
        ]
        if "cla" in parts and lost:
            stages = ", ".join(dict.fromkeys(_STAGE_OF[part] for part in lost))
            raise HubError(
                f"{card.lang}: expected the alignment with the modules it builds on, found cla without "
                f"{', '.join(lost)}, which the hub has, and no record of {stages}; the hub is as it was; "
                f"train {card.lang} from the start, or remove {card.lang} from the hub first"
            )

    def remove(self, lang: str) -> None:
        """Remove a language's modules.

        Raises:
            HubError: the hub lacks the language.
            StorageError: the hub is read-only, and left as it was.
        """
        root = self.layout(lang).root
        with storing(self.path, _KEPT):
            swap.clean_up(self.path)
            swap.remove_folder(root)

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
        self._check_base(card)
        expected = card.lang if lang is None else normalize_code(lang)
        # Before anything is copied: a malicious folder could fill the disk.
        self._check(source, card, expected, shown_as=source)
        with self._staging(card.lang, kept) as staging:
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
        swap.clean_up(self.path)
        swap.replace_folder(staging, self._folder(card.lang))

    def _check(self, folder: Path, card: Card, lang: str, shown_as: Path) -> None:
        _, problems = read_language(LanguageLayout(folder), card, self.info, lang)
        refuse(problems, lang, shown_as)

    def _check_base(self, card: Card) -> None:
        code = normalize_code(card.lang)
        if code != card.lang:
            raise HubError(f"expected a card with lang {code!r}, found {card.lang!r}; correct the card")
        if card.base_fingerprint != self.info.base_fingerprint:
            raise HubError(
                f"{card.lang}: expected modules for the base {self.info.base_id} "
                f"({self.info.base_fingerprint}), found modules for {card.base_id} "
                f"({card.base_fingerprint}); use a hub of that base, or train the language for this one"
            )

    def _folder(self, lang: str) -> Path:
        return self.path / normalize_code(lang)

    def _no_language(self, lang: str) -> MissingLanguageError:
        code, has = normalize_code(lang), self.languages()
        listed = ", ".join(has) if has else "none yet"
        return MissingLanguageError(
            f"{self.path}: no modules for {code} ({language_name(code)}); languages here: {listed}. "
            "Train it with a recipe (modenc train) or copy it in (modenc install)"
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


def _read_info(path: Path) -> HubInfo:
    text = read_text(path)
    content = json_object(text, str(path))
    seal = content.pop(SEAL, None)
    version = content.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise HubError(
            f"{path}: expected format_version {FORMAT_VERSION}, found {version!r:.60}; update modenc"
        )
    check_seal(text, seal, str(path))
    faults = listed(key_faults(content, HubInfo)) or listed(info_faults(HubInfo(**content)))
    if faults:
        raise HubError(f"{path}: {faults}; restore the file or make the hub anew")
    return HubInfo(**content)


def _info_text(info: HubInfo) -> str:
    content: dict[str, Any] = {"format_version": FORMAT_VERSION, **asdict(info)}
    return sealed_text(content)


def _no_hub(root: Path) -> str:
    if not root.exists():
        found = "no such folder"
    elif not root.is_dir():
        found = "a file"
    elif (root / CARD_FILE).is_file():
        found = f"a language's folder; its hub is {root.resolve().parent}"
    else:
        inside = sorted(hub.parent.name for hub in root.glob(f"*/{HUB_FILE}"))
        found = f"a folder without it (hubs inside: {', '.join(inside)})" if inside else "a folder without it"
    return (
        f"{root}: expected a hub (a folder with {HUB_FILE}), found {found}; give a hub's path, or train one"
    )


def _refuse_foreign_folder(root: Path, source: Hub | None) -> None:
    ours = {MODULES_FILE, CONFIG_FILE, POOLING_FOLDER, README_FILE}
    if root.exists() and not root.is_dir():
        raise HubError(f"{root}: expected a new or empty folder for a hub, found a file")
    entries: Iterator[Path] = root.iterdir() if root.exists() else iter(())
    foreign = sorted(
        entry.name
        for entry in entries
        if entry.name not in ours and entry.name[0] != "." and not (source and _is_copy(entry, source))
    )
    if foreign:
        raise HubError(
            f"{root}: expected a new or empty folder for a hub, found {', '.join(foreign[:5])}; "
            "give another path, or delete the folder if saving a hub there was interrupted"
        )


def _is_copy(folder: Path, source: Hub) -> bool:
    """Whether a folder is a language as ``source`` has it: nothing is lost by copying it again."""
    if not _is_code(folder.name):
        return False
    try:
        return read_text(folder / CARD_FILE) == read_text(source.path / folder.name / CARD_FILE)
    except HubError:
        return False


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


def _records(root: Path) -> dict[str, FileRecord]:
    return {
        name: FileRecord(sha256=sha256(path), bytes=path.stat().st_size) for name, path in files_below(root)
    }
