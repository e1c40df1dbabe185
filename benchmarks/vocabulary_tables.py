"""RESULTS.md's section on vocabularies of a language's own, from what ``vocabularies.py`` stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown_rows import head, row

FOLDER = "vocabularies"
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
        "",
    ]


def _compared(stored: Stored) -> Iterator[str]:
    headings = ("vocabulary", "tokens", "saved %", "speed", "within", "shipped", "across", "shipped", "ships")
    yield from head(headings)
    for (method, lang), figures in stored.items():
        own, shipped = figures[method], figures["shipped"]
        saved = 100 * (1 - own["tokens"] / figures["base"]["tokens"])
        middle, low, high = figures["speed_ratio"]
        losses = [shipped[name] - own[name] for name in ("within", "across")]
        kept = round(max(losses), 1) <= LARGEST_LOSS
        good = kept and round(saved, 1) >= LEAST_SAVED and low > 1
        cells = [f"{own['tokens']:.1f}", f"{saved:.1f}", f"{middle:.2f} [{low:.2f}, {high:.2f}]"]
        for name in ("within", "across"):
            cells += [f"{own[name]:.1f}", f"{shipped[name]:.1f}"]
        yield row([f"{lang}, {method}", *cells, "yes" if good else "no"])


def _learned(stored: Stored) -> Iterator[str]:
    """Similarity within the language on the training's own development rows, by rows read."""
    points = {key: _curve(figures) for key, figures in stored.items()}
    steps = sorted({rows for curve in points.values() for rows in curve})
    yield from head(["within, by sentences read", *(f"{rows:,}" for rows in steps)])
    for (method, lang), curve in points.items():
        cells = [f"{curve[rows]:.1f}" if rows in curve else "" for rows in steps]
        yield row([f"{lang}, {method}", *cells])


def _curve(figures: dict[str, Any]) -> dict[int, float]:
    """Sentences read → similarity."""
    last = max((point["step"] for point in figures["learned"]), default=0)
    # A scored pair has two.
    sentences = sum(
        part["rows_seen"] * (2 if name == "scored" else 1) for name, part in figures["sets"].items()
    )
    rows = {0: figures["dev_before"] or {}} | {
        round(sentences * point["step"] / last): point for point in figures["learned"] if point["step"]
    }
    return {count: point["sts"] for count, point in rows.items() if "sts" in point}
