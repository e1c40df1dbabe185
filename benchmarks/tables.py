"""RESULTS.md from stored runs."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from language_tables import section
from markdown_rows import row
from variants import BASE, MONOLITHIC, VARIANTS, Variant

from modenc.evaluate.results import SystemResults, load_results
from modenc.evaluate.significance import p_of_gaps, spearman_samples

HERE = Path(__file__).resolve().parent

COLUMNS: dict[str, tuple[str, ...]] = {
    "within": ("kardes.spearman.az", "kardes.spearman.kk"),
    "across": ("kardes.spearman.en-az", "kardes.spearman.en-kk", "kardes.spearman.az-kk"),
    "language_bias": ("kardes.language_bias.",),
    "xsim": tuple(f"tatoeba.xsim_error_cosine.en-{lang}" for lang in ("az", "kk", "ug", "uz")),
    "topics": ("sib.accuracy.en", "sib.accuracy.az", "sib.accuracy.kk"),
    "zero_shot": ("sib.zero_shot_accuracy.en-az", "sib.zero_shot_accuracy.en-kk"),
    "rsim": ("sib.rsim.en-az", "sib.rsim.en-kk", "sib.rsim.az-kk"),
}
"""What of the suite's figures is averaged in each column."""

HEADINGS = {
    "within": "STS within",
    "across": "STS across",
    "language_bias": "bias",
    "xsim": "xsim %",
    "topics": "topics",
    "zero_shot": "zero-shot",
    "rsim": "RSIM",
}
_TATOEBA = ("en-az", "en-kk", "en-ug", "en-uz")
_SHAPE = "en-az-kk"
OBJECTIVE_COLUMNS: dict[str, tuple[tuple[str, ...], int]] = {
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
"""Heading → the figures that are averaged, and decimals, of the objectives' table."""

KAZAKH = ("kardes.spearman.kk", "kardes.spearman.en-kk", "kardes.spearman.az-kk")
GERMAN_KOREAN = (
    *("stsb.spearman.en", "stsb.spearman.de", "korsts.spearman.ko"),
    *("stsb.spearman.en-de", "stsb.spearman.en-ko", "stsb.spearman.de-ko"),
    *("tatoeba.xsim_error_cosine.en-de", "tatoeba.xsim_error_cosine.en-ko"),
)
_INTRODUCTION = (
    "# Results",
    "",
    "Made by `make reproduce` from the runs stored in `results/`; no figure here is typed by hand,",
    "but the paper's (`paper.toml`).",
    "",
    "## The paper's Table 2, on this budget",
    "",
    "Ours: me5-small, Kardeş-NLU (within: az, kk; across: en-az, en-kk, az-kk), Tatoeba (az, kk,",
    "ug, uz), SIB-200 (en, az, kk); means over seeds, ± their standard deviation where there are",
    "several. In brackets the paper's, of mE5-base on other languages and test sets, with 600,000",
    "paraphrases a language where we have 1,000. p: of so large a difference from the base by",
    "chance, two-sided, from a paired bootstrap on the same pairs (first seed).",
    "",
)
_TESTED = ("within", "across")
_SHARES = ("retrieval_accuracy", "mining_f1", "mining_f1_cosine")
_CHANCE = 0.05


Stored = Sequence[tuple[Variant, list[SystemResults]]]


def stored_runs(folder: Path, group: str) -> Iterator[tuple[Variant, list[SystemResults]]]:
    """Each variant of a group with its stored runs, in order; those without any are left out."""
    for variant in VARIANTS:
        if variant.group != group:
            continue
        runs = [load_results(folder / variant.name / f"seed-{seed}") for seed in seeds(folder, variant)]
        if runs:
            yield variant, runs


def seeds(folder: Path, variant: Variant) -> list[int]:
    """Those that a variant has stored runs of, ascending."""
    paths = (folder / variant.name).glob("seed-*/results.json")
    return sorted(int(path.parent.name.removeprefix("seed-")) for path in paths)


def mean_of(run: SystemResults, keys: Sequence[str]) -> float:
    """The mean of a run's figures; NaN where one was not measured."""
    parts = [run.find(key) for key in keys]
    return float(np.mean([np.nan if part is None else part.value for part in parts]))


def tables(folder: Path) -> str:
    """RESULTS.md from the stored runs.

    Raises:
        SystemExit: nothing is stored.
    """
    stored = list(stored_runs(folder, "variants"))
    if not stored:
        raise SystemExit(f"{folder}: expected stored results, found none; run without --tables-only")
    paper = tomllib.loads((HERE / "paper.toml").read_text(encoding="utf-8"))
    lines = [*_INTRODUCTION, *variant_table(stored, paper)]
    lines += ["", "## The paper's Table 3: aligned with English, or all with all", ""]
    lines += ["In brackets the paper's, on seven languages.", "", *all_pairs_table(stored, paper)]
    lines += ["", "## The paper's findings", "", *finding_table(stored, paper), ""]
    lines += [(HERE / "findings.md").read_text(encoding="utf-8").strip()]
    lines += ["", *interval_table(stored), "", *cost_table(stored)]
    objectives, others = (list(stored_runs(folder, group)) for group in ("objectives", "german_korean"))
    if objectives:
        lines += ["", *objective_table([*beside(folder, stored, objectives), *objectives])]
    if others:
        lines += ["", *german_korean_table(others)]
    lines += section(folder)
    lines += ["", *provenance([*stored, *objectives, *others])]
    return "\n".join(lines) + "\n"


def variant_table(stored: Stored, paper: dict[str, Any]) -> Iterator[str]:
    """Lines of the paper's Table 2: each variant's means, the paper's beside them, and p against the base."""
    headings = ["variant", "seeds", *HEADINGS.values(), *(f"p {HEADINGS[name]}" for name in _TESTED)]
    yield from (row(headings), row(["---", *["---:"] * (len(headings) - 1)]))
    base = next((runs[0] for variant, runs in stored if variant.kind == BASE), None)
    for variant, runs in stored:
        cells = [variant.name, str(len(runs))]
        theirs = paper["rows"].get(variant.name, {})
        cells += [cell(runs, name, theirs.get(name)) for name in COLUMNS]
        cells += [shown_p(runs[0], base, name) for name in _TESTED]
        yield row(cells)


def cell(runs: Sequence[SystemResults], name: str, theirs: float | None) -> str:
    """The mean over seeds, ± their standard deviation, and the paper's figure in brackets."""
    digits = 2 if name == "rsim" else 1
    text = mean_cell(runs, COLUMNS[name], digits)
    return text + (f" ({theirs:.{digits}f})" if theirs is not None else "")


def difference_p(run: SystemResults, other: SystemResults, keys: Sequence[str]) -> float:
    """Two-sided p of the difference between two runs' means over similarity sets, row by row the same items.

    NaN where a set was not measured, or the sets are not of one length.
    """
    known = [key for key in keys if ".spearman." in key and key in run.items and key in other.items]
    if not known or len({len(run.items[key]) for key in known}) > 1:
        return float("nan")
    gaps = [
        spearman_samples(run.items[key], seed=run.seed) - spearman_samples(other.items[key], seed=run.seed)
        for key in known
    ]
    return p_of_gaps(np.mean(gaps, axis=0))


def unpaired_p(run: SystemResults, other: SystemResults, keys: Sequence[str]) -> float:
    """Two-sided p of the difference between two means of shares (0 to 100), as if of different test items.

    For figures whose items are not stored; items in common would make it smaller. By the normal
    distribution, with the deviation of a share among as many items. NaN where a figure is no such share.
    """
    figures = [figure for key in keys for figure in (run.find(key), other.find(key)) if figure is not None]
    if any(key.split(".")[1] not in _SHARES for key in keys) or len(figures) < 2 * len(keys):
        return float("nan")
    variance = sum(figure.value * (100 - figure.value) / figure.n for figure in figures) / len(keys) ** 2
    difference = abs(mean_of(run, keys) - mean_of(other, keys))
    return math.erfc(difference / math.sqrt(2 * variance)) if variance else float("nan")


def shown_p(run: SystemResults, other: SystemResults | None, name: str) -> str:
    """The p of :func:`difference_p` for a table's cell."""
    if other is None or run is other or np.isnan(p := difference_p(run, other, COLUMNS[name])):
        return ""
    return f"{p:.3f}"


def finding_table(stored: Stored, paper: dict[str, Any]) -> Iterator[str]:
    """The paper's findings, each a difference between two rows, in the paper and here."""
    runs = {variant.name: found for variant, found in stored}
    yield row(["the paper finds", "column", "difference", "paper", "here", "p", "so"])
    yield row(["---", "---", "---", "---:", "---:", "---:", "---"])
    for finding in paper["findings"]:
        high, low, name = finding["high"], finding["low"], finding["column"]
        table = paper[finding.get("table", "rows")]
        theirs = table[high][name] - table[low][name]
        words = [finding["claim"], HEADINGS[name], f"{high} − {low}", f"{theirs:+.1f}"]
        if high not in runs or low not in runs:
            yield row([*words, "", "", "not measured"])
            continue
        yield row([*words, *_found(runs[high], runs[low], COLUMNS[name], theirs)])


def _found(
    high: Sequence[SystemResults], low: Sequence[SystemResults], keys: Sequence[str], theirs: float | None
) -> list[str]:
    """Cells: the difference of two rows, its p where one is known, and whether it is the paper's."""
    ours = float(np.mean([mean_of(run, keys) for run in high]) - np.mean([mean_of(run, keys) for run in low]))
    if np.isnan(ours):
        return ["", "", "not measured"]
    p = difference_p(high[0], low[0], keys)
    if np.isnan(p):
        p = unpaired_p(high[0], low[0], keys)
    verdict = "" if theirs is None else "agrees" if ours * theirs > 0 else "does not agree"
    if p > _CHANCE:
        verdict = f"{verdict}, within chance".removeprefix(", ")
    return [f"{ours:+.1f}", "" if np.isnan(p) else f"{p:.3f}", verdict]


def all_pairs_table(stored: Stored, paper: dict[str, Any]) -> Iterator[str]:
    """The paper's Table 3."""
    names = ("within", "across", "language_bias")
    yield row(["variant", *(HEADINGS[name] for name in names)])
    yield row(["---", *("---:" for _ in names)])
    for variant, runs in stored:
        theirs = paper["all_pairs"].get(variant.name)
        if theirs:
            yield row([variant.name, *(cell(runs, name, theirs.get(name)) for name in names)])


def interval_table(stored: Stored) -> list[str]:
    """Every similarity set with its 95 % bootstrap interval, first seed."""
    keys = ["stsb.spearman.en", *COLUMNS["within"], *COLUMNS["across"]]
    lines = ["## Similarity set by set, with 95 % intervals (first seed)", ""]
    return [*lines, *interval_rows(stored, keys)]


def interval_rows(stored: Stored, keys: Sequence[str]) -> Iterator[str]:
    """A table of figures with their 95 % bootstrap intervals, first seed."""
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


def cost_table(stored: Stored) -> list[str]:
    """The paper's Table 4: size and time of each module, and of a whole model."""
    lines = ["## The paper's Table 4: size and training time", ""]
    lines += [row(["variant", "part", "MB a language", "seconds a language"])]
    lines += [row(["---", "---", "---:", "---:"])]
    for variant, runs in stored:
        about = runs[0].about["system"]
        for part, cost in about.get("module_costs", {}).items():
            lines.append(row([variant.name, part, f"{cost['bytes'] / 1e6:.2f}", f"{cost['seconds']:.0f}"]))
        if variant.kind == MONOLITHIC:
            lines.append(row([variant.name, "whole model", "", f"{about['training_seconds']} in all"]))
    return lines


def beside(folder: Path, stored: Stored, objectives: Stored) -> Iterator[tuple[Variant, list[SystemResults]]]:
    """The base, what the objectives start from, and ``joint``: of the objectives' seeds alone."""
    alike = {seed for variant, _ in objectives for seed in seeds(folder, variant)}
    for variant, runs in stored:
        if variant.name in ("base", "mod_m", "mod_mc_jt"):
            each = zip(seeds(folder, variant), runs, strict=True)
            same = [run for seed, run in each if variant.kind == BASE or seed in alike]
            if same:
                yield variant, same


def objective_table(stored: Stored) -> Iterator[str]:
    """The other papers' objectives beside ``joint``'s row, and what they say of Kazakh."""
    yield "## The other papers' objectives"
    yield ""
    yield (HERE / "objectives.md").read_text(encoding="utf-8").strip()
    yield ""
    headings = ["variant", "seeds", *OBJECTIVE_COLUMNS, "s a step", "GB"]
    yield row(headings)
    yield row(["---", *["---:"] * (len(headings) - 1)])
    for variant, runs in stored:
        about = runs[0].about["system"]
        cells = [variant.name, str(len(runs))]
        cells += [mean_cell(runs, keys, digits) for keys, digits in OBJECTIVE_COLUMNS.values()]
        step = about.get("module_costs", {}).get("cla", about).get("seconds_a_step", 0.0)
        peak = about.get("training_peak_bytes", 0) / 1e9
        yield row([*cells, f"{step:.2f}" if step else "", f"{peak:.1f}" if peak else ""])
    yield ""
    yield from objective_findings(stored)
    kazakh = [pair for pair in stored if pair[0].name in ("base", "mod_m", "mod_emma_x", "mod_emma_x_no_kk")]
    if len(kazakh) > 1:
        yield ""
        yield "Kazakh, with its own translations in phase 1 and without, 95 % intervals of the first seed:"
        yield ""
        yield from interval_rows(kazakh, KAZAKH)


def objective_findings(stored: Stored) -> Iterator[str]:
    """What the papers find of their objectives, each a difference between two rows, there and here."""
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
        cells = _found(runs[high], runs[low], keys, theirs) if measured else ["", "", "not measured"]
        yield row([*words, *cells])


def german_korean_table(stored: Stored) -> list[str]:
    """German and Korean, by the recipe of that name."""
    lines = ["## German and Korean", ""]
    lines += ["`recipes/german_korean.toml` on STS-B, KorSTS and Tatoeba (xsim, %), 95 % intervals.", ""]
    return [*lines, *interval_rows(stored, GERMAN_KOREAN)]


def mean_cell(runs: Sequence[SystemResults], keys: Sequence[str], digits: int) -> str:
    """The mean of figures over seeds, ± their standard deviation; a dash where one is missing."""
    values = [mean_of(run, keys) for run in runs]
    if np.isnan(values).any():
        return "–"
    text = f"{np.mean(values):.{digits}f}"
    return text + (f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "")


def provenance(stored: Stored) -> list[str]:
    """Budget, seeds, hardware and versions of every run."""
    lines = ["## Runs", ""]
    for variant, runs in stored:
        for run in runs:
            hardware, versions = run.about["hardware"], run.about["versions"]
            seconds = run.about["system"].get("training_seconds", 0)
            lines.append(
                f"- {variant.name}: trained in {seconds} s, judged in {run.seconds:.0f} s on "
                f"{hardware['processors']} {hardware['machine']} cores, {run.about['created']}; "
                + ", ".join(f"{package} {number}" for package, number in versions.items())
            )
    return lines
