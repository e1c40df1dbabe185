"""Whether a hub's files are what their cards say, whole, and fit for its base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modenc.errors import HubError, LanguageError
from modenc.hub.card import Card
from modenc.hub.files import files_below, sha256
from modenc.hub.layout import CARD_FILE, HubInfo, LanguageLayout
from modenc.hub.st_files import POOLING_FOLDER
from modenc.hub.weights import weight_faults
from modenc.languages import normalize_code

if TYPE_CHECKING:
    from modenc.hub.store import Hub

# Formats that run code when they are loaded; nothing here may be in one.
_PICKLES = frozenset({".bin", ".ckpt", ".joblib", ".npy", ".npz", ".pickle", ".pkl", ".pt", ".pth"})

_LISTED = 10


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a hub."""

    lang: str | None
    """Language it concerns; None for the hub as a whole."""
    file: str | None
    """File in the language's (or the hub's) folder; None for the folder as a whole."""
    message: str
    """What was expected and what was found."""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.lang, self.file) if part)
        return f"{where}: {self.message}" if where else self.message


def verify_hub(hub: Hub, lang: str | None = None, base_fingerprint: str | None = None) -> list[Problem]:
    """Recompute every checksum and check every part; an empty list means that all is well.

    Args:
        hub: The hub.
        lang: Check this language alone.
        base_fingerprint: Fingerprint of the base at hand, where it should be checked too.

    Raises:
        HubError: the hub lacks the language ``lang``.
    """
    problems: list[Problem] = []
    if base_fingerprint is not None and base_fingerprint != hub.info.base_fingerprint:
        message = f"expected the base {hub.info.base_fingerprint}, found {base_fingerprint}"
        problems.append(Problem(None, "hub.json", message))
    if lang is None:
        problems += _root_problems(hub.path, hub.languages())
    for code in hub.languages() if lang is None else [normalize_code(lang)]:
        layout = hub.layout(code)
        try:
            card = hub.card(code)
        except HubError as error:
            problems.append(Problem(code, CARD_FILE, str(error)))
            continue
        if card.lang != code:
            problems.append(Problem(code, CARD_FILE, f"expected lang {code!r}, found {card.lang!r}"))
        problems += _folder_problems(layout, card, hub.info, code, full=True)
    return problems


def check_language(hub: Hub, lang: str, full: bool = False) -> None:
    """Check one language before it is used: file sizes and headers; checksums too if ``full``.

    Raises:
        HubError: the hub lacks the language, or its modules cannot be used; all reasons are listed.
    """
    layout = hub.layout(lang)
    check_folder(layout, hub.card(lang), hub.info, full=full, shown_as=layout.root)


def check_folder(layout: LanguageLayout, card: Card, info: HubInfo, full: bool, shown_as: Path) -> None:
    """:func:`check_language` for a folder that need not be in a hub yet.

    Raises:
        HubError: the folder's modules cannot be used; ``shown_as`` is its name in the message.
    """
    problems = [str(problem) for problem in _folder_problems(layout, card, info, None, full)]
    if problems:
        rest = [f"and {len(problems) - _LISTED} more"] if len(problems) > _LISTED else []
        listed = "\n  ".join([*problems[:_LISTED], *rest])
        raise HubError(
            f"{shown_as}: the modules of {card.lang} cannot be used:\n  {listed}\n"
            "Install the language again, or train it again with its recipe"
        )


def _folder_problems(
    layout: LanguageLayout, card: Card, info: HubInfo, lang: str | None, full: bool
) -> Iterator[Problem]:
    if card.base_fingerprint != info.base_fingerprint:
        message = f"expected the base {info.base_fingerprint}, found {card.base_fingerprint}"
        yield Problem(lang, CARD_FILE, message)
    try:
        layout.present()
    except HubError as error:
        yield Problem(lang, None, str(error))
    yield from (Problem(lang, name, message) for name, message in _file_faults(layout.root, card, full))
    yield from (Problem(lang, name, message) for name, message in weight_faults(layout, info))


def _file_faults(root: Path, card: Card, full: bool) -> Iterator[tuple[str, str]]:
    """Differences between the files there are and those of the card."""
    found = dict(files_below(root))
    found.pop(CARD_FILE, None)
    for name in sorted(set(card.files) - set(found)):
        yield name, "expected by the card, not found"
    for name, path in found.items():
        if path.suffix.lower() in _PICKLES:
            yield name, "expected safetensors and JSON only, found a format that can run code; delete it"
        elif name not in card.files:
            yield name, "not in the card; delete it if it is yours"
        elif path.is_symlink() or not path.is_file():
            yield name, "expected a plain file, found a link or special file"
        elif (size := path.stat().st_size) != card.files[name]["bytes"]:
            yield name, f"expected {card.files[name]['bytes']} bytes, found {size}"
        elif full and (digest := sha256(path)) != card.files[name]["sha256"]:
            yield name, f"expected sha256 {card.files[name]['sha256']}, found {digest}"


def _root_problems(root: Path, languages: list[str]) -> Iterator[Problem]:
    """Things in the hub's own folder that do not belong there."""
    for path in sorted(root.iterdir()):
        name = path.name
        if name.startswith(".") or name in (POOLING_FOLDER, *languages):
            continue
        if path.is_dir():
            yield Problem(None, name, f"expected a language's folder, found one without {CARD_FILE}")
        elif path.suffix.lower() in _PICKLES:
            yield Problem(None, name, "found a format that can run code; delete it")
        elif name == "adapter_config.json":
            message = "sentence-transformers would take the hub for a peft adapter; delete it"
            yield Problem(None, name, message)
    for lang in languages:
        try:
            standard = normalize_code(lang)
        except LanguageError as error:
            yield Problem(lang, None, str(error))
            continue
        if standard != lang:
            yield Problem(lang, None, f"expected the folder {standard}; rename it")
