"""RESULTS.md from stored runs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from caption_tables import PREFIX as CAPTIONS
from caption_tables import caption_objective_table, caption_section
from language_tables import section
from markdown_rows import row
from objective_tables import beside, objective_table
from run_results import Stored, interval_rows, stored_runs
from variant_tables import COLUMNS, HEADINGS, cell, finding_table, variant_table
from variants import MONOLITHIC
from vocabulary_tables import vocabulary_section

HERE = Path(__file__).resolve().parent

GERMAN_KOREAN = (
    *("stsb.spearman.en", "stsb.spearman.de", "korsts.spearman.ko"),
    *("stsb.spearman.en-de", "stsb.spearman.en-ko", "stsb.spearman.de-ko"),
    *("tatoeba.xsim_error_cosine.en-de", "tatoeba.xsim_error_cosine.en-ko"),
)
_INTRODUCTION = (
    "# Results",
    "",
    "Made by `make reproduce` from the runs stored in `results/`. No result here is typed by hand,",
    "except the paper's (`paper.toml`).",
    "",
    "## The paper's Table 2, on this budget",
    "",
    "Ours: me5-small, Kardeş-NLU (within: az, kk; across: en-az, en-kk, az-kk), Tatoeba (az, kk,",
    "ug, uz), SIB-200 (en, az, kk). Each cell is the mean over seeds, ± their standard deviation if",
    "there are several. The paper's results are in brackets: mE5-base, other languages and test sets,",
    "and 600,000 paraphrases a language instead of our 1,000. p is the probability of so large a",
    "difference from the base by chance: two-sided, paired bootstrap on the same pairs, first seed.",
    "",
)


def tables(folder: Path) -> str:
    """RESULTS.md from the stored runs.

    Raises:
        SystemExit: nothing is stored.
    """
    stored = list(stored_runs(folder, "variants"))
    if not stored:
        raise SystemExit(f"{folder}: expected stored results, found none; run without --tables-only")
    paper = tomllib.loads((HERE / "paper.toml").read_text(encoding="utf-8"))
    lines = [*_INTRODUCTION, *variant_table(stored, COLUMNS, paper["rows"])]
    lines += ["", "## The paper's Table 3: aligned with English, or all pairs", ""]
    lines += ["The paper's results are in brackets, on seven languages.", "", *all_pairs_table(stored, paper)]
    lines += ["", "## The paper's findings", "", *finding_table(stored, paper), ""]
    lines += [(HERE / "findings.md").read_text(encoding="utf-8").strip()]
    groups = ("objectives", "captions", "captions_objectives", "german_korean")
    objectives, captions, caption_objectives, others = (list(stored_runs(folder, group)) for group in groups)
    lines += ["", *interval_table(stored), "", *caption_section(captions, stored, paper), *cost_table(stored)]
    if objectives:
        lines += ["", *objective_table([*beside(folder, stored, objectives), *objectives])]
    if caption_objectives:
        known = beside(folder, captions, caption_objectives, CAPTIONS)
        lines += ["", *caption_objective_table([*known, *caption_objectives])]
    if others:
        lines += ["", *german_korean_table(others)]
    lines += section(folder)
    lines += vocabulary_section(folder)
    lines += ["", *provenance([*stored, *objectives, *captions, *caption_objectives, *others])]
    return "\n".join(lines) + "\n"


def all_pairs_table(stored: Stored, paper: dict[str, Any]) -> Iterator[str]:
    """Write the paper's Table 3."""
    names = ("within", "across", "language_bias")
    yield row(["variant", *(HEADINGS[name] for name in names)])
    yield row(["---", *("---:" for _ in names)])
    for variant, runs in stored:
        theirs = paper["all_pairs"].get(variant.name)
        if theirs:
            yield row([variant.name, *(cell(runs, name, COLUMNS[name], theirs.get(name)) for name in names)])


def interval_table(stored: Stored) -> list[str]:
    """Every similarity set with its 95 % bootstrap interval, first seed."""
    keys = ["stsb.spearman.en", *COLUMNS["within"], *COLUMNS["across"]]
    lines = ["## Similarity set by set, with 95 % intervals (first seed)", ""]
    return [*lines, *interval_rows(stored, keys)]


def cost_table(stored: Stored) -> list[str]:
    """Write the paper's Table 4: size and time of each module, and of a whole model."""
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


def german_korean_table(stored: Stored) -> list[str]:
    """German and Korean, by the recipe of that name."""
    lines = ["## German and Korean", ""]
    lines += ["`recipes/german_korean.toml` on STS-B, KorSTS and Tatoeba (xsim, %), 95 % intervals.", ""]
    return [*lines, *interval_rows(stored, GERMAN_KOREAN)]


def provenance(stored: Stored) -> list[str]:
    """Budget, seeds, hardware and versions of every run."""
    lines = ["## Runs", ""]
    for variant, runs in stored:
        for run in runs:
            hardware, versions = run.about["hardware"], run.about["versions"]
            seconds = run.about["system"].get("training_seconds", 0)
            lines.append(
                f"- {variant.name}: trained in {seconds} s, evaluated in {run.seconds:.0f} s on "
                f"{hardware['processors']} {hardware['machine']} cores, {run.about['created']}; "
                + ", ".join(f"{package} {number}" for package, number in versions.items())
            )
    return lines
