"""How sure a figure is: bootstrap intervals, and a paired test between two systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Items = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float64]
Statistic = Callable[[Items], float]

SAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A percentile interval."""

    low: float
    high: float


def bootstrap_samples(items: Items, statistic: Statistic, *, seed: int, samples: int = SAMPLES) -> Floats:
    """A statistic's values [samples] on resampled items (Efron, 1979).

    Equal ``seed``, ``samples`` and numbers of items resample the same rows, so values of two systems on the
    same items can be subtracted, and those of several measures of the same items averaged.

    Args:
        items: one row [n, ...] for each item of a test set.
        statistic: items → a number.
        seed: of the resampling.
        samples: how often to resample.
    """
    return np.array([statistic(items[rows]) for rows in _resamples(len(items), seed, samples)])


def spearman_samples(items: Items, *, seed: int, samples: int = SAMPLES) -> Floats:
    """:func:`bootstrap_samples` of :func:`modenc.evaluation.sts.mean_spearman`, many times as fast.

    Args:
        items: rows [n, k] of k - 1 scores and, last, what each is correlated with.
        seed: of the resampling.
        samples: how often to resample.
    """
    # Items first: rows of memory are then gathered and added whole.
    counts = np.zeros((len(items), samples))
    for number, rows in enumerate(_resamples(len(items), seed, samples)):
        counts[:, number] = np.bincount(rows, minlength=len(items))
    gold = _centered_ranks(items[:, -1], counts)
    spread = np.einsum("is,is,is->s", counts, gold, gold)
    gold *= counts
    total = np.zeros(samples)
    with np.errstate(divide="ignore", invalid="ignore"):  # a constant has no correlation
        for column in items[:, :-1].T:
            ranks = _centered_ranks(column, counts)
            own = np.einsum("is,is,is->s", counts, ranks, ranks)
            total += np.einsum("is,is->s", gold, ranks) / np.sqrt(spread * own)
    means: Floats = total / (items.shape[1] - 1) * 100
    return means


def _resamples(size: int, seed: int, samples: int) -> Iterator[npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    for _ in range(samples):
        yield rng.integers(size, size=size)


def _centered_ranks(values: Floats, counts: Floats) -> Floats:
    """Average ranks less their mean, [n, samples], of ``values`` [n] taken ``counts`` [n, samples] times."""
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


def interval_of(values: Floats, level: float = 0.95) -> Interval:
    """The percentiles between which ``level`` of the values lie; NaN, as of a constant, aside."""
    low, high = np.nanpercentile(values, [50 * (1 - level), 50 * (1 + level)])
    return Interval(float(low), float(high))


def p_of_gaps(gaps: Floats) -> float:
    """Two-sided p of a difference that is ``gaps`` [samples] on resampled items; NaN where all are."""
    known = gaps[np.isfinite(gaps)]
    if not len(known):
        return float("nan")
    share = float(((known > 0) + 0.5 * (known == 0)).mean())
    return min(1.0, 2 * min(share, 1 - share) + 1 / len(gaps))
