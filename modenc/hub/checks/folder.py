"""Checks of a language's folder: exactly the card's files, plain, of the listed sizes and known names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modenc.errors import HubError
from modenc.hub.card import FileRecord
from modenc.hub.checks.tokenizer import TOKENIZER_FILES
from modenc.hub.files import files_below
from modenc.hub.layout import CARD_FILE, PART_FILES, README_FILE

# Formats that can run code when they are loaded.
PICKLES = frozenset(
    {".bin", ".ckpt", ".joblib", ".npy", ".npz", ".pickle", ".pkl", ".pt", ".pth", ".py", ".so"}
)

_NAMES = frozenset(
    {name for names in PART_FILES.values() for name in names}
    | {f"tokenizer/{name}" for name in TOKENIZER_FILES}
    | {README_FILE}
)
_LISTED = 10
ADVICE = "Install the language again, or train it again with its recipe"


@dataclass(frozen=True)
class HubIssue:
    """One error that a check of a hub found."""

    file: str | None
    """File in the language's (or the hub's) folder; None for the folder as a whole."""
    message: str
    """Text with what was expected and what was found."""
    lang: str | None = None
    """Language; None for the hub as a whole, and if only one language is checked."""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.lang, self.file) if part)
        return f"{where}: {self.message}" if where else self.message


def raise_issues(issues: list[HubIssue], lang: str, folder: Path | str, advice: str = ADVICE) -> None:
    """Raise an error if there are issues.

    Raises:
        HubError: it names ``folder``, lists the first issues, and ends with ``advice``.
    """
    if issues:
        rest = [f"and {len(issues) - _LISTED} more"] if len(issues) > _LISTED else []
        listed = "\n  ".join([*map(str, issues[:_LISTED]), *rest])
        raise HubError(f"{folder}: the modules of {lang} cannot be used:\n  {listed}\n{advice}")


def listing_issues(root: Path, records: Mapping[str, FileRecord]) -> Iterator[HubIssue]:
    """Yield each difference between a language's folder and its card; no file is opened."""
    if root.is_symlink() or (root / CARD_FILE).is_symlink():
        yield HubIssue(CARD_FILE, "expected a plain folder with a plain file, found a link")
    try:
        found = dict(files_below(root))
    except HubError as error:
        yield HubIssue(CARD_FILE, str(error))
        return
    found.pop(CARD_FILE, None)
    for name in sorted(set(records) - set(found)):
        yield HubIssue(name, "expected by the card, not found")
    for name, path in found.items():
        if path.suffix.lower() in PICKLES:
            yield HubIssue(
                name, "expected safetensors and JSON only, found a format that can run code; delete it"
            )
        elif path.is_symlink() or not path.is_file():
            yield HubIssue(name, "expected a plain file, found a link or special file")
        elif name not in records:
            yield HubIssue(name, "not in the card; delete it if it is yours")
        elif name not in _NAMES:
            yield HubIssue(
                name, "expected the files of a tokenizer, of weights and of adapters alone; delete it"
            )
        elif (size := path.stat().st_size) != records[name]["bytes"]:
            yield HubIssue(name, f"expected {records[name]['bytes']} bytes, found {size}")
