"""Stored runs, and cells of tables: means over seeds, differences and their p."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from markdown_rows import row
from variants import VARIANTS, Variant

from modenc.evaluation.results import SystemResults, load_results
from modenc.evaluation.significance import RESAMPLED_METRICS, Floats, p_value, resample_metric

Stored = Sequence[tuple[Variant, list[SystemResults]]]

APART = ("tatoeba",)
"""Test sets whose items differ between languages; rows of all other sets are translations of each other."""

_SHARES = ("retrieval_accuracy", "mining_f1", "mining_f1_cosine")
_CHANCE = 0.05


def stored_runs(folder: Path, group: str) -> Iterator[tuple[Variant, list[SystemResults]]]:
    """Yield each variant of a group that has stored runs, with these, in order."""
    for variant in VARIANTS:
        if variant.group != group:
            continue
        runs = [load_results(folder / variant.name / f"seed-{seed}") for seed in seeds(folder, variant)]
        if runs:
            yield variant, runs


def seeds(folder: Path, variant: Variant) -> list[int]:
    """List the seeds of a variant's stored runs, ascending."""
    paths = (folder / variant.name).glob("seed-*/results.json")
    return sorted(int(path.parent.name.removeprefix("seed-")) for path in paths)


def mean_of(run: SystemResults, keys: Sequence[str]) -> float:
    """Return the mean of a run's results; NaN if one was not measured."""
    parts = [run.find(key) for key in keys]
    return float(np.mean([np.nan if part is None else part.value for part in parts]))


def mean_cell(runs: Sequence[SystemResults], keys: Sequence[str], digits: int) -> str:
    """Format the mean of results over seeds, ± the standard deviation; a dash if one is missing."""
    values = [mean_of(run, keys) for run in runs]
    if np.isnan(values).any():
        return "–"
    text = f"{np.mean(values):.{digits}f}"
    return text + (f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "")


def difference_p(run: SystemResults, other: SystemResults, keys: Sequence[str]) -> float:
    """Return the two-sided p of the difference between two runs' means over the same test sets.

    Both are resampled on the same items, see :func:`resampled`. NaN if no set has stored items.
    """
    known = [
        key
        for key in keys
        if key.split(".")[1] in RESAMPLED_METRICS and key in run.items and key in other.items
    ]
    if not known:
        return float("nan")
    return p_value(np.mean([resampled(run, key) - resampled(other, key) for key in known], axis=0))


def resampled(run: SystemResults, key: str) -> Floats:
    """Compute a result's values [samples] on resampled items.

    Rows of sets of the same length are translations and drawn together, but for those of :data:`APART`.
    """
    task, metric, languages = key.split(".")
    seed = zlib.crc32(languages.encode()) if task in APART else run.seed
    return resample_metric(metric, run.items[key], seed)


def unpaired_p(run: SystemResults, other: SystemResults, keys: Sequence[str]) -> float:
    """Return the two-sided p of the difference of two mean percentages, as if of different test items.

    It is for mining F1, whose items are not stored; items in common would make it smaller. It uses the normal
    distribution, with the deviation of a share among as many items. NaN if a result is no percentage.
    """
    figures = [figure for key in keys for figure in (run.find(key), other.find(key)) if figure is not None]
    if any(key.split(".")[1] not in _SHARES for key in keys) or len(figures) < 2 * len(keys):
        return float("nan")
    variance = sum(figure.value * (100 - figure.value) / figure.n for figure in figures) / len(keys) ** 2
    difference = abs(mean_of(run, keys) - mean_of(other, keys))
    return math.erfc(difference / math.sqrt(2 * variance)) if variance else float("nan")


def compared(
    high: Sequence[SystemResults], low: Sequence[SystemResults], keys: Sequence[str], theirs: float | None
) -> list[str]:
    """Make cells: the difference of two rows, its p if known, and whether it agrees with the paper.

    The difference is that of the two means over seeds, as the tables have them; p is of the first seeds.
    """
    means = [np.mean([mean_of(run, keys) for run in runs]) for runs in (high, low)]
    ours = float(means[0] - means[1])
    if np.isnan(ours):
        return ["", "", "not measured"]
    p = difference_p(high[0], low[0], keys)
    if np.isnan(p):
        p = unpaired_p(high[0], low[0], keys)
    verdict = "" if theirs is None else "agrees" if ours * theirs > 0 else "does not agree"
    if p > _CHANCE:
        verdict = f"{verdict}, within chance".removeprefix(", ")
    return [f"{ours:+.1f}", "" if np.isnan(p) else f"{p:.3f}", verdict]


def interval_rows(stored: Stored, keys: Sequence[str]) -> Iterator[str]:
    """Make a table of results with their 95 % bootstrap intervals, first seed."""
    heads = [
        f"{key.split('.')[0]} {key.rsplit('.', 1)[1]}" if "xsim" in key else key.rsplit(".", 1)[1]
        for key in keys
    ]
    yield row(["variant", *heads])
    yield row(["---", *["---:"] * len(keys)])
    for variant, runs in stored:
        cells = [variant.name]
        for key in keys:
            found = runs[0].find(key)
            cells.append(f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]" if found else "")
        yield row(cells)
