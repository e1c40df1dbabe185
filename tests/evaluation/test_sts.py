"""Similarity measures against scipy's."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from modenc.evaluation.sts import cross_similarity, language_bias, pair_cosines, spearman


def test_spearman_of_cosines():
    rng = np.random.default_rng(1)
    left, right, gold = rng.normal(size=(30, 4)), rng.normal(size=(30, 4)), rng.normal(size=30)
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(left, right, strict=True)]
    assert np.allclose(pair_cosines(left, right), cosines)
    assert spearman(left, right, gold) == pytest.approx(spearmanr(cosines, gold).statistic * 100)


def test_language_bias_is_what_pooling_costs():
    gold = np.arange(20.0)
    level = [(gold, gold), (gold, gold)]
    assert language_bias(level) == pytest.approx(0)
    # One pair of languages whose cosines all lie above the other's: fine one by one, wrong together.
    apart = [(gold, gold), (gold + 100, gold)]
    pooled = spearmanr(np.concatenate([gold, gold + 100]), np.concatenate([gold, gold])).statistic
    assert language_bias(apart) == pytest.approx((1 - pooled) * 100)
    assert language_bias(apart) > 20


def test_similarity_across_is_perfect_for_the_pivots_own_vectors():
    rng = np.random.default_rng(4)
    pivot = rng.normal(size=(60, 8))
    pivot /= np.linalg.norm(pivot, axis=1, keepdims=True)
    noisy = pivot + 0.3 * rng.normal(size=pivot.shape)
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    assert cross_similarity(pivot, pivot) == pytest.approx(100)
    assert cross_similarity(pivot[::-1], pivot) < cross_similarity(noisy, pivot) < 100
