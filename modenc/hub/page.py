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

# Identifiers the Hugging Face hub accepts as `license`; others are given as `license_name`.
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
        scores=[(key, f"{score:.2f}") for key, score in card.scores.items()],
    )


def license_fields(licenses: Iterable[str]) -> dict[str, Any]:
    """Return the front matter of licenses: ``license``, and ``license_name`` if the site does not know it."""
    stated = set(licenses)
    if not stated:
        return {}
    only = stated.pop() if len(stated) == 1 else "mixed"
    known = re.sub(r"\s+", "-", only.strip().lower())
    if known in _LICENSE_IDS:
        return {"license": known}
    name = re.sub(r"[^a-z0-9.]+", "-", only.lower()).strip("-")
    return {"license": "other", "license_name": name or "other"}


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
        **license_fields(card.licenses),
        base_model=base_page(card.base_id),
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", *tags],
    ).to_yaml()


def hub_page(name: str, info: HubInfo, cards: Sequence[Card], text: str | None = None) -> str:
    """Write the ``README.md`` of the repository ``name``, whose hub has these ``cards``.

    The text of the publisher's own page ``text``, and its additional front matter, are kept.
    """
    from huggingface_hub import ModelCard, ModelCardData

    base = base_page(info.base_id)
    licenses = license_fields(license for card in cards for license in card.licenses)
    if "license_name" in licenses:
        licenses["license_link"] = f"https://huggingface.co/{name}#licenses"
    data = ModelCardData(
        language=[card.lang for card in cards],
        **licenses,
        library_name="modenc",
        base_model=base,
        base_model_relation="adapter" if base else None,
        tags=list(_HUB_TAGS),
        pipeline_tag="sentence-similarity",
    )
    if text is None:
        return f"---\n{data.to_yaml()}\n---\n\n{_text(name, info, cards)}"
    own = ModelCard(text, ignore_metadata_errors=True)
    front_matter: dict[str, Any] = own.data.to_dict() | data.to_dict()  # type: ignore[no-untyped-call]
    merged = ModelCardData(**front_matter, ignore_metadata_errors=True)
    return f"---\n{merged.to_yaml()}\n---\n{own.text}"


def _text(name: str, info: HubInfo, cards: Sequence[Card]) -> str:
    codes = [card.lang for card in cards]
    return render(
        "hub.md.j2",
        name=name,
        info=info,
        cards=cards,
        example=next((code for code in codes if code != info.pivot), info.pivot),
        languages=[_row(card) for card in cards],
        licenses=[(card.name, "; ".join(card.licenses) or "not stated") for card in cards],
    )


def _row(card: Card) -> tuple[str, ...]:
    metrics = card.comparison.get(MODULES) or card.last_scores()
    scores = ", ".join(f"{metric} {metrics[metric]:.1f}" for metric in SCORES if metric in metrics)
    page = f"[{card.name}]({PurePosixPath(card.lang, card.version, README_FILE)})"
    return page, card.lang, " ".join(card.parts), f"{card.nbytes / 1e6:.1f}", scores
