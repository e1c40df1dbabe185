"""Metrics of a test set's items: their bootstrap intervals, and a paired test between two systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    if metric == "spearman":
        return spearman_samples(items, seed=seed)
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
    return np.array([statistic(items[rows]) for rows in _resamples(len(items), seed, samples)])


def spearman_samples(items: Items, *, seed: int, samples: int = SAMPLES) -> Floats:
    """As :func:`bootstrap_samples` of :func:`modenc.evaluation.sts.mean_spearman`, many times as fast."""
    # Items are the first axis, so that whole rows of memory are gathered and added.
    counts = np.zeros((len(items), samples))
    for number, rows in enumerate(_resamples(len(items), seed, samples)):
        counts[:, number] = np.bincount(rows, minlength=len(items))
    gold = _centered_ranks(items[:, -1], counts)
    gold_variance = np.einsum("is,is,is->s", counts, gold, gold)
    gold *= counts
    total = np.zeros(samples)
    with np.errstate(divide="ignore", invalid="ignore"):  # a constant has no correlation
        for column in items[:, :-1].T:
            ranks = _centered_ranks(column, counts)
            variance = np.einsum("is,is,is->s", counts, ranks, ranks)
            total += np.einsum("is,is->s", gold, ranks) / np.sqrt(gold_variance * variance)
    means: Floats = total / (items.shape[1] - 1) * 100
    return means


def _resamples(size: int, seed: int, samples: int) -> Iterator[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    for _ in range(samples):
        yield rng.integers(size, size=size)


def _centered_ranks(values: Floats, counts: Floats) -> Floats:
    """Rank ``values`` [n] taken ``counts`` [n, samples] times: average ranks less their mean [n, samples]."""
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    sizes = counts[order]
    if group.max() + 1 < len(values):
        starts = np.searchsorted(group[order], np.arange(group.max() + 1))
        sizes = np.add.reduceat(sizes, starts, axis=0)
    ranks = np.cumsum(sizes, axis=0)
    ranks -= sizes / 2
    ranks -= len(values) / 2
    centered: Floats = ranks[group]
    return centered


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
