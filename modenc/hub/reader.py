"""Reading of a hub: each file of a language is read once, and the bytes that were checked are returned."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from modenc.errors import HubError, LanguageError
from modenc.hub.card import Card, FileRecord
from modenc.hub.checks.adapters import (
    PARSERS,
    LoraWeights,
    ParallelWeights,
    most_adapter_bytes,
)
from modenc.hub.checks.folder import ADVICE, HubIssue, listing_issues, raise_issues
from modenc.hub.checks.tensors import MOST_HEADER, Array, parse_embeddings
from modenc.hub.checks.tokenizer import TOKENIZER_FILE, TOKENIZER_FILES, ParsedTokenizer, parse_tokenizer
from modenc.hub.files import MOST_JSON_BYTES, json_object, read_text
from modenc.hub.layout import (
    CARD_FILE,
    PART_FILES,
    README_FILE,
    HubInfo,
    LanguageLayout,
)
from modenc.languages import language_name, normalize_code

_MOST_README_BYTES = 1 << 20
# Retries if a language is replaced while it is being read.
_TRIES = 20


@dataclass(frozen=True)
class StoredLanguage:
    """A language's modules as stored in its files, checked; missing parts are empty."""

    lang: str
    fingerprint: str
    """Fingerprint from its card; empty without a card."""
    tokenizer: ParsedTokenizer | None
    """``None``: the language keeps the base's vocabulary."""
    embeddings: Array | None
    """[vocabulary, hidden], in floating point, or in int8 with :attr:`scales`."""
    scales: Array | None
    """[vocabulary]"""
    la: dict[str, LoraWeights]
    """Module name in the body → language adapter."""
    se: dict[str, LoraWeights]
    """Module name in the body → sentence-encoding adapter."""
    cla: dict[int, ParallelWeights]
    """Layer number → alignment adapter."""


class LanguageGoneError(HubError):
    """Raised if a hub lacks a language, or has replaced the modules in use."""


class HubReader:
    """Methods of :class:`~modenc.hub.store.Hub` that read."""

    advice = ADVICE
    """Advice in errors about modules that cannot be used."""
    advice_if_none = "Train it with a recipe (modenc train) or copy it in (modenc hub install)"
    """Advice in errors about a language that the hub lacks."""

    def __init__(self, path: Path, info: HubInfo) -> None:
        self.path = path
        self.info = info

    @property
    def name(self) -> str:
        """Name of the hub in messages: its folder's name."""
        return self.path.resolve().name

    def languages(self) -> list[str]:
        """Return the codes of the hub's languages, sorted, the pivot first.

        Folders whose name is no normalized code are left out; :func:`~modenc.hub.verify.verify_hub` reports
        them.

        Raises:
            HubError: the folder is gone or not readable.
        """
        try:
            # Names first: other folders, such as a volume's lost+found, may be closed to this user.
            folders = [folder for folder in self.path.iterdir() if _is_code(folder.name)]
            found = [folder.name for folder in folders if (folder / CARD_FILE).is_file()]
        except OSError as error:
            raise HubError(f"{self.path}: the hub cannot be read any more ({error.strerror})") from error
        return sorted(found, key=lambda lang: (lang != self.info.pivot, lang))

    def card(self, lang: str) -> Card:
        """Return the card of a language.

        Raises:
            HubError: the hub lacks the language, or its card cannot be read.
        """
        return read_card(HubReader.layout(self, lang).root)  # no download in subclasses

    def parts(self, lang: str) -> tuple[str, ...]:
        """Return the parts that a language has, of ``tokenizer embeddings la se cla``.

        Raises:
            HubError: the hub lacks the language, or a part of it lacks a file.
        """
        return self.layout(lang).present()

    def read(self, lang: str, *, checksums: bool = True) -> StoredLanguage:
        """Read and check a language's modules; no mixture of two versions if another process replaces them.

        Args:
            lang: the language.
            checksums: compare every file with its checksum on the card; size and content are always checked.

        Raises:
            LanguageGoneError: the hub lacks the language.
            HubError: its modules cannot be used; the message lists the issues.
        """
        for _ in range(_TRIES):
            before = self._version(lang)
            try:
                layout, card = self.layout(lang), self.card(lang)
                code = layout.root.name
                language, issues = read_language(layout, card, self.info, code, checksums=checksums)
                raise_issues(issues, code, layout.root, self.advice)
            except (HubError, FileNotFoundError):
                if self._version(lang) == before:
                    raise
            else:
                if self._version(lang) == before:
                    return language
        raise HubError(f"{self.path}: {lang} keeps changing on disk; retry when installations have finished")

    def _version(self, lang: str) -> tuple[int, ...]:
        """Return numbers that change whenever a language is installed, also with the same modules."""
        try:
            found = self._folder(lang).stat()
        except OSError as error:
            raise self._no_language(lang) from error
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def layout(self, lang: str) -> LanguageLayout:
        """Return the folder of a language.

        Raises:
            LanguageGoneError: the hub lacks the language; the message lists its languages.
            LanguageError: ``lang`` names no language.
        """
        root = self._folder(lang)
        if not (root / CARD_FILE).is_file():
            raise self._no_language(lang)
        return LanguageLayout(root)

    def _folder(self, lang: str) -> Path:
        return self.path / normalize_code(lang)

    def _no_language(self, lang: str) -> LanguageGoneError:
        code, has = normalize_code(lang), self.languages()
        listed = ", ".join(has) if has else "none yet"
        return LanguageGoneError(
            f"{self.path}: no modules for {code} ({language_name(code)}); languages here: {listed}. "
            f"{self.advice_if_none}"
        )


