"""Metrics of a test set's items: their bootstrap intervals, and a paired test between two systems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from modenc.evaluation.sts import Items, mean_spearman

Floats = npt.NDArray[np.float64]

SAMPLES = 1000


def percent(items: Items) -> float:
    """Average items from 0 (a miss) to 1 (a hit), in percent."""
    return float(items.mean() * 100)


def percent_missed(items: Items) -> float:
    """Return what :func:`percent` leaves of 100."""
    return 100 - percent(items)


METRICS: dict[str, Callable[[Items], float]] = {
    "spearman": mean_spearman,
    "xsim_error": percent_missed,
    "xsim_error_cosine": percent_missed,
    "ndcg_at_10": percent,
    "accuracy_at_1": percent,
    "mrr_at_10": percent,
    "pool_accuracy_at_1": percent,
    "pool_own_language": percent,
    "accuracy": percent,
    "zero_shot_accuracy": percent,
}
"""Metric with an interval → its value of a test set's items [n, k]."""


def resample_metric(metric: str, items: Items, seed: int) -> Floats:
    """Compute a metric's values [samples] on resampled ``items`` [n, k] (Efron, 1979).

    Equal ``seed`` and numbers of items resample the same rows. So values of two systems on the
    same items can be subtracted, and values of several metrics of the same items averaged.
    """
    rng = np.random.default_rng(seed)
    size = len(items)
    value = METRICS[metric]
    return np.array([value(items[rng.integers(size, size=size)]) for _ in range(SAMPLES)])


def percentile_interval(values: Floats) -> tuple[float, float]:
    """Return the percentiles between which 95% of the values lie; NaN is left out."""
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return float(low), float(high)


def p_value(differences: Floats) -> float:
    """Return the two-sided p of ``differences`` [samples] on resampled items; NaN if all are NaN."""
    known = differences[np.isfinite(differences)]
    if not len(known):
        return float("nan")
    positive = float(((known > 0) + 0.5 * (known == 0)).mean())
    return min(1.0, 2 * min(positive, 1 - positive) + 1 / len(differences))
