"""RESULTS.md's section on vocabularies of a language's own, from what ``vocabularies.py`` stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown_rows import head, row

FOLDER = "vocabularies"
BASE_PIECES = "base_pieces"
"""Key of the figures that vocabularies are compared with."""

_CURVES = {
    "sts": "learning from the pivot: within",
    "teacher_cosine": "learning the base's vectors: mean cosine x 100",
}
LARGEST_LOSS = 0.3
LEAST_SAVED = 15.0
"""Conditions for shipping a vocabulary: most points lost within and across, least % of tokens saved.

It must be faster in three of four runs, too.
"""

Stored = dict[tuple[str, str], dict[str, Any]]


def vocabulary_section(results: Path) -> list[str]:
    """Write the section's lines; none if nothing is stored."""
    stored: Stored = {}
    for path in sorted((results / FOLDER).glob("*.json")):
        method, lang = path.stem.split(".")
        stored[method, lang] = json.loads(path.read_text(encoding="utf-8"))
    if not stored:
        return []
    text = (results.parent / "vocabularies.md").read_text(encoding="utf-8").rstrip()
    return [
        "## Vocabularies of the languages' own",
        "",
        *text.splitlines(),
        "",
        *_compared(stored),
        "",
        *_learned(stored),
    ]


def _compared(stored: Stored) -> Iterator[str]:
    headings = (
        "vocabulary",
        "learned from",
        "tokens",
        "saved %",
        "speed",
        "within",
        "base's pieces",
        "across",
        "base's pieces",
        "ships",
    )
    yield from head(headings)
    for (method, lang), figures in stored.items():
        own, compared = figures[method], figures[BASE_PIECES]
        saved = 100 * (1 - own["tokens"] / figures["base"]["tokens"])
        middle, low, high = figures["speed_ratio"]
        losses = [compared[name] - own[name] for name in ("within", "across")]
        kept = round(max(losses), 1) <= LARGEST_LOSS
        good = kept and round(saved, 1) >= LEAST_SAVED and low > 1
        distilled = any("teacher_cosine" in point for point in figures["learned"])
        cells = [
            "the base" if distilled else "the pivot",
            f"{own['tokens']:.1f}",
            f"{saved:.1f}",
            f"{middle:.2f} [{low:.2f}, {high:.2f}]",
        ]
        for name in ("within", "across"):
            cells += [f"{own[name]:.1f}", f"{compared[name]:.1f}"]
        yield row([f"{lang}, {method}", *cells, "yes" if good else "no"])


def _learned(stored: Stored) -> Iterator[str]:
    """Write what stage 2's own development rows show, by sentences read, a table for each measure."""
    for name, heading in _CURVES.items():
        points = {key: curve for key, figures in stored.items() if (curve := _curve(figures, name))}
        if not points:
            continue
        counts = sorted({count for curve in points.values() for count in curve})
        yield from head([f"{heading}, by sentences read", *(f"{count:,}" for count in counts)])
        for (method, lang), curve in points.items():
            cells = [f"{curve[count]:.1f}" if count in curve else "" for count in counts]
            yield row([f"{lang}, {method}", *cells])
        yield ""


def _curve(figures: dict[str, Any], name: str) -> dict[int, float]:
    """Sentences read → a measure."""
    last = max((point["step"] for point in figures["learned"]), default=0)
    # A scored pair has two.
    sentences = sum(
        part["rows_seen"] * (2 if kind == "scored" else 1) for kind, part in figures["sets"].items()
    )
    rows = {0: figures["dev_before"] or {}} | {
        round(sentences * point["step"] / last): point for point in figures["learned"] if point["step"]
    }
    return {count: point[name] for count, point in rows.items() if name in point}
