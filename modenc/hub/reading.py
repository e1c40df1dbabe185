"""Reading of a language's files: checked against its card and the base, as NumPy arrays."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modenc.errors import HubError
from modenc.hub.card import Card, FileRecord
from modenc.hub.checks import (
    PARSERS,
    TOKENIZER_FILE,
    TOKENIZER_FILES,
    Array,
    LoraLayer,
    ParallelAdapter,
    ParsedTokenizer,
    listing_issues,
    most_adapter_bytes,
    most_embeddings_bytes,
    parse_embeddings,
    parse_tokenizer,
    raise_issues,
)
from modenc.hub.layout import (
    CARD_FILE,
    MOST_JSON_BYTES,
    PART_FILES,
    README_FILE,
    VERSION_FOLDER,
    HubInfo,
    files_below,
    json_object,
    parts_in,
)


@dataclass(frozen=True)
class StoredLanguage:
    """A language's modules from its files, checked, with adapters scaled; missing parts are empty."""

    lang: str
    tokenizer: ParsedTokenizer | None
    """``None``: the language keeps the base's vocabulary."""
    embeddings: Array | None
    """[vocabulary, hidden], in floating point, or in int8 with :attr:`scales`."""
    scales: Array | None
    """[vocabulary]"""
    la: dict[str, LoraLayer[Array]]
    """Module name in the body → language adapter."""
    se: dict[str, LoraLayer[Array]]
    """Module name in the body → sentence-encoding adapter."""
    cla: dict[int, ParallelAdapter[Array]]
    """Layer number → alignment adapter."""


def read_language(root: Path, card: Card, info: HubInfo, lang: str) -> tuple[StoredLanguage, list[str]]:
    """Read a language's folder, in a hub or not, and check it against its card and the base.

    Args:
        root: the folder.
        card: its card.
        info: information about the base, from the hub.
        lang: expected language.

    Returns:
        The language, without the parts that cannot be used, and the issues.
    """
    files = _FolderReader(root, card.files)
    if card.lang != lang:
        files.report(CARD_FILE, f"expected the modules of {lang!r}, found those of {card.lang!r}")
    if card.base_fingerprint != info.base_fingerprint:
        files.report(
            CARD_FILE,
            f"expected modules for the base {info.base_id} ({info.base_fingerprint}), found modules for "
            f"{card.base_id} ({card.base_fingerprint}); use a hub of that base",
        )
    if any(path.is_symlink() for path in (root.parent, root, root.parent / CARD_FILE)):
        files.report(CARD_FILE, "expected a plain folder with a plain file, found a link")
    sizes = {
        name: None if path.is_symlink() or not path.is_file() else path.stat().st_size
        for name, path in files_below(root)
    }
    files.issues += listing_issues(sizes, card.files, info.hidden_size)
    # Only files that are those on the card are opened.
    parts = () if files.issues else tuple(PART_FILES)
    if parts and README_FILE in card.files:
        files.read(README_FILE, MOST_JSON_BYTES)
    return _parse(files, lang, parts, info.hidden_size), files.issues


def read_parts(root: Path, hidden_size: int, parts: Iterable[str] = PART_FILES) -> StoredLanguage:
    """Read some parts of a folder that needs no card, such as one that training writes.

    Raises:
        HubError: a part cannot be used.
    """
    files = _FolderReader(root, None)
    folder = root.parent if VERSION_FOLDER.fullmatch(root.name) else root
    language = _parse(files, folder.name, parts, hidden_size)
    raise_issues(files.issues, language.lang, root)
    return language


class _FolderReader:
    """Reader of the files of one folder, which collects issues.

    Args:
        root: the folder.
        records: checksums of its files, if known; no other files are read.
    """

    def __init__(self, root: Path, records: Mapping[str, FileRecord] | None) -> None:
        self.root = root
        self.issues: list[str] = []
        self._records = records

    def report(self, name: str, message: str) -> None:
        """Add an issue with a file or folder of this name."""
        self.issues.append(f"{name}: {message}")

    @contextmanager
    def reporting(self, name: str) -> Iterator[None]:
        """Add the :class:`HubError` that ends the block as an issue."""
        try:
            yield
        except HubError as error:
            self.report(name, str(error))

    def read(self, name: str, most: int) -> bytes | None:
        """Read a file of at most ``most`` bytes; returns ``None`` if it has an issue."""
        with self.reporting(name):
            try:
                with (self.root / name).open("rb") as stream:
                    # A buffer of the most bytes would take longer to make than the file to read.
                    content = stream.read(min(most, os.fstat(stream.fileno()).st_size) + 1)
            except OSError as error:
                raise HubError(f"expected a readable file, found: {error}") from error
            if len(content) > most:
                raise HubError(f"expected at most {most} bytes, found more")
            if self._records is not None:
                expected, found = self._records[name]["sha256"], hashlib.sha256(content).hexdigest()
                if found != expected:
                    raise HubError(f"expected sha256 {expected}, found {found}")
            return content
        return None


def _parse(files: _FolderReader, lang: str, parts: Iterable[str], hidden_size: int) -> StoredLanguage:
    """Parse those of ``parts`` that exist."""
    there = set(parts).intersection(parts_in(files.root))
    if ("tokenizer" in there) != ("embeddings" in there):
        files.report("tokenizer", "expected tokenizer and embeddings together, found one of them")
    tokenizer = _parse_tokenizer(files) if "tokenizer" in there else None
    embeddings, scales = None, None
    if tokenizer is not None and "embeddings" in there:
        name, pieces = PART_FILES["embeddings"][0], tokenizer.pieces
        if (content := files.read(name, most_embeddings_bytes(pieces, hidden_size))) is not None:
            with files.reporting(name):
                embeddings, scales = parse_embeddings(content, pieces, hidden_size)
    adapters = {part: _parse_adapter(files, part, hidden_size) if part in there else {} for part in PARSERS}
    return StoredLanguage(lang, tokenizer, embeddings, scales, **adapters)


def _parse_tokenizer(files: _FolderReader) -> ParsedTokenizer | None:
    """Parse the tokenizer's files; ``None`` if they have an issue."""
    contents: dict[str, bytes] = {}
    for name, most in TOKENIZER_FILES.items():
        path = f"tokenizer/{name}"
        required = name == TOKENIZER_FILE
        if (required or (files.root / path).is_file()) and (content := files.read(path, most)) is not None:
            contents[name] = content
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
