"""What modules and folders must be before they become a language of a hub, and a hub."""

from __future__ import annotations

from pathlib import Path

from modenc.errors import HubError
from modenc.hub.card import Card
from modenc.hub.files import read_text
from modenc.hub.layout import CARD_FILE, PART_FILES, README_FILE, HubInfo, LanguageLayout
from modenc.hub.st_files import CONFIG_FILE, MODULES_FILE, POOLING_FOLDER
from modenc.languages import normalize_code

# Part → the stage of training that makes it.
_STAGE_OF = {
    "tokenizer": "vocabulary",
    "embeddings": "vocabulary",
    "la": "language_adaptation",
    "se": "sentence_encoding",
    "cla": "alignment",
}


def check_base(card: Card, info: HubInfo) -> None:
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
            f"{', '.join(lost)}, which the hub has, and no record of {stages}; the hub is as it was; "
            f"train {card.lang} from the start, or remove {card.lang} from the hub first"
        )


def refuse_other_files(root: Path, source: Path | None) -> None:
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
    try:
        return read_text(folder / CARD_FILE) == read_text(source / folder.name / CARD_FILE)
    except HubError:
        return False
