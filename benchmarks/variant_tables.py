"""The tables of the paper's variants: its Table 2, and its findings as differences of two rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from markdown_rows import row
from run_results import Stored, compared, difference_p, mean_cell
from variants import BASE

from modenc.evaluation.results import SystemResults

Columns = Mapping[str, tuple[str, ...]]
"""Column → keys of the results that are averaged in it."""
Paper = Mapping[str, Mapping[str, float]]
"""Variant → its results in the paper, by column."""

COLUMNS: Columns = {
    "within": ("kardes.spearman.az", "kardes.spearman.kk"),
    "across": ("kardes.spearman.en-az", "kardes.spearman.en-kk", "kardes.spearman.az-kk"),
    "language_bias": ("kardes.language_bias.",),
    "xsim": tuple(f"tatoeba.xsim_error_cosine.en-{lang}" for lang in ("az", "kk", "ug", "uz")),
    "topics": ("sib.accuracy.en", "sib.accuracy.az", "sib.accuracy.kk"),
    "zero_shot": ("sib.zero_shot_accuracy.en-az", "sib.zero_shot_accuracy.en-kk"),
    "rsim": ("sib.rsim.en-az", "sib.rsim.en-kk", "sib.rsim.az-kk"),
}
"""Results of the suite that are averaged in each column."""

HEADINGS = {
    "within": "STS within",
    "across": "STS across",
    "language_bias": "bias",
    "xsim": "xsim %",
    "topics": "topics",
    "zero_shot": "zero-shot",
    "rsim": "RSIM",
}
_TESTED = ("within", "across")


def variant_table(stored: Stored, columns: Columns, paper: Paper) -> Iterator[str]:
    """Make the lines of the paper's Table 2: each variant's means, the paper's, and p against the base."""
    headings = [
        "variant",
        "seeds",
        *(HEADINGS[name] for name in columns),
        *(f"p {HEADINGS[name]}" for name in _TESTED),
    ]
    yield from (row(headings), row(["---", *["---:"] * (len(headings) - 1)]))
    base = next((runs[0] for variant, runs in stored if variant.kind == BASE), None)
    for variant, runs in stored:
        cells = [variant.name, str(len(runs))]
        theirs = paper.get(variant.name, {})
        cells += [cell(runs, name, columns[name], theirs.get(name)) for name in columns]
        cells += [shown_p(runs[0], base, columns[name]) for name in _TESTED]
        yield row(cells)


def cell(runs: Sequence[SystemResults], name: str, keys: Sequence[str], theirs: float | None) -> str:
    """Format the mean over seeds, ± the standard deviation, and the paper's result in brackets."""
    digits = 2 if name == "rsim" else 1
    text = mean_cell(runs, keys, digits)
    return text + (f" ({theirs:.{digits}f})" if theirs is not None else "")


def shown_p(run: SystemResults, other: SystemResults | None, keys: Sequence[str]) -> str:
    """Format :func:`difference_p` for a cell."""
    if other is None or run is other or np.isnan(p := difference_p(run, other, keys)):
        return ""
    return f"{p:.3f}"


def finding_table(stored: Stored, paper: dict[str, Any]) -> Iterator[str]:
    """Make rows of the paper's findings, each a difference between two rows, in the paper and here."""
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
        yield row([*words, *compared(runs[high], runs[low], COLUMNS[name], theirs)])
