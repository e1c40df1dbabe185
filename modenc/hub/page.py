"""README pages of a language and of a hub, with front matter for Hugging Face."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from modenc.hub.card import MODULES, SCORES, Card, table_of
from modenc.hub.layout import README_FILE, STAGE_MODULES, HubInfo

HUB_PAGES = {"me5-small": "intfloat/multilingual-e5-small"}
"""Bundled base → Hugging Face id of the model that it was converted from."""

# Identifiers that the Hugging Face hub accepts as `license`.
_LICENSE_IDS = frozenset({
    "apache-2.0", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-3.0", "cc-by-4.0", "cc-by-nc-4.0",
    "cc-by-nc-sa-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "gpl-2.0", "gpl-3.0", "lgpl-2.1", "lgpl-3.0", "mit",
    "mpl-2.0", "odc-by", "unlicense",
})  # fmt: skip

_HUB_TAGS = ("sentence-transformers", "feature-extraction", "sentence-similarity", "multilingual", "adapters")
_DATA_COLUMNS = ("role", "source", "rows", "license", "translator")


def render(template: str, **values: Any) -> str:
    """Fill in a template of ``modenc/pages``."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("modenc", "pages"),
        autoescape=False,  # Markdown
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    found.filters["cell"] = lambda text: text.replace("|", "\\|").replace("\n", " ")
    found.filters["data_rows"] = lambda card: [
        [str(row.get(key, "")) for key in _DATA_COLUMNS] for row in card.data
    ]
    return found


def language_page(card: Card) -> str:
    """Write the text of a language's ``README.md``."""
    return render(
        "language.md.j2",
        card=card,
        metadata=front_matter(card, "modenc", "modular", "adapters"),
        stages=[STAGE_MODULES[stage].title if stage in STAGE_MODULES else stage for stage in card.stages],
        compared=table_of(card.comparison) or [()],
    )


def _license(licenses: Iterable[str]) -> str | None:
    """Return the front matter's license: ``other`` for several, and for one that the site does not know."""
    stated = {re.sub(r"\s+", "-", name.strip().lower()) for name in licenses}
    if not stated:
        return None
    return stated.pop() if len(stated) == 1 and stated <= _LICENSE_IDS else "other"


def base_page(base_id: str) -> str | None:
    """Return the Hugging Face id of a base; None for a folder."""
    page = HUB_PAGES.get(base_id, base_id.partition("@")[0])
    return page if re.fullmatch(r"\w[\w.-]*/[\w.-]+", page) else None


def front_matter(card: Card, library: str, *tags: str) -> str:
    """Return the YAML of a page's front matter for the Hugging Face hub.

    ``library`` opens the folder; ``tags`` are added to those of all sentence encoders.
    """
    from huggingface_hub import ModelCardData

    return ModelCardData(
        language=card.lang,
        library_name=library,
        license=_license(card.licenses),
        base_model=base_page(card.base_id),
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", *tags],
    ).to_yaml()


def hub_page(name: str, info: HubInfo, cards: Sequence[Card]) -> str:
    """Write the ``README.md`` of the repository ``name``, whose hub has these ``cards``."""
    from huggingface_hub import ModelCardData

    base, codes = base_page(info.base_id), [card.lang for card in cards]
    data = ModelCardData(
        language=codes,
        license=_license(license for card in cards for license in card.licenses),
        library_name="modenc",
        base_model=base,
        base_model_relation="adapter" if base else None,
        tags=list(_HUB_TAGS),
        pipeline_tag="sentence-similarity",
    )
    return render(
        "hub.md.j2",
        metadata=data.to_yaml(),
        name=name,
        info=info,
        cards=cards,
        example=next((code for code in codes if code != info.pivot), info.pivot),
        languages=[_row(card) for card in cards],
        licenses=[(card.name, "; ".join(card.licenses) or "not stated") for card in cards],
    )


def _row(card: Card) -> tuple[str, ...]:
    metrics = card.comparison.get(MODULES, {})
    scores = ", ".join(f"{metric} {metrics[metric]:.1f}" for metric in SCORES if metric in metrics)
    page = f"[{card.name}]({PurePosixPath(card.lang, card.version, README_FILE)})"
    return page, card.lang, " ".join(card.parts), f"{card.nbytes / 1e6:.1f}", scores
