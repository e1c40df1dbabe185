"""A hub folder: which languages it has, and how they come in and go out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path

from modenc.errors import HubError
from modenc.hub import atomic_folder
from modenc.hub.card import Card, FileRecord
from modenc.hub.checks.folder import refuse
from modenc.hub.files import files_below, json_text, read_text, sha256, sync_tree
from modenc.hub.layout import (
    CARD_FILE,
    FORMAT_VERSION,
    HUB_FILE,
    PART_FILES,
    README_FILE,
    HubInfo,
    LanguageLayout,
    info_faults,
    read_info,
)
from modenc.hub.reader import HubReader, read_card, read_language
from modenc.hub.readme import readme
from modenc.hub.st_files import CONFIG_FILE, MODULES_FILE, POOLING_FOLDER, write_sentence_transformers_files
from modenc.languages import normalize_code
from modenc.storage import disk_errors, write_atomically

_KEPT = "the hub is as it was"
_NO_HALF = "no half of a hub can be opened"
_EACH_WHOLE = "each language there is whole, the old one or the new"


# Part → the stage of training that makes it.
_STAGE_OF = {
    "tokenizer": "vocabulary",
    "embeddings": "vocabulary",
    "la": "language_adaptation",
    "se": "sentence_encoding",
    "cla": "alignment",
}


class Hub(HubReader):
    """A hub on disk; made by :meth:`open` or :meth:`create`.

    Examples:
        >>> from modenc import Hub
        >>> hub = Hub.open("adapters_hub/me5-small")
        >>> licenses = {lang: hub.card(lang).licenses for lang in hub.languages()}
    """

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
            _refuse_other_files(root, None if source is None else source.path)
        with disk_errors(root, _NO_HALF), atomic_folder.writing_files(root):
            write_sentence_transformers_files(root, info)
        return cls(root, info)

    def _write_info(self) -> None:
        """Last, since it is what makes the folder a hub."""
        with disk_errors(self.path, _NO_HALF), atomic_folder.writing_files(self.path):
            content = {"format_version": FORMAT_VERSION, **asdict(self.info)}
            write_atomically(self.path / HUB_FILE, json_text(content))

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
        _check_base(card, self.info)
        layout = LanguageLayout(staging_dir)
        earlier = None
        with suppress(HubError):  # none, or a damaged one: publishing is how it is replaced
            earlier = self.card(card.lang)
        _check_nothing_lost(layout, card, earlier)
        (staging_dir / CARD_FILE).unlink(missing_ok=True)
        (staging_dir / README_FILE).write_text(readme(card), encoding="utf-8", errors="backslashreplace")
        records = {
            name: FileRecord(sha256=sha256(path), bytes=path.stat().st_size)
            for name, path in files_below(staging_dir)
        }
        complete = replace(card, files=records)
        (staging_dir / CARD_FILE).write_text(complete.to_json(), encoding="utf-8")
        self._take_in(staging_dir, complete, shown_as=self._folder(card.lang))
        return complete

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
        source = language_folder(folder, lang)
        card = read_card(source)
        _check_base(card, self.info)
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


def _path(path: str | Path) -> Path:
    """Absolute, so that a process may change its folder later."""
    if not isinstance(path, str | os.PathLike):
        raise HubError(f"expected a hub's folder, found {path!r:.60}; give its path")
    return Path(path).absolute()


def language_folder(folder: Path, lang: str | None) -> Path:
    """The folder with the card: ``folder`` itself, or a language of the hub it is.

    Raises:
        HubError: there is no such language.
    """
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


def _check_base(card: Card, info: HubInfo) -> None:
    """Check that a card is of a language that there is, and for the hub's base.

    Raises:
        HubError: it is not.
    """
    code = normalize_code(card.lang)
    if code != card.lang:
        raise HubError(f"expected a card with lang {code!r}, found {card.lang!r}; correct the card")
    if card.base_fingerprint != info.base_fingerprint:
        raise HubError(
            f"{card.lang}: expected modules for the base {info.base_id} "
            f"({info.base_fingerprint}), found modules for {card.base_id} "
            f"({card.base_fingerprint}); use a hub of that base, or train the language for this one"
        )


def _check_nothing_lost(layout: LanguageLayout, card: Card, earlier: Card | None) -> None:
    """Check that an alignment adapter does not replace the modules that it was trained on top of.

    Raises:
        HubError: ``layout`` has ``cla``, but not parts that ``earlier`` had, and ``card`` does not say that
            their stages were left out.
    """
    if earlier is None:
        return
    parts = layout.present()
    lost = [
        part
        for part, files in PART_FILES.items()
        if part not in parts and _STAGE_OF[part] not in card.stages and set(files) <= set(earlier.files)
    ]
    if "cla" in parts and lost:
        stages = ", ".join(dict.fromkeys(_STAGE_OF[part] for part in lost))
        raise HubError(
            f"{card.lang}: expected the alignment with the modules it builds on, found cla without "
            f"{', '.join(lost)}, which the hub has, and no record of {stages}; the hub is as it was; "
            f"train {card.lang} from the start, or remove {card.lang} from the hub first"
        )


def _refuse_other_files(root: Path, source: Path | None) -> None:
    """Check that a folder can become a hub: it is new, empty, or an interrupted copy of the hub ``source``.

    Raises:
        HubError: other files are in it.
    """
    if root.exists() and not root.is_dir():
        raise HubError(f"{root}: expected a new or empty folder for a hub, found a file")
    ours = {MODULES_FILE, CONFIG_FILE, POOLING_FOLDER, README_FILE}
    others = sorted(
        entry.name
        for entry in (root.iterdir() if root.exists() else ())
        if entry.name not in ours and entry.name[0] != "." and not (source and _is_copy(entry, source))
    )
    if others:
        raise HubError(
            f"{root}: expected a new or empty folder for a hub, found {', '.join(others[:5])}; "
            "give another path, or delete the folder if saving a hub there was interrupted"
        )


def _is_copy(folder: Path, source: Path) -> bool:
    """Whether a folder is a language as ``source`` has it: nothing is lost by copying it again."""
    with suppress(HubError):
        return read_text(folder / CARD_FILE) == read_text(source / folder.name / CARD_FILE)
    return False
