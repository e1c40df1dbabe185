"""A language's card as a README page, with front matter for the Hugging Face hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from modenc.hub.card import Card
from modenc.hub.comparison import table_of

HUB_PAGES = {"me5-small": "intfloat/multilingual-e5-small"}
"""Bundled base → Hugging Face id of the model that it was converted from."""

# Identifiers the Hugging Face hub accepts as `license`; others are given as `license_name`.
_LICENSE_IDS = frozenset({
    "apache-2.0", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-3.0", "cc-by-4.0", "cc-by-nc-4.0",
    "cc-by-nc-sa-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "gpl-2.0", "gpl-3.0", "lgpl-2.1", "lgpl-3.0", "mit",
    "mpl-2.0", "odc-by", "unlicense",
})  # fmt: skip

_STAGES = {
    "vocabulary": "vocabulary",
    "language_adaptation": "language adaptation (LA)",
    "sentence_encoding": "sentence encoding (SE)",
    "alignment": "cross-lingual alignment (CLA)",
}
_DATA_COLUMNS = ("role", "source", "rows", "license", "translator")


def language_page(card: Card) -> str:
    """Write the text of a language's ``README.md``."""
    lines = [*front_matter(card, "modenc", "modular", "adapters"), "", *_body(card), *data_section(card)]
    return "\n".join(lines) + "\n"


def license_fields(licenses: Iterable[str]) -> dict[str, str]:
    """Return the front matter of licenses: ``license``, and ``license_name`` if the site does not know it."""
    stated = set(licenses)
    if not stated:
        return {}
    (only,) = stated if len(stated) == 1 else ("mixed",)
    known = re.sub(r"\s+", "-", only.strip().lower())
    if known in _LICENSE_IDS:
        return {"license": known}
    name = re.sub(r"[^a-z0-9.]+", "-", only.lower()).strip("-")
    return {"license": "other", "license_name": name or "other"}


def base_page(base_id: str) -> str | None:
    """Return the Hugging Face id of a base; None for a folder."""
    page = HUB_PAGES.get(base_id, base_id.partition("@")[0])
    return page if re.fullmatch(r"\w[\w.-]*/[\w.-]+", page) else None


def front_matter(card: Card, library: str, *tags: str) -> list[str]:
    """Return the lines of the front matter for the Hugging Face hub.

    Args:
        card: the language's card.
        library: name of the library that opens the folder.
        *tags: tags in addition to those of all sentence encoders.
    """
    # A JSON string is also a YAML one, so no YAML writer is needed.
    lines = ["---", f"language: {json.dumps(card.lang)}", f"library_name: {library}"]
    fields = license_fields(card.licenses)
    lines += [f"{key}: {json.dumps(value)}" for key, value in fields.items()]
    if base := base_page(card.base_id):
        lines.append(f"base_model: {base}")
    lines += ["pipeline_tag: sentence-similarity", "tags:"]
    lines += [f"- {tag}" for tag in ("sentence-transformers", "sentence-similarity", *tags)]
    return [*lines, "---"]


def _body(card: Card) -> list[str]:
    compared = table_of(card.comparison)
    stages = ", ".join(_STAGES.get(stage, stage) for stage in card.stages) or "none"
    return [
        f"# {card.name} ({card.lang}) sentence-encoding modules",
        "",
        f"Modules for `{card.base_id}` that turn {card.name} texts into sentence vectors.",
        "",
        f"- Stages: {stages}",
        f"- License: {', '.join(card.licenses) or 'not stated'}",
        f"- Base fingerprint: `{card.base_fingerprint}`",
        f"- Recipe: `{card.recipe}`, seed {card.seed}, trained on {card.created}"
        if card.recipe
        else f"- Trained by others, imported on {card.created}",
        f"- Versions: {', '.join(f'{name} {version}' for name, version in card.versions.items())}",
        "",
        "## Use",
        "",
        "```bash",
        f"modenc hub install path/to/{card.lang} --hub path/to/hub",
        "```",
        "",
        "```python",
        "from modenc import ModularEncoder",
        "",
        'encoder = ModularEncoder("path/to/hub")',
        f'vectors = encoder.encode(["..."], lang="{card.lang}")',
        "```",
        "",
        *section("Compared with the base alone", compared[0] if compared else (), compared[1:]),
        *section(
            "Scores", ("metric", "score"), [(key, f"{score:.2f}") for key, score in card.scores.items()]
        ),
    ]


def data_section(card: Card) -> list[str]:
    """Return the lines of a section with the sources of a language's data."""
    rows = [[str(row.get(key, "")) for key in _DATA_COLUMNS] for row in card.data]
    return section("Data", _DATA_COLUMNS, rows)


def section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a section with a Markdown table; none without rows."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    if not cells:
        return []
    table = [header, ["---"] * len(header), *cells]
    return [f"## {title}", "", *(f"| {' | '.join(row)} |" for row in table), ""]
