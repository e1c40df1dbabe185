"""Results of evaluation as files and as Markdown tables."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from modenc.errors import DataError
from modenc.evaluation.significance import p_value, resample_metric
from modenc.evaluation.sts import Items
from modenc.storage import write_atomically

RESULTS_FILE = "results.json"
_ITEMS_FILE = "items.npz"
_FACTS = ("name", "suite", "seed", "seconds")
_PACKAGES = ("modenc", "torch", "transformers", "sentence-transformers", "scikit-learn")


@dataclass(frozen=True)
class Result:
    """One metric's value."""

    task: str
    metric: str
    languages: tuple[str, ...]
    """One language, the two of a pair, or all that are compared."""
    value: float
    n: int
    """Number of items it was measured on."""
    low: float | None = None
    """Lower end of the bootstrap 95 % interval; ``None`` for metrics without one."""
    high: float | None = None

    @property
    def key(self) -> str:
        """Key of the value in files: ``task.metric.en-kk``."""
        return f"{self.task}.{self.metric}.{'-'.join(self.languages)}"


@dataclass(frozen=True)
class SystemResults:
    """Results of one system, as they are stored."""

    name: str
    suite: str
    seed: int
    seconds: float
    about: dict[str, Any]
    """Description of the system, and :func:`environment`."""
    results: Sequence[Result]
    items: dict[str, Items]
    """:attr:`Result.key` → rows [n, k], for paired tests."""
    skipped: Sequence[str] = ()
    """Test sets that were not found."""

    def find(self, key: str) -> Result | None:
        """Return the result with this :attr:`Result.key`."""
        return next((result for result in self.results if result.key == key), None)


def environment() -> dict[str, Any]:
    """Return the versions, hardware and date, which are needed to reproduce results."""
    return {
        "versions": {package: version(package) for package in _PACKAGES},
        "hardware": {
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "system": platform.system(),
        },
        "created": datetime.now(UTC).date().isoformat(),
    }


def save_results(results: SystemResults, folder: Path) -> None:
    """Write ``results.json`` and, for paired tests, ``items.npz``."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / _ITEMS_FILE, **results.items)  # type: ignore[arg-type]
    content = {
        **{key: getattr(results, key) for key in _FACTS},
        **results.about,
        "skipped": list(results.skipped),
        "results": [asdict(result) for result in results.results],
    }
    write_atomically(folder / RESULTS_FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def load_results(folder: Path) -> SystemResults:
    """Read the files of :func:`save_results`.

    Raises:
        DataError: the files are missing or damaged.
    """
    path = folder / RESULTS_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        with np.load(folder / _ITEMS_FILE) as stored:
            items = {key: stored[key] for key in stored.files}
        results = [Result(**{**one, "languages": tuple(one["languages"])}) for one in content["results"]]
        facts = {key: content[key] for key in _FACTS}
        about = {key: content[key] for key in ("system", "versions", "hardware", "created")}
        skipped = content["skipped"]
        return SystemResults(**facts, about=about, results=results, items=items, skipped=skipped)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: expected results of `modenc eval`, found none to read ({error})") from error


def markdown(systems: Sequence[SystemResults]) -> str:
    """Make tables of all metrics, with a column for each system.

    The second system and each later one also have a column of p, from a paired bootstrap against the first.
    """
    first, *others = systems
    keys = list(dict.fromkeys(result.key for system in systems for result in system.results))
    lines = [f"# Suite {first.suite}", ""]
    headings = ["metric", "languages", "n", first.name]
    for system in others:
        headings += [system.name, "p"]
    for task in dict.fromkeys(key.split(".")[0] for key in keys):
        rows = []
        for key in (key for key in keys if key.split(".")[0] == task):
            known = next(result for system in systems if (result := system.find(key)))
            cells = [known.metric, "-".join(known.languages) or "all pairs", str(known.n)]
            cells.append(_cell(first.find(key)))
            for system in others:
                cells += [_cell(system.find(key)), _p(first, system, key)]
            rows.append(cells)
        lines += [f"## {task}", "", *_table(headings, rows)]
    lines += _means(systems)
    for system in systems:
        versions = ", ".join(f"{package} {number}" for package, number in system.about["versions"].items())
        processors = system.about["hardware"]["processors"]
        lines.append(
            f"{system.name}: seed {system.seed}, {system.seconds:.0f} s on {processors} cores; {versions}."
        )
        if system.skipped:
            lines.append(f"Not found, skipped: {', '.join(system.skipped)}.")
    return "\n".join(lines) + "\n"


def _means(systems: Sequence[SystemResults]) -> list[str]:
    """Make the table of unweighted means over languages and over pairs of languages."""
    rows = []
    groups = dict.fromkeys(
        (result.task, result.metric, len(result.languages))
        for result in systems[0].results
        if 0 < len(result.languages) < 3
    )
    for task, metric, size in groups:
        values = []
        for system in systems:
            measured = [
                result.value
                for result in system.results
                if (result.task, result.metric, len(result.languages)) == (task, metric, size)
            ]
            values.append((np.mean(measured) if measured else np.nan, len(measured)))
        if values[0][1] > 1:
            where = f"{'within' if size == 1 else 'across'}, {values[0][1]} sets"
            rows.append([task, metric, where, *(f"{value:.2f}" for value, _ in values)])
    headings = ["task", "metric", "over", *(system.name for system in systems)]
    return ["## Means", "", *_table(headings, rows)] if rows else []


def _table(headings: list[str], rows: list[list[str]]) -> list[str]:
    alignment = ["---"] * 3 + ["---:"] * (len(headings) - 3)
    return [*(f"| {' | '.join(row)} |" for row in (headings, alignment, *rows)), ""]


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    if result.low is None or result.high is None:
        return f"{result.value:.3g}" if abs(result.value) < 1 else f"{result.value:.2f}"
    return f"{result.value:.2f} [{result.low:.1f}, {result.high:.1f}]"


def _p(first: SystemResults, other: SystemResults, key: str) -> str:
    if key not in first.items or key not in other.items:
        return ""
    metric = key.split(".")[1]
    values, others = (resample_metric(metric, system.items[key], first.seed) for system in (other, first))
    value = p_value(values - others)
    return "" if np.isnan(value) else f"{value:.3f}"
