"""Whether a folder of modules is what its card says, whole, and fit for a base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modenc.errors import HubError
from modenc.hub.card import Card
from modenc.hub.files import files_below, sha256
from modenc.hub.layout import CARD_FILE, PART_FILES, README_FILE, HubInfo, LanguageLayout
from modenc.hub.tokenizer_faults import TOKENIZER_FILES
from modenc.hub.weights import number_faults, weight_faults

# Formats that run code when they are loaded; nothing here may be in one.
PICKLES = frozenset(
    {".bin", ".ckpt", ".joblib", ".npy", ".npz", ".pickle", ".pkl", ".pt", ".pth", ".py", ".so"}
)

# A language's files; more than any base's vocabulary takes.
_MOST_BYTES = 1 << 33
_NAMES = frozenset(
    {name for names in PART_FILES.values() for name in names}
    | {f"tokenizer/{name}" for name in TOKENIZER_FILES}
    | {README_FILE}
)
_MOST_README_BYTES = 1 << 20

# Part → the stage of training that makes it.
_STAGE_OF = {
    "tokenizer": "vocabulary",
    "embeddings": "vocabulary",
    "la": "language_adaptation",
    "se": "sentence_encoding",
    "cla": "alignment",
}
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


def check_folder(
    layout: LanguageLayout, card: Card, info: HubInfo, lang: str, full: bool, shown_as: Path
) -> None:
    """Check a folder of modules of ``lang`` before it is used; it need not be in a hub yet.

    Raises:
        HubError: the folder's modules cannot be used; ``shown_as`` is its name in the message.
    """
    faults = folder_faults(layout, card, info, lang, full)
    problems = [str(Problem(None, name, message)) for name, message in faults]
    if problems:
        rest = [f"and {len(problems) - _LISTED} more"] if len(problems) > _LISTED else []
        listed = "\n  ".join([*problems[:_LISTED], *rest])
        raise HubError(
            f"{shown_as}: the modules of {lang} cannot be used:\n  {listed}\n"
            "Install the language again, or train it again with its recipe"
        )


def check_nothing_lost(layout: LanguageLayout, card: Card, earlier: Card | None) -> None:
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
            f"{', '.join(lost)}, which the hub has, and no record of {stages}; the hub is as it was; train "
            f"{card.lang} from the start, or remove {card.lang} from the hub first"
        )


def folder_faults(
    layout: LanguageLayout, card: Card, info: HubInfo, lang: str, full: bool
) -> Iterator[tuple[str | None, str]]:
    """(file, message) for every fault: of language, base, parts, files, shapes; if ``full``, of every byte.

    Those last, where all else is well: only of files of fitting shapes is it known that reading them ends.
    """
    found = 0
    for fault in _outer_faults(layout, card, info, lang):
        found += 1
        yield fault
    if full and not found:
        yield from _checksum_faults(layout.root, card)
        yield from number_faults(layout)


def _outer_faults(
    layout: LanguageLayout, card: Card, info: HubInfo, lang: str
) -> Iterator[tuple[str | None, str]]:
    if card.lang != lang:
        yield CARD_FILE, f"expected the modules of {lang!r}, found those of {card.lang!r}"
    if card.base_fingerprint != info.base_fingerprint:
        yield CARD_FILE, f"expected the base {info.base_fingerprint}, found {card.base_fingerprint}"
    try:
        layout.present()
    except HubError as error:
        yield None, str(error)
    yield from _file_faults(layout.root, card)
    yield from weight_faults(layout, info)


def _file_faults(root: Path, card: Card) -> Iterator[tuple[str, str]]:
    """Differences between the files there are and those of the card."""
    if root.is_symlink() or (root / CARD_FILE).is_symlink():
        yield CARD_FILE, "expected a plain folder with a plain file, found a link"
    try:
        found = dict(files_below(root))
    except HubError as error:
        yield CARD_FILE, str(error)
        return
    found.pop(CARD_FILE, None)
    for name in sorted(set(card.files) - set(found)):
        yield name, "expected by the card, not found"
    for name, path in found.items():
        if path.suffix.lower() in PICKLES:
            yield name, "expected safetensors and JSON only, found a format that can run code; delete it"
        elif name not in card.files:
            yield name, "not in the card; delete it if it is yours"
        elif name not in _NAMES:
            yield name, "expected the files of a tokenizer, of weights and of adapters alone; delete it"
        elif path.is_symlink() or not path.is_file():
            yield name, "expected a plain file, found a link or special file"
        elif (size := path.stat().st_size) != card.files[name]["bytes"]:
            yield name, f"expected {card.files[name]['bytes']} bytes, found {size}"
        elif size > (most := _MOST_README_BYTES if name == README_FILE else _MOST_BYTES):
            yield name, f"expected at most {most >> 20} MB, found {size} bytes"


def _checksum_faults(root: Path, card: Card) -> Iterator[tuple[str, str]]:
    for name, record in sorted(card.files.items()):
        if (digest := sha256(root / name)) != record["sha256"]:
            yield name, f"expected sha256 {record['sha256']}, found {digest}"
