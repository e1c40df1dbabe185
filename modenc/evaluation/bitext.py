r"""Bitext retrieval and mining: nearest neighbors, ratio margins, hubness and mining F1.

Let x and y be unit rows, NN_k the k nearest rows on the other side, and cos the cosine. The score of a pair
is cos(x, y) or its ratio margin (Artetxe and Schwenk, 2019)

    margin(x, y) = cos(x, y) / ( Σ_{z∈NN_k(x)} cos(x, z) / 2k + Σ_{z∈NN_k(y)} cos(y, z) / 2k ),

which lowers the scores of hubs, rows that are near to everything. :mod:`modenc.mining` uses the same margins.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt
from scipy.stats import skew

from modenc.evaluation.retrieval import Vectors, unit

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Score = Literal["cosine", "margin"]

NEIGHBORS = 4


class Neighbors(NamedTuple):
    """The nearest rows of the other side, the best first."""

    cosines: Vectors
    """[n, k]"""
    rows: Integers
    """[n, k]"""


class RowPairs(NamedTuple):
    """Pairs of a left and a right row, from the best score down."""

    scores: Vectors
    """[c]"""
    left: Integers
    """[c]"""
    right: Integers
    """[c]"""

    def select(self, which: npt.NDArray[np.generic]) -> RowPairs:
        """Return the pairs at the positions, or in the mask, ``which``."""
        return RowPairs(self.scores[which], self.left[which], self.right[which])


def nearest_neighbors(queries: Vectors, targets: Vectors, k: int) -> Neighbors:
    """Return the ``k`` (at most all) ``targets`` [m, d] nearest to each of ``queries`` [n, d] by cosine."""
    return nearest_unit_vectors(unit(queries), unit(targets), k)


def nearest_unit_vectors(queries: Vectors, targets: Vectors, k: int) -> Neighbors:
    """As :func:`nearest_neighbors`, for rows that have length 1 already."""
    return Neighbors(*faiss.knn(queries, targets, min(k, len(targets)), metric=faiss.METRIC_INNER_PRODUCT))


def best_by_margin(neighbors: Neighbors, other_means: Vectors) -> tuple[Vectors, Integers]:
    """Choose for each row the neighbor with the best margin.

    Args:
        neighbors: each row's neighbors on the other side [n, k].
        other_means: each row of the other side's mean cosine with its neighbors on this side [m].

    Returns:
        Margins [n] and rows of the other side [n].
    """
    means = neighbors.cosines.mean(axis=1, keepdims=True)
    margins = neighbors.cosines / ((means + other_means[neighbors.rows]) / 2)
    best = margins.argmax(axis=1)
    each = np.arange(len(best))
    return margins[each, best], neighbors.rows[each, best]


def best_match(queries: Vectors, targets: Vectors, score: Score = "cosine") -> tuple[Vectors, Integers]:
    """Find the best-scoring row of ``targets`` [m, d] for each of ``queries`` [n, d].

    By margin it is chosen among the ``NEIGHBORS`` (4) nearest.

    Returns:
        Scores [n] and rows [n].
    """
    neighbors = nearest_neighbors(queries, targets, NEIGHBORS)
    if score == "cosine":
        return neighbors.cosines[:, 0], neighbors.rows[:, 0]
    return best_by_margin(neighbors, nearest_neighbors(targets, queries, NEIGHBORS).cosines.mean(axis=1))


def is_top1(queries: Vectors, targets: Vectors, score: Score = "cosine") -> Booleans:
    """Say for each row of ``queries`` [n, d] whether its best match is the same row of ``targets`` [n, d]."""
    hits: Booleans = best_match(queries, targets, score)[1] == np.arange(len(queries))
    return hits


def hubness(queries: Vectors, targets: Vectors, k: int = 10) -> float:
    """Return the skewness of the k-occurrence of ``targets`` [m, d] (Radovanović et al., 2010).

    The k-occurrence of a row is how many of ``queries`` [n, d] have it among their ``k`` nearest. The
    skewness is 0 where all rows have the same, and large where there are hubs, rows that are near to
    everything.
    """
    counts = np.bincount(nearest_neighbors(queries, targets, k).rows.ravel(), minlength=len(targets))
    return float(skew(counts)) if counts.std() else 0.0


def candidate_pairs(forward: tuple[Vectors, Integers], backward: tuple[Vectors, Integers]) -> RowPairs:
    """Merge the best matches of both directions: each pair once, with the better of its scores.

    Args:
        forward: score and right row of each left row [n].
        backward: score and left row of each right row [m].
    """
    scores = np.concatenate([forward[0], backward[0]])
    left = np.concatenate([np.arange(len(forward[1])), backward[1]])
    right = np.concatenate([forward[1], np.arange(len(backward[1]))])
    order = np.lexsort((right, left, -scores))
    pairs = RowPairs(scores, left, right).select(order)
    _, first = np.unique(pairs.left * (right.max(initial=0) + 1) + pairs.right, return_index=True)
    return pairs.select(np.sort(first))


def one_to_one(pairs: RowPairs) -> RowPairs:
    """Take each row at most once, from the best score down."""
    taken_left, taken_right, chosen = set[int](), set[int](), list[int]()
    for place, (left, right) in enumerate(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)):
        if left not in taken_left and right not in taken_right:
            taken_left.add(left)
            taken_right.add(right)
            chosen.append(place)
    return pairs.select(np.array(chosen, dtype=np.int64))


@dataclass(frozen=True)
class MiningScores:
    """F1, precision and recall, in percent, of mining at the threshold with the best F1."""

    f1: float
    precision: float
    recall: float
    threshold: float


def best_threshold(pairs: RowPairs, gold: Collection[tuple[int, int]]) -> MiningScores:
    """Find the threshold at which ``pairs`` agree best with the ``gold`` pairs of rows."""
    wanted, hits = set(gold), 0
    best = MiningScores(0.0, 0.0, 0.0, float("inf"))
    rows = zip(pairs.scores.tolist(), pairs.left.tolist(), pairs.right.tolist(), strict=True)
    for taken, (score, left, right) in enumerate(rows, start=1):
        hits += (left, right) in wanted
        f1 = 200 * hits / (taken + len(wanted)) if wanted else 0.0
        if f1 > best.f1:
            best = MiningScores(f1, 100 * hits / taken, 100 * hits / len(wanted), score)
    return best


def mining_scores(
    left: Vectors, right: Vectors, gold: Collection[tuple[int, int]], score: Score = "margin"
) -> MiningScores:
    """Score BUCC-style mining between ``left`` [n, d] and ``right`` [m, d].

    The candidates are the best matches of both directions. Each sentence is taken once, from the best score
    down to the threshold that has the best F1 against the ``gold`` pairs of rows.
    """
    pairs = candidate_pairs(best_match(left, right, score), best_match(right, left, score))
    return best_threshold(one_to_one(pairs), gold)
