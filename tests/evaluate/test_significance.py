"""Intervals and paired tests on cases whose answers are known."""

import numpy as np
import pytest

from modenc.evaluate.significance import bootstrap_interval, paired_p


def _mean(items):
    return float(items.mean())


def test_the_interval_of_a_mean_is_the_textbooks():
    rng = np.random.default_rng(2)
    items = rng.normal(10, 2, size=(400, 1))
    interval = bootstrap_interval(items, _mean, seed=1, samples=4000)
    half = 1.96 * items.std(ddof=1) / 20
    assert interval.low == pytest.approx(items.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(items.mean() + half, abs=0.03)
    assert interval == bootstrap_interval(items, _mean, seed=1, samples=4000)


def test_paired_differences():
    rng = np.random.default_rng(2)
    first = rng.normal(size=(300, 1))
    assert paired_p(first, first, _mean, seed=1) == 1
    # A small gain on every item is sure, though far below the spread between items.
    assert paired_p(first + 0.1, first, _mean, seed=1) < 0.01
    assert paired_p(first + rng.normal(0, 1, size=first.shape), first, _mean, seed=1) > 0.05
    with pytest.raises(ValueError, match="expected the same items for both systems, found 300 and 299"):
        paired_p(first, first[1:], _mean, seed=1)


def test_a_statistic_without_a_value_has_no_p():
    items = np.ones((20, 1))
    assert np.isnan(paired_p(items, items, lambda rows: float("nan"), seed=1))
