"""Metrics of a test set's items: their bootstrap intervals, and a paired test between two systems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from modenc.evaluation.sts import Items, mean_spearman

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Items], float]

SAMPLES = 1000


def percent_of_hits(items: Items) -> float:
    """Compute the mean of ``items`` [n, k], from 0 (a miss) to 1 (a hit), in percent."""
    return float(items.mean() * 100)


def percent_of_misses(items: Items) -> float:
    """Compute what :func:`percent_of_hits` leaves of 100."""
    return float(100 - items.mean() * 100)


RESAMPLED_METRICS: dict[str, Statistic] = {
    "spearman": mean_spearman,
    "accuracy": percent_of_hits,
    "zero_shot_accuracy": percent_of_hits,
    "retrieval_accuracy": percent_of_hits,
    "ndcg_at_10": percent_of_hits,
    "accuracy_at_1": percent_of_hits,
    "mrr_at_10": percent_of_hits,
    "pool_accuracy_at_1": percent_of_hits,
    "pool_own_language": percent_of_hits,
    "xsim_error": percent_of_misses,
    "xsim_error_cosine": percent_of_misses,
}
"""Metric that has an interval → function from the items of a test set to its value."""


def resample_metric(metric: str, items: Items, seed: int) -> Floats:
    """Compute a metric of :data:`RESAMPLED_METRICS` on resampled ``items`` [n, k]: values [samples]."""
    return bootstrap_samples(items, RESAMPLED_METRICS[metric], seed=seed)


def bootstrap_samples(items: Items, statistic: Statistic, *, seed: int, samples: int = SAMPLES) -> Floats:
    """Compute a statistic's values [samples] on resampled items (Efron, 1979).

    Equal ``seed``, ``samples`` and numbers of items resample the same rows. So values of two systems on the
    same items can be subtracted, and values of several metrics of the same items averaged.

    Args:
        items: one row [n, ...] for each item of a test set.
        statistic: computes a number from items.
        seed: seed of the resampling.
        samples: how often to resample.
    """
    rng = np.random.default_rng(seed)
    size = len(items)
    return np.array([statistic(items[rng.integers(size, size=size)]) for _ in range(samples)])


def percentile_interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """Return the percentiles between which ``level`` of the values lie; NaN is left out."""
    low, high = np.nanpercentile(values, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def p_value(differences: Floats) -> float:
    """Return the two-sided p of ``differences`` [samples] on resampled items; NaN if all are NaN."""
    known = differences[np.isfinite(differences)]
    if not len(known):
        return float("nan")
    positive = float(((known > 0) + 0.5 * (known == 0)).mean())
    return min(1.0, 2 * min(positive, 1 - positive) + 1 / len(differences))
