"""The door into a language's folder: each file is read once, and what is checked is what is handed out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from modenc.errors import HubError
from modenc.hub.card import Card, FileRecord
from modenc.hub.checks.adapters import (
    LoraWeights,
    ParallelWeights,
    most_adapter_bytes,
    parse_lora,
    parse_parallel,
)
from modenc.hub.checks.folder import Problem, listing_problems
from modenc.hub.checks.tensors import MOST_HEADER, Array, parse_embeddings
from modenc.hub.checks.tokenizer import TOKENIZER_FILE, TOKENIZER_FILES, LanguageTokenizer, parse_tokenizer
from modenc.hub.files import MOST_JSON_BYTES, json_object
from modenc.hub.layout import CARD_FILE, PART_FILES, README_FILE, HubInfo, LanguageLayout

_MOST_README_BYTES = 1 << 20
Key = TypeVar("Key")
Weights = TypeVar("Weights")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Language:
    """A language's modules as its files hold them, checked; parts that it does not have are empty."""

    lang: str
    digest: str
    """The same for folders with the same files; empty for those without a card."""
    tokenizer: LanguageTokenizer | None
    """``None``: the language keeps the base's vocabulary."""
    embeddings: Array | None
    """[vocabulary, hidden], in floating point, or in int8 with scales."""
    scales: Array | None
    """[vocabulary]"""
    la: dict[str, LoraWeights]
    """Module name in the body → language adapter."""
    se: dict[str, LoraWeights]
    """Module name in the body → sentence-encoding adapter."""
    cla: dict[int, ParallelWeights]
    """Layer number → alignment adapter."""


def read_language(
    layout: LanguageLayout, card: Card, info: HubInfo, lang: str, *, checksums: bool = True
) -> tuple[Language, list[Problem]]:
    """Read a folder of ``lang``, which need not be in a hub yet, and check it against its card and the base.

    Args:
        layout: the folder.
        card: its card.
        info: what the hub says of the base.
        lang: whose modules are expected.
        checksums: compare every file with its checksum.

    Returns:
        The language, without the parts that cannot be used, and everything that is wrong.
    """
    problems = []
    if card.lang != lang:
        message = f"expected the modules of {lang!r}, found those of {card.lang!r}"
        problems.append(Problem(None, CARD_FILE, message))
    if card.base_fingerprint != info.base_fingerprint:
        message = f"expected the base {info.base_fingerprint}, found {card.base_fingerprint}"
        problems.append(Problem(None, CARD_FILE, message))
    try:
        layout.present()
    except HubError as error:
        problems.append(Problem(None, None, str(error)))
    problems += listing_problems(layout.root, card.files)
    reader = _Reader(layout.root, card.files, problems, checksums=checksums)
    if README_FILE in card.files:
        reader.read(README_FILE, _MOST_README_BYTES)
    return reader.language(lang, card.digest(), PART_FILES, info.hidden_size), problems


def read_parts(
    layout: LanguageLayout, hidden_size: int, parts: Iterable[str] = PART_FILES
) -> tuple[Language, list[Problem]]:
    """The same for some parts of a folder that needs no card, as training leaves it.

    Raises:
        HubError: a part lacks a file.
    """
    layout.present()
    problems: list[Problem] = []
    reader = _Reader(layout.root, None, problems, checksums=False)
    return reader.language(layout.root.name, "", parts, hidden_size), problems


class _Reader:
    """Reads files of one folder, and notes what is wrong with them in ``problems``.

    Args:
        root: the folder.
        records: size and checksum of its files; ``None``: they are not known.
        problems: those known so far; files that have one are not opened.
        checksums: compare them.
    """

    def __init__(
        self,
        root: Path,
        records: Mapping[str, FileRecord] | None,
        problems: list[Problem],
        *,
        checksums: bool,
    ) -> None:
        self._root = root
        self._records = records
        self._problems = problems
        self._closed = {problem.file for problem in problems}
        self._checksums = checksums

    def language(self, lang: str, digest: str, parts: Iterable[str], hidden_size: int) -> Language:
        """All of ``parts`` that are there and sound."""
        there = {part for part in parts if self._has(part)}
        tokenizer = self._tokenizer() if "tokenizer" in there else None
        embeddings, scales = None, None
        if tokenizer is not None and "embeddings" in there:
            name, pieces = PART_FILES["embeddings"][0], len(tokenizer)
            content = self.read(name, MOST_HEADER + 4 * pieces * (hidden_size + 1))
            if content is not None:
                found = self._checked(name, lambda: parse_embeddings(content, pieces, hidden_size))
                embeddings, scales = found or (None, None)
        return Language(
            lang=lang,
            digest=digest,
            tokenizer=tokenizer,
            embeddings=embeddings,
            scales=scales,
            la=self._adapter("la", parse_lora, hidden_size) if "la" in there else {},
            se=self._adapter("se", parse_lora, hidden_size) if "se" in there else {},
            cla=self._adapter("cla", parse_parallel, hidden_size) if "cla" in there else {},
        )

    def _has(self, part: str) -> bool:
        """Whether a part's files are there, on the card if there is one, and not behind a link."""
        paths = [self._root / name for name in PART_FILES[part]]
        listed = self._records is None or set(PART_FILES[part]) <= self._records.keys()
        return listed and all(path.is_file() and not path.parent.is_symlink() for path in paths)

    def read(self, name: str, most: int) -> bytes | None:
        """A file's content; ``None`` where there is a problem with it."""
        if name in self._closed:
            return None
        return self._checked(name, lambda: self._content(name, most))

    def _content(self, name: str, most: int) -> bytes:
        try:
            with (self._root / name).open("rb") as stream:
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

    def _checked(self, name: str, act: Callable[[], Result]) -> Result | None:
        try:
            return act()
        except HubError as error:
            self._problems.append(Problem(None, name, str(error)))
            return None

    def _tokenizer(self) -> LanguageTokenizer | None:
        files: dict[str, bytes] = {}
        for path in sorted((self._root / "tokenizer").iterdir()):
            name = f"tokenizer/{path.name}"
            if path.name not in TOKENIZER_FILES:
                message = f"expected {', '.join(TOKENIZER_FILES)} alone, found another file; delete it"
                self._problems.append(Problem(None, name, message))
            elif (content := self.read(name, TOKENIZER_FILES[path.name])) is not None:
                files[path.name] = content
        if TOKENIZER_FILE not in files:
            return None
        return self._checked(f"tokenizer/{TOKENIZER_FILE}", lambda: parse_tokenizer(files))

    def _adapter(
        self, part: str, parse: Callable[[bytes, dict[str, Any], int], dict[Key, Weights]], hidden_size: int
    ) -> dict[Key, Weights]:
        config_name, name = PART_FILES[part]
        config = self.read(config_name, MOST_JSON_BYTES)
        content = self.read(name, most_adapter_bytes(hidden_size))
        if config is None or content is None:
            return {}
        settings = self._checked(config_name, lambda: json_object(config, Path(config_name).name))
        if settings is None:
            return {}
        return self._checked(name, lambda: parse(content, settings, hidden_size)) or {}
