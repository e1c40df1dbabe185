"""Which files a language's folder holds: those of its card, plain, of their sizes and of no other kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modenc.errors import HubError
from modenc.hub.card import FileRecord
from modenc.hub.checks.tokenizer import TOKENIZER_FILES
from modenc.hub.files import files_below
from modenc.hub.layout import CARD_FILE, PART_FILES, README_FILE

# Formats that run code when they are loaded; nothing here may be in one.
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
class Problem:
    """One thing that is wrong in a hub."""

    lang: str | None
    """Language it concerns; None for the hub as a whole, and where one language alone is spoken of."""
    file: str | None
    """File in the language's (or the hub's) folder; None for the folder as a whole."""
    message: str
    """What was expected and what was found."""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.lang, self.file) if part)
        return f"{where}: {self.message}" if where else self.message


def refuse(problems: list[Problem], lang: str, folder: Path | str, advice: str = ADVICE) -> None:
    """Raise an error if there are problems.

    Raises:
        HubError: it lists the first of them, and ends with ``advice``; ``folder`` is the name of the
            language's folder in it.
    """
    if problems:
        rest = [f"and {len(problems) - _LISTED} more"] if len(problems) > _LISTED else []
        listed = "\n  ".join([*map(str, problems[:_LISTED]), *rest])
        raise HubError(f"{folder}: the modules of {lang} cannot be used:\n  {listed}\n{advice}")


def listing_faults(root: Path, records: Mapping[str, FileRecord]) -> Iterator[tuple[str, str]]:
    """File and message for each difference between a language's folder and its card; nothing is opened."""
    if root.is_symlink() or (root / CARD_FILE).is_symlink():
        yield CARD_FILE, "expected a plain folder with a plain file, found a link"
    try:
        found = dict(files_below(root))
    except HubError as error:
        yield CARD_FILE, str(error)
        return
    found.pop(CARD_FILE, None)
    for name in sorted(set(records) - set(found)):
        yield name, "expected by the card, not found"
    for name, path in found.items():
        if path.suffix.lower() in PICKLES:
            yield name, "expected safetensors and JSON only, found a format that can run code; delete it"
        elif path.is_symlink() or not path.is_file():
            yield name, "expected a plain file, found a link or special file"
        elif name not in records:
            yield name, "not in the card; delete it if it is yours"
        elif name not in _NAMES:
            yield name, "expected the files of a tokenizer, of weights and of adapters alone; delete it"
        elif (size := path.stat().st_size) != records[name]["bytes"]:
            yield name, f"expected {records[name]['bytes']} bytes, found {size}"
