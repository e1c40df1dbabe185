"""One picture of all pairs of languages: similarity by the bare base, and by the hub's modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
import numpy.typing as npt
from matplotlib import pyplot as plt
from stored_languages import Stored, StoredSystem, in_order

_TASKS = ("stsb", "kardes")
# Without the version of matplotlib that made it.
_METADATA = {"Software": None}


def write_picture(stored: Stored, path: Path) -> None:
    """Heat maps of base and modules (with alignment, else without) beside each other, as PNG.

    Equal results give equal bytes, with one version of matplotlib. Languages are those of pairs among
    the base's results; cells without results of the modules stay blank.
    """
    panels = {"bare base": stored.base}
    for name, title in (("align", "modules"), ("no_align", "modules, not aligned")):
        if name in stored.modules and len(panels) == 1:
            panels[title] = stored.modules[name]
    codes = in_order(
        {
            code
            for task in _TASKS
            for key in stored.base.keys(task, "spearman", 2)
            for code in key.rsplit(".", 1)[1].split("-")
        }
    )
    grids = {title: grid(system, codes) for title, system in panels.items()}
    low, high = np.nanpercentile(np.concatenate(list(grids.values())), [0, 100])
    side = 1.2 + 0.42 * len(codes)
    figure, axes = plt.subplots(1, len(grids), figsize=(side * len(grids), side + 0.4), squeeze=False)
    for panel, (title, values) in zip(axes[0], grids.items(), strict=True):
        draw(panel, values, codes, title, (low, high))
    figure.text(0.5, 0.01, _CAPTION, ha="center", fontsize=8)
    figure.tight_layout(rect=(0, 0.035, 1, 0.99))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, metadata=_METADATA)
    plt.close(figure)


_CAPTION = (
    "Spearman × 100. STS-B test, both directions' mean; az and kk, and their pairs with English and each "
    "other: Kardeş-NLU. Blank: no test set, or a language that the hub lacks."
)


def grid(system: StoredSystem, codes: list[str]) -> npt.NDArray[np.float64]:
    """Similarity [languages, languages], NaN where there is none; STS-B's where both tests have a pair."""
    values = np.full((len(codes), len(codes)), np.nan)
    for task in reversed(_TASKS):
        for size in (1, 2):
            for key in system.keys(task, "spearman", size):
                languages = key.rsplit(".", 1)[1].split("-")
                if set(languages) <= set(codes):
                    row, column = codes.index(languages[0]), codes.index(languages[-1])
                    values[row, column] = values[column, row] = system.value(key)
    return values


def draw(
    panel: Any, values: npt.NDArray[np.float64], codes: list[str], title: str, limits: tuple[float, float]
) -> None:
    """One heat map, its values in the cells."""
    low, high = limits
    panel.imshow(values, cmap="viridis", vmin=low, vmax=high)
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            dark = value < low + 0.6 * (high - low)
            color = "white" if dark else "black"
            panel.text(column, row, f"{value:.0f}", ha="center", va="center", color=color, fontsize=8)
    panel.set_xticks(range(len(codes)), codes)
    panel.set_yticks(range(len(codes)), codes)
    panel.tick_params(length=0)
    panel.set_title(title, fontsize=11)
