"""A language's modules beside the bare base on the same held-out data, as its card stores it.

``card.comparison`` maps ``base``, ``modules`` and, for a language with alignment, ``align=False`` to the
value of each metric, and ``rows`` to the number of held-out rows of each. It is empty in cards written
before there was a comparison, and where no held-out data were at hand.
"""

from __future__ import annotations

from collections.abc import Mapping

Comparison = Mapping[str, Mapping[str, float]]

BASE, MODULES, UNALIGNED, ROWS = "base", "modules", "align=False", "rows"
TOKENS = "tokens"
SCORES: dict[str, str] = {
    "sts": "similarity within the language (Spearman x 100)",
    "cross_sts": "similarity across to the pivot (Spearman x 100)",
    "retrieval": "translations found, both ways (%)",
}
"""Metrics of which the mean decides whether modules lose to the base."""
WORST = {"sts": -100.0, "cross_sts": -100.0, "retrieval": 0.0}
"""The ends of their scales, which stand for a score of modules that is not a number."""


def shared_scores(comparison: Comparison) -> list[str]:
    """The metrics of :data:`SCORES` that every system in the comparison has."""
    systems = [figures for name, figures in comparison.items() if name != ROWS]
    return [metric for metric in SCORES if systems and all(metric in figures for figures in systems)]


def mean_score(comparison: Comparison, system: str) -> float | None:
    """The mean of a system's shared metrics; None where there are none."""
    shared = shared_scores(comparison)
    return sum(comparison[system][metric] for metric in shared) / len(shared) if shared else None


def loses(comparison: Comparison) -> bool:
    """Whether the mean of the shared metrics is lower with the modules, alignment included, than without."""
    modules, base = (mean_score(comparison, system) for system in (MODULES, BASE))
    return modules is not None and base is not None and modules < base


def table_of(comparison: Comparison) -> list[tuple[str, ...]]:
    """A header and a row a metric: its name, the held-out rows, each system's value; empty without any."""
    systems = [name for name in (BASE, MODULES, UNALIGNED) if name in comparison]
    shared, rows = shared_scores(comparison), comparison.get(ROWS, {})
    lines = [
        (SCORES[metric], f"{rows.get(metric, 0):.0f}", *(f"{comparison[s][metric]:.1f}" for s in systems))
        for metric in shared
    ]
    if len(shared) > 1:
        lines.append(("mean", "", *(f"{mean_score(comparison, system):.1f}" for system in systems)))
    if systems and all(TOKENS in comparison[system] for system in systems):
        counts = (f"{comparison[system][TOKENS]:.1f}" for system in systems)
        lines.append(("tokens a sentence (fewer are better)", f"{rows.get(TOKENS, 0):.0f}", *counts))
    return [("held-out data", "rows", *systems), *lines] if lines else []
