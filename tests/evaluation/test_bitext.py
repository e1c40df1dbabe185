"""Retrieval, xsim and mining against loops written out by hand."""

import numpy as np
import pytest

from modenc.evaluation.bitext import best_matches, hubness, mining_f1
from modenc.evaluation.retrieval import mean_accuracy_at_1, unit


@pytest.fixture
def sides():
    rng = np.random.default_rng(7)
    left = rng.normal(size=(40, 6)).astype(np.float32)
    right = (left + 0.9 * rng.normal(size=left.shape)).astype(np.float32)
    return unit(left), unit(right)


def _cosine(x, y):
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def _margins(left, right, k=4):
    cosines = np.array([[_cosine(x, y) for y in right] for x in left])
    of_left = np.sort(cosines, axis=1)[:, -k:].sum(axis=1) / (2 * k)
    of_right = np.sort(cosines, axis=0)[-k:].sum(axis=0) / (2 * k)
    return cosines, cosines / (of_left[:, None] + of_right[None, :])


def _top1(left, right, score="cosine"):
    """Whether the best match of each left row, and of each right row, is the same row of the other side."""
    return [rows == np.arange(len(rows)) for _, rows in best_matches(left, right, score)]


def test_margin_takes_the_best_of_four_neighbors(sides):
    cosines, margins = _margins(*sides)
    scores, rows = best_matches(*sides, "margin")[0]
    for i in range(len(margins)):
        candidates = np.argsort(-cosines[i])[:4]
        assert rows[i] == candidates[margins[i, candidates].argmax()]
        assert scores[i] == pytest.approx(margins[i, rows[i]], abs=1e-5)


def test_a_hub_is_found_by_cosine_and_not_by_margin():
    # The third row of the right side is near to everything.
    left = np.array([[1, 0.2, 0], [0.2, 1, 0], [0.6, 0.6, 0.6], [0, 0, 1]], dtype=np.float32)
    right = np.array([[0.7, 0, -0.7], [0, 0.7, -0.7], [1, 1, 0.2], [0, 0, 1]], dtype=np.float32)
    sides = unit(left), unit(right)
    assert _top1(*sides)[0].sum() < _top1(*sides, "margin")[0].sum()


def test_hubness_is_the_skewness_of_k_occurrence(sides):
    left, right = sides
    counts = np.zeros(len(right))
    for x in left:
        counts[np.argsort([-_cosine(x, y) for y in right])[:10]] += 1
    away = counts - counts.mean()
    expected = (away**3).mean() / (away**2).mean() ** 1.5
    assert hubness(left, right) == pytest.approx(expected)
    # A row in the middle of all others is a neighbor of each.
    hub = right.copy()
    hub[0] = left.mean(axis=0)
    assert hubness(left, unit(hub), k=1) > hubness(left, right, k=1)
    assert hubness(left, right, k=len(right)) == 0.0


def test_top1_equals_loops_over_all_rows(sides):
    left, right = sides
    cosines, _ = _margins(left, right)
    own = np.arange(len(left))
    there, back = cosines.argmax(1) == own, cosines.argmax(0) == own
    assert np.array_equal(_top1(left, right), [there, back])
    assert mean_accuracy_at_1(left, right) == pytest.approx(50 * (there.mean() + back.mean()))
    assert np.all(_top1(left, left, "margin"))
    assert _top1(left, right[::-1], "margin")[0].mean() < 0.1


def _best_of_four(cosines, scores):
    candidates = np.argsort(-cosines)[:4]
    return int(candidates[scores[candidates].argmax()])


@pytest.mark.parametrize("score", ["cosine", "margin"])
def test_mining_finds_the_best_threshold(sides, score):
    left, right = sides
    # Rows 10 to 29 of the left have their translations in rows 0 to 19 of the right; the rest is noise.
    a, b = left[:30], right[10:]
    gold = {(10 + i, i) for i in range(20)}
    mining = mining_f1(a, b, gold, score)
    cosines, margins = _margins(a, b)
    scores = margins if score == "margin" else cosines
    pairs = {(i, _best_of_four(cosines[i], scores[i])) for i in range(30)} | {
        (_best_of_four(cosines[:, j], scores[:, j]), j) for j in range(30)
    }
    best = 0.0
    for threshold in sorted(scores[i, j] for i, j in pairs):
        taken, rows, columns = set(), set(), set()
        for i, j in sorted(pairs, key=lambda pair: -scores[pair]):
            if scores[i, j] >= threshold and i not in rows and j not in columns:
                taken.add((i, j))
                rows.add(i)
                columns.add(j)
        best = max(best, 200 * len(taken & gold) / (len(taken) + len(gold)))
    assert mining == pytest.approx(best)
    assert 0 < mining < 100
