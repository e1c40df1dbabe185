"""The paper's comparison, and other papers' objectives, on tens of thousands of paraphrases a language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown_rows import row
from objective_tables import ObjectiveColumns, objective_rows
from run_results import Stored, compared, interval_rows
from variant_tables import COLUMNS, HEADINGS, Columns, variant_table

HERE = Path(__file__).resolve().parent
PREFIX = "captions_"
"""Prefix of the names of its variants, before the names of the small comparison."""

CAPTION_COLUMNS: Columns = {
    "within": ("stsb.spearman.en", "kardes.spearman.kk", "kardes_dev.spearman.ky"),
    "across": ("kardes.spearman.en-kk",),
    "xsim": ("tatoeba.xsim_error_cosine.en-kk",),
    "topics": ("sib.accuracy.en", "sib.accuracy.kk"),
    "zero_shot": ("sib.zero_shot_accuracy.en-kk",),
    "rsim": ("sib.rsim.en-kk",),
}
_OBJECTIVE_COLUMNS: ObjectiveColumns = {
    "STS within": (CAPTION_COLUMNS["within"], 1),
    "STS across": (CAPTION_COLUMNS["across"], 1),
    "Tatoeba": (("tatoeba.retrieval_accuracy.en-kk",), 1),
    "RSIM": (CAPTION_COLUMNS["rsim"], 2),
}
_SETS = (*CAPTION_COLUMNS["within"], *CAPTION_COLUMNS["across"], *CAPTION_COLUMNS["xsim"])
_INTRODUCTION = (
    "Within: the mean of STS-B (en), Kardeş-NLU's test set (kk) and its development set (ky; Kyrgyz has no",
    "test set here, and nothing was trained or chosen on that set). Across: Kardeş-NLU, en-kk. xsim:",
    "Tatoeba, en-kk. Topics: SIB-200, en and kk. There is no bias: it compares pairs of languages, and here",
    "is only one pair. Means, ±, brackets and p are as in Table 2 above.",
)


def caption_section(stored: Stored, small: Stored, paper: dict[str, Any]) -> Iterator[str]:
    """Write the paper's Table 2, its findings and all test sets; nothing if no run is stored.

    Args:
        stored: runs of the variants.
        small: runs of the small comparison.
        paper: results and findings of the paper.
    """
    if not stored:
        return
    yield from ("## The paper's Table 2 with tens of thousands of paraphrases", "")
    yield from ((HERE / "captions.md").read_text(encoding="utf-8").strip(), "", *_INTRODUCTION, "")
    theirs = {PREFIX + name: figures for name, figures in paper["rows"].items()}
    yield from variant_table(stored, CAPTION_COLUMNS, theirs)
    if findings := list(_findings(stored, small, paper)):
        yield from ("", "The paper's findings, on a thousand human triplets a language (small) and here:", "")
        yield row(["the paper finds", "column", "difference", "paper", "small", "here", "p", "so"])
        yield row(["---", "---", "---", "---:", "---:", "---:", "---:", "---"])
        yield from findings
    yield from ("", "Set by set, with 95 % intervals (first seed; xsim of Tatoeba, %):", "")
    yield from interval_rows(stored, _SETS)
    yield ""


def _findings(stored: Stored, small: Stored, paper: dict[str, Any]) -> Iterator[str]:
    """Make rows of the findings whose two variants are stored."""
    runs = {variant.name.removeprefix(PREFIX): found for variant, found in stored}
    before = {variant.name: found for variant, found in small}
    for finding in paper["findings"]:
        high, low, name = finding["high"], finding["low"], finding["column"]
        if high not in runs or low not in runs or name not in CAPTION_COLUMNS:
            continue
        table = paper[finding.get("table", "rows")]
        theirs = table[high][name] - table[low][name]
        known = high in before and low in before
        past = compared(before[high], before[low], COLUMNS[name], theirs)[0] if known else ""
        words = [finding["claim"], HEADINGS[name], f"{high} − {low}", f"{theirs:+.1f}", past]
        yield row([*words, *compared(runs[high], runs[low], CAPTION_COLUMNS[name], theirs)])


def caption_objective_table(stored: Stored) -> Iterator[str]:
    """Write the table of the other papers' objectives on the same data."""
    yield from ("## The other papers' objectives with tens of thousands of translations", "")
    yield from ("On the data of the paper's Table 2 with tens of thousands of paraphrases, at its steps.", "")
    yield from objective_rows(stored, _OBJECTIVE_COLUMNS)
