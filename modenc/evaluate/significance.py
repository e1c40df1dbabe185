"""How sure a figure is: bootstrap intervals, and a paired test between two systems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Items = npt.NDArray[np.float64]
Statistic = Callable[[Items], float]

SAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A percentile interval."""

    low: float
    high: float


def bootstrap_interval(
    items: Items, statistic: Statistic, *, seed: int, samples: int = SAMPLES, level: float = 0.95
) -> Interval:
    """The interval that holds ``level`` of a statistic's values on resampled items (Efron, 1979).

    Args:
        items: one row [n, ...] for each item of a test set.
        statistic: items → a number.
        seed: of the resampling.
        samples: how often to resample.
        level: share of values inside.
    """
    rng = np.random.default_rng(seed)
    values = [statistic(items[rng.integers(len(items), size=len(items))]) for _ in range(samples)]
    low, high = np.nanpercentile(values, [50 * (1 - level), 50 * (1 + level)])
    return Interval(float(low), float(high))


def paired_p(
    items_a: Items, items_b: Items, statistic: Statistic, *, seed: int, samples: int = SAMPLES
) -> float:
    """Two-sided p of a difference between two systems on the same items (paired bootstrap, Koehn, 2004).

    NaN where the statistic has no value, as a correlation with a constant.

    Args:
        items_a: rows [n, ...] of one system.
        items_b: rows [n, ...] of the other, item for item.
        statistic: items → a number.
        seed: of the resampling.
        samples: how often to resample.

    Raises:
        ValueError: the systems were not measured on equally many items.
    """
    if len(items_a) != len(items_b):
        raise ValueError(f"expected the same items for both systems, found {len(items_a)} and {len(items_b)}")
    rng = np.random.default_rng(seed)
    wins, compared = 0.0, 0
    for _ in range(samples):
        rows = rng.integers(len(items_a), size=len(items_a))
        gap = statistic(items_a[rows]) - statistic(items_b[rows])
        if np.isfinite(gap):
            wins += 1.0 if gap > 0 else 0.5 if gap == 0 else 0.0
            compared += 1
    if not compared:
        return float("nan")
    share = wins / compared
    return float(min(1.0, 2 * min(share, 1 - share) + 1 / samples))
