"""Hubs on disk: opening, making and copying them, and publishing, installing and removing languages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from modenc.errors import HubError
from modenc.hub import atomic_folder
from modenc.hub.card import Card, FileRecord
from modenc.hub.checks.folder import raise_issues
from modenc.hub.files import files_below, json_text, read_text, sha256
from modenc.hub.layout import (
    CARD_FILE,
    FORMAT_VERSION,
    HUB_FILE,
    README_FILE,
    HubInfo,
    LanguageLayout,
    info_issues,
    read_info,
)
from modenc.hub.reader import HubReader, read_card, read_language
from modenc.hub.readme import language_page
from modenc.hub.st_files import CONFIG_FILE, MODULES_FILE, POOLING_FOLDER, write_sentence_transformers_files
from modenc.languages import normalize_code
from modenc.storage import disk_errors, write_atomically

_KEPT = "the hub is as it was"
_INCOMPLETE = "the incomplete hub cannot be opened"
_EACH_WHOLE = "each language there is complete, in the old version or the new one"
# Part → training stage that makes it.
STAGE_OF_PART = {
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
        """Open a hub; reads only ``hub.json``.

        Raises:
            HubError: there is no hub, or its format is not that of this version.
        """
        root = _path(path)
        info = read_info(root)
        if atomic_folder.needs_recovery(root):
            atomic_folder.clean_up(root)
        return cls(root, info)

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

        A new folder becomes a hub when all languages are in it. The remains of an interrupted copy there are
        copied again.

        Raises:
            HubError: the folder is a hub with other ``info``, or holds other files.
            StorageError: the disk is full or read-only.
        """
        kept = _EACH_WHOLE if (_path(path) / HUB_FILE).exists() else _INCOMPLETE
        hub = Hub._begin(path, info, self)
        if hub.path.resolve() != self.path.resolve():
            for lang in self.languages() if languages is None else languages:
                hub._copy_in(self.layout(lang).root, lang, kept)
        hub._write_info()
        return hub

    @classmethod
    def _begin(cls, path: str | Path, info: HubInfo, source: Hub | None = None) -> Hub:
        """Prepare a folder, without ``hub.json`` if it is no hub yet; it may have languages of ``source``."""
        root = _path(path)
        if issues := list(info_issues(info)):
            raise HubError(f"{root}: {'; '.join(issues)}; no such hub could be opened")
        if (root / HUB_FILE).exists():
            hub = cls.open(root)
            if different := info.differences(hub.info):
                raise HubError(f"{root} is another kind of hub ({different}); use another folder")
        else:
            _refuse_other_files(root, None if source is None else source.path)
        with disk_errors(root, _INCOMPLETE), atomic_folder.writing_files(root):
            write_sentence_transformers_files(root, info)
        return cls(root, info)

    def _write_info(self) -> None:
        """Write ``hub.json``, as the last file, since it makes the folder a hub."""
        with disk_errors(self.path, _INCOMPLETE), atomic_folder.writing_files(self.path):
            content = {"format_version": FORMAT_VERSION, **asdict(self.info)}
            write_atomically(self.path / HUB_FILE, json_text(content))

    @contextmanager
    def staging(self, lang: str, kept: str = _KEPT) -> Iterator[Path]:
        """Make an empty folder in the hub to build a language's modules in.

        It is removed at the end of the context, unless :meth:`publish` has made it the language's folder.
        ``kept`` is what a disk error leaves intact, for the message.

        Raises:
            StorageError: the disk is full or read-only; the hub is left as it was.
        """
        with disk_errors(self.path, kept), atomic_folder.staging_folder(self._folder(lang)) as folder:
            yield folder

    def publish(self, staging_dir: Path, card: Card) -> Card:
        """Publish the modules in a staging folder as the language's, in one atomic step.

        First writes ``README.md`` and ``card.json``, which has the checksum of every file.

        Returns:
            The card with ``files`` filled in.

        Raises:
            HubError: the card is for another base, the modules cannot be used, or an alignment adapter would
                replace the modules that it was trained on; the hub is left as it was.
        """
        _check_base(card, self.info)
        earlier = None
        with suppress(HubError):  # a missing or damaged language is replaced
            earlier = self.card(card.lang)
        if earlier is not None:
            _check_nothing_lost(LanguageLayout(staging_dir).present(), card, earlier)
        (staging_dir / CARD_FILE).unlink(missing_ok=True)
        page = language_page(card)
        (staging_dir / README_FILE).write_text(page, encoding="utf-8", errors="backslashreplace")
        records = {
            name: FileRecord(sha256=sha256(path), bytes=path.stat().st_size)
            for name, path in files_below(staging_dir)
        }
        complete = replace(card, files=records)
        (staging_dir / CARD_FILE).write_text(complete.to_json(), encoding="utf-8")
        self._check_and_swap(staging_dir, complete, shown_as=self._folder(card.lang))
        return complete

    def remove(self, lang: str) -> None:
        """Remove a language's modules.

        Raises:
            HubError: the hub lacks the language.
            StorageError: the hub is read-only; it is left as it was.
        """
        root = self.layout(lang).root
        with disk_errors(self.path, _KEPT):
            atomic_folder.clean_up(self.path)
            atomic_folder.remove_folder(root)

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
        source = language_folder(Path(folder), lang)
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
        _check_base(card, self.info)
        expected = card.lang if lang is None else normalize_code(lang)
        # Checked before copying, since a malicious folder could fill the disk.
        self._check(source, card, expected, shown_as=source)
        with self.staging(card.lang, kept) as staging:
            for name, path in files_below(source):
                if path.is_symlink() or not path.is_file():
                    raise HubError(f"{path}: expected a plain file, found a link or special file")
                target = staging / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            self._check_and_swap(staging, card, shown_as=source)
        return card

    def _check_and_swap(self, staging: Path, card: Card, shown_as: Path) -> None:
        """Check a finished folder, and make it the language's."""
        self._check(staging, card, card.lang, shown_as=shown_as)
        atomic_folder.clean_up(self.path)
        atomic_folder.replace_folder(staging, self._folder(card.lang))

    def _check(self, folder: Path, card: Card, lang: str, shown_as: Path) -> None:
        _, issues = read_language(LanguageLayout(folder), card, self.info, lang)
        raise_issues(issues, lang, shown_as, self.advice)


