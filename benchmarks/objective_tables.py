"""The tables of the other papers' objectives."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from markdown_rows import row
from run_results import Stored, compared, interval_rows, mean_cell, seeds
from variant_tables import COLUMNS
from variants import BASE, Variant

from modenc.evaluation.results import SystemResults

HERE = Path(__file__).resolve().parent
ObjectiveColumns = Mapping[str, tuple[tuple[str, ...], int]]
"""Heading → keys of the averaged results, and decimals."""

_TATOEBA = ("en-az", "en-kk", "en-ug", "en-uz")
_SHAPE = "en-az-kk"
OBJECTIVE_COLUMNS: ObjectiveColumns = {
    "STS within": (COLUMNS["within"], 1),
    "STS across": (COLUMNS["across"], 1),
    "Tatoeba": (tuple(f"tatoeba.retrieval_accuracy.{pair}" for pair in _TATOEBA), 1),
    "F1 cosine": (tuple(f"tatoeba.mining_f1_cosine.{pair}" for pair in _TATOEBA), 1),
    "F1 margin": (tuple(f"tatoeba.mining_f1.{pair}" for pair in _TATOEBA), 1),
    "hubness": (tuple(f"tatoeba.hubness.{pair}" for pair in _TATOEBA), 2),
    "RSIM": (COLUMNS["rsim"], 2),
    "invariance": ((f"sib.invariance.{_SHAPE}",), 0),
    "CH": ((f"sib.calinski_harabasz.{_SHAPE}",), 2),
    "isotropy": ((f"sib.isotropy.{_SHAPE}",), 2),
}

KAZAKH = ("kardes.spearman.kk", "kardes.spearman.en-kk", "kardes.spearman.az-kk")


def beside(
    folder: Path, stored: Stored, objectives: Stored, prefix: str = ""
) -> Iterator[tuple[Variant, list[SystemResults]]]:
    """Select the base, the start of the objectives, and ``joint``, with the objectives' seeds alone."""
    alike = {seed for variant, _ in objectives for seed in seeds(folder, variant)}
    for variant, runs in stored:
        if variant.name.removeprefix(prefix) in ("base", "mod_m", "mod_mc_jt"):
            each = zip(seeds(folder, variant), runs, strict=True)
            same = [run for seed, run in each if variant.kind == BASE or seed in alike]
            if same:
                yield variant, same


def objective_table(stored: Stored) -> Iterator[str]:
    """Write the other papers' objectives beside ``joint``, and their findings on Kazakh."""
    yield "## The other papers' objectives"
    yield ""
    yield (HERE / "objectives.md").read_text(encoding="utf-8").strip()
    yield ""
    yield from objective_rows(stored, OBJECTIVE_COLUMNS)
    yield ""
    yield from objective_findings(stored)
    kazakh = [pair for pair in stored if pair[0].name in ("base", "mod_m", "mod_emma_x", "mod_emma_x_no_kk")]
    if len(kazakh) > 1:
        yield ""
        yield "Kazakh, with its own translations in phase 1 and without, 95 % intervals of the first seed:"
        yield ""
        yield from interval_rows(kazakh, KAZAKH)


def objective_rows(stored: Stored, columns: ObjectiveColumns) -> Iterator[str]:
    """Make a table of means, and of the time of a step and of a training."""
    headings = ["variant", "seeds", *columns, "s a step", "GB"]
    yield row(headings)
    yield row(["---", *["---:"] * (len(headings) - 1)])
    for variant, runs in stored:
        about = runs[0].about["system"]
        cells = [variant.name, str(len(runs))]
        cells += [mean_cell(runs, keys, digits) for keys, digits in columns.values()]
        step = about.get("module_costs", {}).get("cla", about).get("seconds_a_step", 0.0)
        peak = about.get("training_peak_bytes", 0) / 1e9
        yield row([*cells, f"{step:.2f}" if step else "", f"{peak:.1f}" if peak else ""])


def objective_findings(stored: Stored) -> Iterator[str]:
    """Make rows of the papers' findings, each a difference between two rows, in the paper and here."""
    runs = {variant.name: found for variant, found in stored}
    yield row(["finding", "column", "difference", "paper", "here", "p", "so"])
    yield row(["---", "---", "---", "---:", "---:", "---:", "---"])
    for finding in tomllib.loads((HERE / "objectives.toml").read_text(encoding="utf-8"))["findings"]:
        high, low, heading, theirs = (
            *(finding[key] for key in ("high", "low", "column")),
            finding.get("paper"),
        )
        words = [finding["claim"], heading, f"{high} − {low}", "" if theirs is None else f"{theirs:+.1f}"]
        measured = high in runs and low in runs
        keys = KAZAKH[1:] if heading == "Kazakh across" else OBJECTIVE_COLUMNS[heading][0]
        cells = compared(runs[high], runs[low], keys, theirs) if measured else ["", "", "not measured"]
        yield row([*words, *cells])