@lru_cache(maxsize=4096)
def _is_code(name: str) -> bool:
    try:
        return normalize_code(name) == name
    except LanguageError:
        return False


def read_card(folder: Path) -> Card:
    """Read the card in a language's folder.

    Raises:
        HubError: it is missing or damaged.
    """
    return Card.from_json(read_text(folder / CARD_FILE), where=str(folder / CARD_FILE))


def read_language(
    layout: LanguageLayout, card: Card, info: HubInfo, lang: str, *, checksums: bool = True
) -> tuple[StoredLanguage, list[HubIssue]]:
    """Read a language's folder, in a hub or not, and check it against its card and the base.

    Args:
        layout: the folder.
        card: its card.
        info: information about the base, from the hub.
        lang: expected language.
        checksums: compare every file with its checksum.

    Returns:
        The language, without the parts that cannot be used, and all issues.
    """
    files = _FolderReader(layout.root, card.files, checksums=checksums)
    if card.lang != lang:
        files.report(CARD_FILE, f"expected the modules of {lang!r}, found those of {card.lang!r}")
    if card.base_fingerprint != info.base_fingerprint:
        files.report(CARD_FILE, f"expected the base {info.base_fingerprint}, found {card.base_fingerprint}")
    with files.reporting(None):
        layout.present()
    files.issues += listing_issues(layout.root, card.files)
    files.skipped = {issue.file for issue in files.issues}
    if README_FILE in card.files:
        files.read(README_FILE, _MOST_README_BYTES)
    return _parse(files, lang, card.fingerprint(), PART_FILES, info.hidden_size), files.issues


def read_parts(layout: LanguageLayout, hidden_size: int, parts: Iterable[str] = PART_FILES) -> StoredLanguage:
    """Read some parts of a folder that needs no card, such as one that training writes.

    Raises:
        HubError: a part lacks a file, or cannot be used.
    """
    layout.present()
    files = _FolderReader(layout.root, None, checksums=False)
    language = _parse(files, layout.root.name, "", parts, hidden_size)
    raise_issues(files.issues, language.lang, layout.root)
    return language