def _path(path: str | Path) -> Path:
    """Make a path absolute, so that the process may change its working directory."""
    if not isinstance(path, str | os.PathLike):
        raise HubError(f"expected a hub's folder, found {path!r:.60}; give its path")
    return Path(path).absolute()


def language_folder(folder: Path, lang: str | None) -> Path:
    """Find a language's folder: ``folder`` itself, or that of ``lang`` if it is a hub.

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
    """Check that a card has a normalized language code and the hub's base."""
    code = normalize_code(card.lang)
    if code != card.lang:
        raise HubError(f"expected a card with lang {code!r}, found {card.lang!r}; correct the card")
    if card.base_fingerprint != info.base_fingerprint:
        raise HubError(
            f"{card.lang}: expected modules for the base {info.base_id} "
            f"({info.base_fingerprint}), found modules for {card.base_id} "
            f"({card.base_fingerprint}); use a hub of that base, or train the language for this one"
        )


def _check_nothing_lost(parts: tuple[str, ...], card: Card, earlier: Card) -> None:
    """Refuse ``cla`` in place of modules that it was trained on, unless the card says they were left out."""
    lost = [part for part in earlier.parts if part not in parts and STAGE_OF_PART[part] not in card.stages]
    if "cla" in parts and lost:
        stages = ", ".join(dict.fromkeys(STAGE_OF_PART[part] for part in lost))
        raise HubError(
            f"{card.lang}: expected the alignment with the modules it was trained on, found cla without "
            f"{', '.join(lost)}, which the hub has, and no record of {stages}; the hub is as it was; "
            f"train {card.lang} from the start, or remove {card.lang} from the hub first"
        )


def _refuse_other_files(root: Path, source: Path | None) -> None:
    """Check that a folder is new, empty, or an interrupted copy of the hub ``source``."""
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
    """Check whether a folder is a copy of a language of the hub ``source``."""
    with suppress(HubError):
        return read_text(folder / CARD_FILE) == read_text(source / folder.name / CARD_FILE)
    return False
