"""PERFORMANCE.md from the stored measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure import Row


def report(stored_in: Path, sections: Mapping[str, str], notes: Path) -> str:
    """Make the page.

    Args:
        stored_in: folder of SECTION.json files, and of the picture that is drawn.
        sections: name → what it measures, in the order of the page.
        notes: a page to end with.
    """
    parts = [
        "# Performance\n",
        "Made by `make bench DATA=...`. A ratio is the median over pairs of runs in one process, ours and",
        "the peer's in turn; the quartiles are in brackets. Above 1 ours is better, unless the row says",
        'otherwise. "of peak" is the number of operations per second in the base\'s linear layers, as a',
        "share of the fastest float32 product of a large matrix in the same run.",
        "",
        '"Limited to AVX2" is the same newer processor, whose libraries use nothing newer',
        "(`make bench ISA=avx2`). It stands in for a processor without newer instructions.",
    ]
    points: list[Row] = []
    for name, doc in sections.items():
        for path in (stored_in / f"{name}.json", *sorted(stored_in.glob(f"*/{name}.json"))):
            if not path.is_file():
                continue
            limit = "" if path.parent == stored_in else f", limited to {path.parent.name.upper()}"
            stored = json.loads(path.read_text())
            points += [row for row in stored["rows"] if "size" in row]
            title = f"## {name.replace('_', ' ').capitalize()}{limit}"
            parts += ["", title, "", doc, "", _table(stored["rows"]), ""]
            parts.append("; ".join(f"{key} {value}" for key, value in stored["where"].items()))
        if name == "growth" and points:
            _draw(points, stored_in / "growth.png")
            parts += ["", "![time against size](performance/growth.png)"]
    return "\n".join([*parts, "", notes.read_text().rstrip()]) + "\n"


def _draw(rows: list[Row], path: Path) -> None:
    """Seconds against size, a panel for each thing that grows."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(row["what"] for row in rows))
    figure, axes = plt.subplots(1, len(kinds), figsize=(3.2 * len(kinds), 2.8), squeeze=False)
    for axis, kind in zip(axes[0], kinds, strict=True):
        own = [row for row in rows if row["what"] == kind]
        axis.loglog([row["size"] for row in own], [row["seconds"] for row in own], marker="o")
        axis.set(xlabel=kind, ylabel="seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _table(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row if key != "spread"))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for row in rows:
        cells = [_cell(row.get(key)) for key in columns]
        if "spread" in row:
            low, high = row["spread"]
            cells[columns.index("ratio")] += f" [{low:.2f}, {high:.2f}]"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if value and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.2f}"
