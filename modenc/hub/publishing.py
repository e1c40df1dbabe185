"""What modules have to be before they become a language of a hub."""

from __future__ import annotations

from modenc.errors import HubError
from modenc.hub.card import Card
from modenc.hub.layout import PART_FILES, HubInfo, LanguageLayout
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