class _FolderReader:
    """Reader of the files of one folder, which collects issues.

    Args:
        root: the folder.
        records: sizes and checksums of its files, if known.
        checksums: compare the checksums.
    """

    def __init__(self, root: Path, records: Mapping[str, FileRecord] | None, *, checksums: bool) -> None:
        self.root = root
        self.issues: list[HubIssue] = []
        self.skipped: set[str | None] = set()
        """Files that are not read, since they have an issue."""
        self._records = records
        self._checksums = checksums

    def report(self, name: str | None, message: str) -> None:
        """Add an issue with a file, or with the folder."""
        self.issues.append(HubIssue(name, message))

    @contextmanager
    def reporting(self, name: str | None) -> Iterator[None]:
        """Add the :class:`HubError` that ends the block as an issue."""
        try:
            yield
        except HubError as error:
            self.report(name, str(error))

    def has(self, part: str) -> bool:
        """Check that a part's files exist, are listed on the card (if any), and are in no linked folder."""
        paths = [self.root / name for name in PART_FILES[part]]
        listed = self._records is None or set(PART_FILES[part]) <= self._records.keys()
        return listed and all(path.is_file() and not path.parent.is_symlink() for path in paths)

    def read(self, name: str, most: int) -> bytes | None:
        """Read a file of at most ``most`` bytes; returns ``None`` if it has an issue."""
        if name in self.skipped:
            return None
        with self.reporting(name):
            try:
                with (self.root / name).open("rb") as stream:
                    size = os.fstat(stream.fileno()).st_size
                    if size > most:
                        raise HubError(f"expected at most {most} bytes, found {size}")
                    content = stream.read(size + 1)
            except OSError as error:
                raise HubError(f"expected a readable file, found: {error}") from error
            if self._records is not None:
                record = self._records.get(name)
                if record is None:
                    raise HubError("expected on the card, found in the folder alone; delete it")
                if len(content) != record["bytes"]:
                    raise HubError(f"expected {record['bytes']} bytes, found {len(content)}")
                if self._checksums and (found := hashlib.sha256(content).hexdigest()) != record["sha256"]:
                    raise HubError(f"expected sha256 {record['sha256']}, found {found}")
            return content
        return None


def _parse(
    files: _FolderReader, lang: str, fingerprint: str, parts: Iterable[str], hidden_size: int
) -> StoredLanguage:
    """Parse those of ``parts`` that exist and have no issue."""
    there = {part for part in parts if files.has(part)}
    tokenizer = _parse_tokenizer(files) if "tokenizer" in there else None
    embeddings, scales = None, None
    if tokenizer is not None and "embeddings" in there:
        name, pieces = PART_FILES["embeddings"][0], len(tokenizer)
        if (content := files.read(name, MOST_HEADER + 4 * pieces * (hidden_size + 1))) is not None:
            with files.reporting(name):
                embeddings, scales = parse_embeddings(content, pieces, hidden_size)
    adapters = {part: _parse_adapter(files, part, hidden_size) if part in there else {} for part in PARSERS}
    return StoredLanguage(lang, fingerprint, tokenizer, embeddings, scales, **adapters)


def _parse_tokenizer(files: _FolderReader) -> ParsedTokenizer | None:
    """Parse the tokenizer's files; ``None`` if they have an issue."""
    contents: dict[str, bytes] = {}
    for path in sorted((files.root / "tokenizer").iterdir()):
        name = f"tokenizer/{path.name}"
        if path.name not in TOKENIZER_FILES:
            files.report(name, f"expected {', '.join(TOKENIZER_FILES)} alone, found another file; delete it")
        elif (content := files.read(name, TOKENIZER_FILES[path.name])) is not None:
            contents[path.name] = content
    if TOKENIZER_FILE in contents:
        with files.reporting(f"tokenizer/{TOKENIZER_FILE}"):
            return parse_tokenizer(contents)
    return None


def _parse_adapter(files: _FolderReader, part: str, hidden_size: int) -> dict[Any, Any]:
    """Parse an adapter's two files; empty if they have an issue."""
    config_name, name = PART_FILES[part]
    config = files.read(config_name, MOST_JSON_BYTES)
    content = files.read(name, most_adapter_bytes(hidden_size))
    if config is not None and content is not None:
        with files.reporting(config_name):
            settings = json_object(config, Path(config_name).name)
            with files.reporting(name):
                return PARSERS[part](content, settings, hidden_size)
    return {}
