"""Comparison of a language's modules with the base without modules, as stored in its card.

``card.comparison`` maps the systems ``base``, ``modules`` and, for a language with alignment, ``align=False``
to the value of each metric on the same held-out data, and ``rows`` to the number of held-out rows of each
metric. It is empty without held-out data, and in older cards.
"""

from __future__ import annotations

from collections.abc import Mapping

Comparison = Mapping[str, Mapping[str, float]]

BASE, MODULES, UNALIGNED, ROWS = "base", "modules", "align=False", "rows"
TOKENS = "tokens"
SCORES: dict[str, str] = {
    "sts": "similarity within the language (Spearman x 100)",
    "search": "search within the language (nDCG@10 x 100)",
    "cross_sts": "similarity across to the pivot (Spearman x 100)",
    "retrieval": "translations found, both ways (%)",
}
"""Metric → description. The mean of these decides whether modules are worse than the base."""
WORST = {"sts": -100.0, "search": 0.0, "cross_sts": -100.0, "retrieval": 0.0}
"""Worst value of each metric, used if a score of the modules is not a number."""


def shared_scores(comparison: Comparison) -> list[str]:
    """Return the metrics of :data:`SCORES` that every system in the comparison has."""
    systems = [metrics for name, metrics in comparison.items() if name != ROWS]
    return [metric for metric in SCORES if systems and all(metric in metrics for metrics in systems)]


def mean_score(comparison: Comparison, system: str) -> float | None:
    """Return the mean of a system's shared metrics; None without any."""
    shared = shared_scores(comparison)
    return sum(comparison[system][metric] for metric in shared) / len(shared) if shared else None


def loses(comparison: Comparison) -> bool:
    """Check whether the mean of the shared metrics is lower with modules than without."""
    modules, base = (mean_score(comparison, system) for system in (MODULES, BASE))
    return modules is not None and base is not None and modules < base


def table_of(comparison: Comparison) -> list[tuple[str, ...]]:
    """Make a table: a header, and each metric's description, held-out rows and values."""
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
