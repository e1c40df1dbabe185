"""README of an exported model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modenc.hub.card import Card
from modenc.hub.layout import HubInfo
from modenc.hub.page import base_page, front_matter, render


@dataclass(frozen=True)
class Exported:
    """An exported model."""

    card: Card
    """Card of the language."""
    info: HubInfo
    """Content of its hub's ``hub.json``."""
    to: str
    """Format."""
    int8: bool
    aligned: bool
    """Whether it includes the alignment adapter."""
    max_length: int
    """Number of tokens at which texts are cut."""
    agreement: str
    """Text on how well its vectors agree with modenc's."""


def model_page(exported: Exported) -> str:
    """Write the text of the README."""
    card, info = exported.card, exported.info
    page = base_page(info.base_id)
    # A folder's path would reveal names on this machine.
    own = info.base_id if page else Path(info.base_id).name
    metadata = front_matter(card, "sentence-transformers", "feature-extraction")
    return render(
        "model.md.j2",
        exported=exported,
        card=card,
        info=info,
        base=page or own,
        base_name=own,
        metadata=metadata,
    )
