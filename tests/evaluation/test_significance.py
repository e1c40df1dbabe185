"""Intervals and p on cases whose answers are known."""

import numpy as np
import pytest

from modenc.evaluation import significance
from modenc.evaluation.significance import p_value, percentile_interval, resample_metric


def _p(first, other):
    return p_value(resample_metric("accuracy", first, 1) - resample_metric("accuracy", other, 1))


def test_the_interval_of_a_mean_is_the_textbooks(monkeypatch):
    monkeypatch.setattr(significance, "SAMPLES", 4000)
    items = np.random.default_rng(2).normal(0.1, 0.02, size=(400, 1))
    low, high = percentile_interval(resample_metric("accuracy", items, 1))
    half = 100 * 1.96 * items.std(ddof=1) / 20
    assert low == pytest.approx(100 * items.mean() - half, abs=0.03)
    assert high == pytest.approx(100 * items.mean() + half, abs=0.03)


def test_p_is_of_pairs_of_items():
    rng = np.random.default_rng(2)
    first = rng.normal(size=(300, 1))
    assert _p(first, first) == 1
    # A small gain on every item is sure, though far below the spread between items.
    assert _p(first + 0.1, first) < 0.01
    assert _p(first + rng.normal(0, 1, size=first.shape), first) > 0.05


def test_a_statistic_without_a_value_has_no_p():
    assert np.isnan(p_value(np.full(20, np.nan)))
