r"""Bitext retrieval and mining: nearest neighbors, ratio margins, hubness and mining F1.

Let x and y be unit rows, NN_k the k nearest rows on the other side, and cos the cosine. The score of a pair
is cos(x, y) or its ratio margin (Artetxe and Schwenk, 2019)

    margin(x, y) = cos(x, y) / ( Σ_{z∈NN_k(x)} cos(x, z) / 2k + Σ_{z∈NN_k(y)} cos(y, z) / 2k ),

which lowers the scores of hubs, rows that are near to everything. :mod:`modenc.mining` uses the same margins.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

import faiss
import numpy as np
import numpy.typing as npt
from scipy.stats import skew

from modenc.evaluation.retrieval import Vectors

Integers = npt.NDArray[np.int64]
Score = Literal["cosine", "margin"]
Matches: TypeAlias = tuple[Vectors, Integers]
"""Scores and rows of the other side, of the nearest ones [n, k] or of the best [n]."""

NEIGHBORS = 4


def nearest_neighbors(queries: Vectors, targets: Vectors, k: int) -> Matches:
    """Return the ``k`` (at most all) ``targets`` [m, d] nearest to each of ``queries`` [n, d], unit rows."""
    cosines, rows = faiss.knn(queries, targets, min(k, len(targets)), metric=faiss.METRIC_INNER_PRODUCT)
    return cosines, rows


def best_matches(left: Vectors, right: Vectors, score: Score, k: int = NEIGHBORS) -> tuple[Matches, Matches]:
    """Find the best-scoring row of the other side, among the ``k`` nearest, for each row of both sides.

    Args:
        left: unit rows [n, d].
        right: unit rows [m, d].
        score: the score.
        k: neighbors, also of margins.

    Returns:
        Of ``left`` scores [n] and rows of ``right`` [n], and the same of ``right`` [m].
    """
    ahead, to_right = nearest_neighbors(left, right, k)
    back, to_left = nearest_neighbors(right, left, k)
    if score == "margin":
        of_left, of_right = ahead.mean(axis=1), back.mean(axis=1)
        ahead = ahead / ((of_left[:, None] + of_right[to_right]) / 2)
        back = back / ((of_right[:, None] + of_left[to_left]) / 2)
    return _best(ahead, to_right), _best(back, to_left)


def _best(scores: Vectors, rows: Integers) -> Matches:
    each, best = np.arange(len(scores)), scores.argmax(axis=1)
    return scores[each, best], rows[each, best]


def hubness(queries: Vectors, targets: Vectors, k: int = 10) -> float:
    """Return the skewness of the k-occurrence of ``targets`` [m, d] (Radovanović et al., 2010), unit rows.

    The k-occurrence of a row is how many of ``queries`` [n, d] have it among their ``k`` nearest. The
    skewness is 0 where all rows have the same, and large where there are hubs, rows that are near to
    everything.
    """
    counts = np.bincount(nearest_neighbors(queries, targets, k)[1].ravel(), minlength=len(targets))
    return float(skew(counts)) if counts.std() else 0.0


def one_to_one(forward: Matches, backward: Matches) -> list[tuple[float, int, int]]:
    """Take the best matches of both directions from the best score down, each row once.

    Args:
        forward: score and right row of each left row [n].
        backward: score and left row of each right row [m].

    Returns:
        Score, left row and right row of each pair.
    """
    scores = np.concatenate([forward[0], backward[0]])
    left = np.concatenate([np.arange(len(forward[1])), backward[1]])
    right = np.concatenate([forward[1], np.arange(len(backward[1]))])
    order = np.lexsort((right, left, -scores))
    taken_left, taken_right, pairs = set[int](), set[int](), list[tuple[float, int, int]]()
    for score, i, j in zip(*(column[order].tolist() for column in (scores, left, right)), strict=True):
        if i not in taken_left and j not in taken_right:
            taken_left.add(i)
            taken_right.add(j)
            pairs.append((score, i, j))
    return pairs


def mining_f1(left: Vectors, right: Vectors, gold: Collection[tuple[int, int]], score: Score) -> float:
    """Score BUCC-style mining between unit rows ``left`` [n, d] and ``right`` [m, d]: F1 in percent.

    The pairs of :func:`one_to_one` are taken down to the threshold that has the best F1 against the ``gold``
    pairs of rows.
    """
    hits, best = 0, 0.0
    for taken, (_, i, j) in enumerate(one_to_one(*best_matches(left, right, score)), start=1):
        hits += (i, j) in gold
        best = max(best, 200 * hits / (taken + len(gold)))
    return best
