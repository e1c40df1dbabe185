"""Intervals and paired tests on cases whose answers are known."""

import numpy as np
import pytest

from modenc.evaluation.results import SystemResults, paired_differences
from modenc.evaluation.significance import bootstrap_samples, p_value, percentile_interval

KEY = "topic.accuracy.kk"


def _mean(items):
    return float(items.mean())


def _system(items):
    return SystemResults("tiny", "small", 1, 1.0, {}, (), {KEY: items})


def _p(first, other):
    return p_value(paired_differences(_system(first), _system(other), KEY))


def test_the_interval_of_a_mean_is_the_textbooks():
    rng = np.random.default_rng(2)
    items = rng.normal(10, 2, size=(400, 1))
    low, high = percentile_interval(bootstrap_samples(items, _mean, seed=1, samples=4000))
    half = 1.96 * items.std(ddof=1) / 20
    assert low == pytest.approx(items.mean() - half, abs=0.03)
    assert high == pytest.approx(items.mean() + half, abs=0.03)
    assert (low, high) == percentile_interval(bootstrap_samples(items, _mean, seed=1, samples=4000))


def test_paired_differences():
    rng = np.random.default_rng(2)
    first = rng.normal(size=(300, 1))
    assert _p(first, first) == 1
    # A small gain on every item is sure, though far below the spread between items.
    assert _p(first + 0.1, first) < 0.01
    assert paired_differences(_system(first + 0.1), _system(first), KEY) == pytest.approx(10)
    assert _p(first + rng.normal(0, 1, size=first.shape), first) > 0.05


def test_systems_are_paired_on_the_same_items_alone():
    items = np.ones((300, 1))
    message = f"{KEY}: expected the same items for both systems, found 300 and 299"
    with pytest.raises(ValueError, match=message):
        paired_differences(_system(items), _system(items[1:]), KEY)


def test_a_statistic_without_a_value_has_no_p():
    assert np.isnan(p_value(np.full(20, np.nan)))
