"""The door into a hub: a language's files are read once each, and what is checked is what is handed out."""

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
    LoraWeights,
    ParallelWeights,
    most_adapter_bytes,
    parse_lora,
    parse_parallel,
)
from modenc.hub.checks.folder import ADVICE, Problem, listing_faults, refuse
from modenc.hub.checks.tensors import MOST_HEADER, Array, parse_embeddings
from modenc.hub.checks.tokenizer import TOKENIZER_FILE, TOKENIZER_FILES, LanguageTokenizer, parse_tokenizer
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
# More often than any language is replaced while it is being read.
_TRIES = 20


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


class LanguageGoneError(HubError):
    """The hub lacks a language, or has by now other modules for it than those in use."""


class HubReader:
    """The reading half of a :class:`~modenc.hub.store.Hub`."""

    advice = ADVICE
    """What to do about modules that cannot be used."""
    advice_if_none = "Train it with a recipe (modenc train) or copy it in (modenc hub install)"
    """What to do about a language that the hub lacks."""

    def __init__(self, path: Path, info: HubInfo) -> None:
        self.path = path
        self.info = info

    @property
    def name(self) -> str:
        """What people call the hub: its folder's name."""
        return self.path.resolve().name

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
        return read_card(self._indexed(lang).root)

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
    """The card in a language's folder.

    Raises:
        HubError: it is missing or damaged.
    """
    return Card.from_json(read_text(folder / CARD_FILE), where=str(folder / CARD_FILE))


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
    files = _Files(layout.root, card.files, checksums=checksums)
    if card.lang != lang:
        files.report(CARD_FILE, f"expected the modules of {lang!r}, found those of {card.lang!r}")
    if card.base_fingerprint != info.base_fingerprint:
        files.report(CARD_FILE, f"expected the base {info.base_fingerprint}, found {card.base_fingerprint}")
    with files.reporting(None):
        layout.present()
    for name, message in listing_faults(layout.root, card.files):
        files.report(name, message)
    files.closed = {problem.file for problem in files.problems}
    if README_FILE in card.files:
        files.read(README_FILE, _MOST_README_BYTES)
    return _parsed(files, lang, card.digest(), PART_FILES, info.hidden_size), files.problems


def read_parts(layout: LanguageLayout, hidden_size: int, parts: Iterable[str] = PART_FILES) -> Language:
    """Some parts of a folder that needs no card, as training leaves it.

    Raises:
        HubError: a part lacks a file, or cannot be used.
    """
    layout.present()
    files = _Files(layout.root, None, checksums=False)
    language = _parsed(files, layout.root.name, "", parts, hidden_size)
    refuse(files.problems, language.lang, layout.root)
    return language


class _Files:
    """The files of one folder.

    Args:
        root: the folder.
        records: size and checksum of its files; ``None``: they are not known.
        checksums: compare them.
    """

    def __init__(self, root: Path, records: Mapping[str, FileRecord] | None, *, checksums: bool) -> None:
        self.root = root
        self.problems: list[Problem] = []
        self.closed: set[str | None] = set()
        """Files that are not opened, since they have a problem."""
        self._records = records
        self._checksums = checksums

    def report(self, name: str | None, message: str) -> None:
        """Note a problem of a file, or of the folder."""
        self.problems.append(Problem(None, name, message))

    @contextmanager
    def reporting(self, name: str | None) -> Iterator[None]:
        """Note the :class:`HubError` that ends the block."""
        try:
            yield
        except HubError as error:
            self.report(name, str(error))

    def has(self, part: str) -> bool:
        """Whether a part's files are there, on the card if there is one, and not behind a link."""
        paths = [self.root / name for name in PART_FILES[part]]
        listed = self._records is None or set(PART_FILES[part]) <= self._records.keys()
        return listed and all(path.is_file() and not path.parent.is_symlink() for path in paths)

    def read(self, name: str, most: int) -> bytes | None:
        """A file's content, of at most so many bytes; ``None`` where there is a problem with it."""
        if name in self.closed:
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


def _parsed(files: _Files, lang: str, digest: str, parts: Iterable[str], hidden_size: int) -> Language:
    """All of ``parts`` that are there and sound."""
    there = {part for part in parts if files.has(part)}
    contents: dict[str, bytes] = {}
    for path in sorted((files.root / "tokenizer").iterdir()) if "tokenizer" in there else ():
        name = f"tokenizer/{path.name}"
        if path.name not in TOKENIZER_FILES:
            files.report(name, f"expected {', '.join(TOKENIZER_FILES)} alone, found another file; delete it")
        elif (content := files.read(name, TOKENIZER_FILES[path.name])) is not None:
            contents[path.name] = content
    tokenizer, embeddings, scales = None, None, None
    if TOKENIZER_FILE in contents:
        with files.reporting(f"tokenizer/{TOKENIZER_FILE}"):
            tokenizer = parse_tokenizer(contents)
    if tokenizer is not None and "embeddings" in there:
        name, pieces = PART_FILES["embeddings"][0], len(tokenizer)
        if (content := files.read(name, MOST_HEADER + 4 * pieces * (hidden_size + 1))) is not None:
            with files.reporting(name):
                embeddings, scales = parse_embeddings(content, pieces, hidden_size)
    adapters: dict[str, Any] = {"la": {}, "se": {}, "cla": {}}
    for part in [part for part in adapters if part in there]:
        config_name, name = PART_FILES[part]
        config = files.read(config_name, MOST_JSON_BYTES)
        content = files.read(name, most_adapter_bytes(hidden_size))
        if config is not None and content is not None:
            with files.reporting(config_name):
                settings = json_object(config, Path(config_name).name)
                with files.reporting(name):
                    parse = parse_parallel if part == "cla" else parse_lora
                    adapters[part] = parse(content, settings, hidden_size)
    return Language(lang, digest, tokenizer, embeddings, scales, **adapters)
