"""Shapes of a space against scipy, scikit-learn and closed forms."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, pearsonr
from sklearn.metrics import calinski_harabasz_score

from modenc.evaluation import geometry
from modenc.evaluation.geometry import calinski_harabasz, invariance, isotropy, rsim
from modenc.evaluation.retrieval import unit


@pytest.fixture
def languages():
    rng = np.random.default_rng(3)
    meaning = rng.normal(size=(50, 5))
    return [(meaning + 0.5 * rng.normal(size=meaning.shape)).astype(np.float32) for _ in range(3)]


def test_rsim_is_the_correlation_of_cosine_lists(languages):
    lists = [
        [side[i] @ side[j] for i in range(50) for j in range(i + 1, 50)]
        for side in (unit(languages[0]), unit(languages[1]))
    ]
    assert rsim(*languages[:2]) == pytest.approx(pearsonr(*lists).statistic, abs=1e-5)
    assert rsim(languages[0], languages[0]) == pytest.approx(1)
    assert abs(rsim(languages[0], languages[1][::-1].copy())) < rsim(*languages[:2])


def test_divergence_equals_monte_carlo():
    rng = np.random.default_rng(5)
    p = (np.array([0.0, 1.0]), np.array([[1.0, 0.3], [0.3, 0.5]]))
    q = (np.array([0.5, 0.0]), np.array([[0.8, -0.1], [-0.1, 1.2]]))
    draws = rng.multivariate_normal(*p, size=200_000)
    sampled = (multivariate_normal(*p).logpdf(draws) - multivariate_normal(*q).logpdf(draws)).mean()
    assert geometry._divergence(*p, *q) == pytest.approx(sampled, rel=0.02)


def test_a_language_that_is_elsewhere_is_not_invariant(languages):
    assert invariance([languages[0], languages[0]]) == pytest.approx(0, abs=1e-9)
    shifted = [languages[0], languages[1] + 2.0]
    assert invariance(shifted) > invariance(languages) > 0


def test_clusters_of_translations_equal_scikit_learns(languages):
    stacked = np.concatenate([unit(vectors) for vectors in languages])
    labels = np.tile(np.arange(50), 3)
    freedom = (150 - 50) / (50 - 1)
    assert calinski_harabasz(languages) * freedom == pytest.approx(
        calinski_harabasz_score(stacked, labels), rel=1e-4
    )
    swapped = [languages[0], languages[1][::-1].copy(), languages[2]]
    assert calinski_harabasz(swapped) < calinski_harabasz(languages)


def test_isotropy_of_a_line_and_of_a_ball():
    rng = np.random.default_rng(11)
    ball = rng.normal(size=(5000, 4))
    line = np.outer(np.abs(rng.normal(size=5000)) + 0.1, np.ones(4))
    assert isotropy(ball) > 0.9
    assert isotropy(line) < 0.5
