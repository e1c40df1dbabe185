"""Plots of results as PNG files, and one HTML page with all plots and tables."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from modenc.evaluation.results import Result, SystemResults, markdown
from modenc.evaluation.runner import TRANSLATION_MAP
from modenc.evaluation.sts import Items

# More bars than this are only shown as a matrix.
_MOST_BARS = 40
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.2rem .6rem}"
    "td:nth-child(n+4){text-align:right;font-variant-numeric:tabular-nums}img{max-width:100%}"
)


def write_report(systems: Sequence[SystemResults], folder: Path) -> Path:
    """Write ``plots/*.png`` and a self-contained ``report.html`` into ``folder``; return the page's path."""
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    images = []
    for name, figure in _figures(systems):
        image = plots / f"{name}.png"
        figure.savefig(image, dpi=130, bbox_inches="tight")
        plt.close(figure)
        data = base64.b64encode(image.read_bytes()).decode()
        images.append(
            f'<h2>{html.escape(name)}</h2><img alt="{html.escape(name)}" src="data:image/png;base64,{data}">'
        )
    page = folder / "report.html"
    title = html.escape(f"Suite {systems[0].suite}")
    page.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>{_html(markdown(systems))}{''.join(images)}</body></html>\n",
        encoding="utf-8",
    )
    return page


def _figures(systems: Sequence[SystemResults]) -> Iterator[tuple[str, Figure]]:
    results = [result for system in systems for result in system.results]
    metrics = dict.fromkeys((result.task, result.metric) for result in results if result.low is not None)
    for task, metric in metrics:
        languages = list(dict.fromkeys(result.languages for result in _of(results, task, metric)))
        if len(languages) <= _MOST_BARS:
            yield f"{task}-{metric}", _plot_bars(systems, task, metric, languages)
    tasks = dict.fromkeys(result.task for result in results)
    for task, metric, system in product(tasks, ("spearman", "xsim_error"), systems):
        chosen = _of(system.results, task, metric)
        if sum(len(result.languages) == 2 for result in chosen) > 1:
            figure = _plot_matrix(chosen, f"{system.name}: {task} {metric}")
            yield f"{task}-{metric}-matrix-{system.name}", figure
    for system in systems:
        for key, rows in system.items.items():
            task, name, codes = key.split(".")
            if name == TRANSLATION_MAP:
                figure = _plot_map(rows, codes.split("-"), f"{system.name}: {task}")
                yield f"{task}-{TRANSLATION_MAP}-{system.name}", figure
        for stage, curves in _dev_curves(system).items():
            yield f"training-{stage}-{system.name}", _plot_dev_curves(curves, f"{system.name}: {stage}")


def _of(results: Iterable[Result], task: str, metric: str) -> list[Result]:
    return [result for result in results if (result.task, result.metric) == (task, metric)]


def _dev_curves(system: SystemResults) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return stage → language → (step, dev score), for trainings that were evaluated on the way."""
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for lang, stages in system.about["system"].get("dev_curves", {}).items():
        for stage, points in stages.items():
            curves.setdefault(stage, {})[lang] = points
    return curves


def _plot_dev_curves(curves: dict[str, list[tuple[int, float]]], title: str) -> Figure:
    """Plot dev score by step, a line for each language."""
    figure: Figure = plt.figure(figsize=(6.0, 3.5))
    axes = figure.subplots()
    for lang, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=lang)
    axes.set_xlabel("step")
    axes.set_ylabel("dev score")
    axes.set_title(title, fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def _plot_map(rows: Items, languages: Sequence[str], title: str) -> Figure:
    """Plot translations on a plane twice: colored by language, and linked with their translations."""
    figure: Figure = plt.figure(figsize=(12, 5.5))
    panels = figure.subplots(1, 2)
    by_language, by_row = panels
    for number, lang in enumerate(languages):
        x, y = rows[rows[:, 2] == number, :2].T
        by_language.scatter(x, y, s=12, label=lang)
    by_language.legend(fontsize="small")
    by_language.set_title(f"{title}, by language", fontsize="medium")
    numbers = np.unique(rows[:, 3])
    colors = plt.get_cmap("hsv")(np.linspace(0, 1, len(numbers), endpoint=False))
    for number, color in zip(numbers, colors, strict=True):
        x, y = rows[rows[:, 3] == number, :2].T
        by_row.plot(x, y, color=color, marker="o", markersize=3, linewidth=0.6)
    by_row.set_title("by meaning: lines join translations", fontsize="medium")
    for axes in panels:
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def _plot_bars(
    systems: Sequence[SystemResults], task: str, metric: str, languages: Sequence[tuple[str, ...]]
) -> Figure:
    """Plot bars with 95 % intervals, a color for each system."""
    figure: Figure = plt.figure(figsize=(max(4.0, 1.1 * len(languages) * len(systems) ** 0.5), 3.5))
    axes = figure.subplots()
    width = 0.8 / len(systems)
    for number, system in enumerate(systems):
        results = {result.languages: result for result in _of(system.results, task, metric)}
        for place, codes in enumerate(languages):
            result = results.get(codes)
            if result is None or result.low is None or result.high is None:
                continue
            error = [[max(result.value - result.low, 0)], [max(result.high - result.value, 0)]]
            axes.bar(
                place + (number - (len(systems) - 1) / 2) * width,
                result.value,
                width,
                yerr=error,
                color=f"C{number}",
                label=system.name if place == 0 else None,
                capsize=2,
            )
    axes.set_xticks(range(len(languages)), ["-".join(codes) for codes in languages])
    axes.set_ylabel(metric.replace("_", " "))
    axes.set_title(task)
    axes.legend(fontsize="small", loc="lower right")
    return figure


def _plot_matrix(results: Sequence[Result], title: str) -> Figure:
    """Plot a heat map of all pairs of languages; a pair measured in one order is shown in both."""
    codes = list(dict.fromkeys(code for result in results for code in result.languages))
    grid = np.full((len(codes), len(codes)), np.nan)
    for result in results:
        first, last = codes.index(result.languages[0]), codes.index(result.languages[-1])
        grid[first, last] = result.value
        if np.isnan(grid[last, first]):
            grid[last, first] = result.value
    figure: Figure = plt.figure(figsize=(1 + 0.8 * len(codes), 0.8 + 0.7 * len(codes)))
    axes = figure.subplots()
    image = axes.imshow(grid, cmap="viridis")
    for (row, column), value in np.ndenumerate(grid):
        if not np.isnan(value):
            axes.text(column, row, f"{value:.1f}", ha="center", va="center", color="white")
    axes.set_xticks(range(len(codes)), codes)
    axes.set_yticks(range(len(codes)), codes)
    axes.set_title(title, fontsize="medium")
    figure.colorbar(image)
    return figure


def _html(text: str) -> str:
    """Convert the tables, headings and lines of :func:`markdown` to HTML."""
    out: list[str] = []
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            cells = [html.escape(cell.strip()) for cell in line.strip("|").split("|")]
            if not set("".join(cells)) <= set("-: "):
                rows.append(cells)
            continue
        if rows:
            head, *body = rows
            out.append(f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>")
            out += [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body]
            out.append("</table>")
            rows = []
        if line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            out.append(f"<h{level}>{html.escape(line.lstrip('# '))}</h{level}>")
        elif line:
            out.append(f"<p>{html.escape(line)}</p>")
    return "".join(out)
