r"""Finding translations: the best match of each sentence, mining, and the hubs that stand in the way.

With unit rows x and y, NN_k the k nearest rows on the other side and cos the cosine, a pair scores
cos(x, y), or by ratio margin (Artetxe and Schwenk, 2019)

    margin(x, y) = cos(x, y) / ( Σ_{z∈NN_k(x)} cos(x, z) / 2k + Σ_{z∈NN_k(y)} cos(y, z) / 2k ),

which takes away what hubs, near to everything, score everywhere. :mod:`modenc.mining` mines with the same
margins.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt
from scipy.stats import skew

from modenc.evaluation.retrieval import unit

Vectors = npt.NDArray[np.float32]
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


class Pairs(NamedTuple):
    """Pairs of a left and a right row, from the best score down."""

    scores: Vectors
    """[c]"""
    left: Integers
    """[c]"""
    right: Integers
    """[c]"""

    def select(self, which: npt.NDArray[np.generic]) -> Pairs:
        """Those that a mask or an array of positions names."""
        return Pairs(self.scores[which], self.left[which], self.right[which])


def nearest(queries: Vectors, targets: Vectors, k: int) -> Neighbors:
    """The ``k`` (at most all) ``targets`` [m, d] nearest to each of ``queries`` [n, d] by cosine."""
    return nearest_units(unit(queries), unit(targets), k)


def nearest_units(queries: Vectors, targets: Vectors, k: int) -> Neighbors:
    """As :func:`nearest`, of rows that have length 1 already."""
    found = faiss.knn(queries, targets, min(k, len(targets)), metric=faiss.METRIC_INNER_PRODUCT)
    return Neighbors(*found)


def best_by_margin(own: Neighbors, around: Vectors) -> tuple[Vectors, Integers]:
    """The neighbor of each row with the best margin.

    Args:
        own: of each row [n, k].
        around: of each row of the other side, its mean cosine with its own neighbors [m].

    Returns:
        Margins [n] and rows of the other side [n].
    """
    margins = own.cosines / ((own.cosines.mean(axis=1, keepdims=True) + around[own.rows]) / 2)
    best = margins.argmax(axis=1)
    each = np.arange(len(best))
    return margins[each, best], own.rows[each, best]


def best_match(queries: Vectors, targets: Vectors, score: Score = "cosine") -> tuple[Vectors, Integers]:
    """The best-scoring row of ``targets`` [m, d] for each of ``queries`` [n, d].

    By margin it is chosen among the ``NEIGHBORS`` (4) nearest.

    Returns:
        Scores [n] and rows [n].
    """
    own = nearest(queries, targets, NEIGHBORS)
    if score == "cosine":
        return own.cosines[:, 0], own.rows[:, 0]
    return best_by_margin(own, nearest(targets, queries, NEIGHBORS).cosines.mean(axis=1))


def is_top1(queries: Vectors, targets: Vectors, score: Score = "cosine") -> Booleans:
    """Whether the best match of each row of ``queries`` [n, d] is the same row of ``targets`` [n, d]."""
    hits: Booleans = best_match(queries, targets, score)[1] == np.arange(len(queries))
    return hits


def hubness(queries: Vectors, targets: Vectors, k: int = 10) -> float:
    """Skewness of how often each row of ``targets`` [m, d] is among the ``k`` nearest of ``queries`` [n, d].

    0 where all are found equally often; hubs, near to everything, make it large (Radovanović et al., 2010).
    """
    counts = np.bincount(nearest(queries, targets, k).rows.ravel(), minlength=len(targets))
    return float(skew(counts)) if counts.std() else 0.0


def candidate_pairs(forward: tuple[Vectors, Integers], backward: tuple[Vectors, Integers]) -> Pairs:
    """The best matches of both directions, each pair once, with the better of its scores.

    Args:
        forward: score and right row of each left row [n].
        backward: score and left row of each right row [m].
    """
    scores = np.concatenate([forward[0], backward[0]])
    left = np.concatenate([np.arange(len(forward[1])), backward[1]])
    right = np.concatenate([forward[1], np.arange(len(backward[1]))])
    order = np.lexsort((right, left, -scores))
    pairs = Pairs(scores, left, right).select(order)
    _, first = np.unique(pairs.left * (right.max(initial=0) + 1) + pairs.right, return_index=True)
    return pairs.select(np.sort(first))


def one_to_one(pairs: Pairs) -> Pairs:
    """From the best score down, the pairs whose two rows are both still free."""
    taken_left, taken_right, kept = set[int](), set[int](), list[int]()
    for place, (left, right) in enumerate(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)):
        if left not in taken_left and right not in taken_right:
            taken_left.add(left)
            taken_right.add(right)
            kept.append(place)
    return pairs.select(np.array(kept, dtype=np.int64))


@dataclass(frozen=True)
class Mining:
    """What mining finds at the threshold with the best F1; percent."""

    f1: float
    precision: float
    recall: float
    threshold: float


def best_threshold(pairs: Pairs, gold: Collection[tuple[int, int]]) -> Mining:
    """The threshold at which ``pairs`` agree best with the ``gold`` pairs of rows."""
    wanted, hits = set(gold), 0
    best = Mining(0.0, 0.0, 0.0, float("inf"))
    rows = zip(pairs.scores.tolist(), pairs.left.tolist(), pairs.right.tolist(), strict=True)
    for taken, (score, left, right) in enumerate(rows, start=1):
        hits += (left, right) in wanted
        f1 = 200 * hits / (taken + len(wanted)) if wanted else 0.0
        if f1 > best.f1:
            best = Mining(f1, 100 * hits / taken, 100 * hits / len(wanted), score)
    return best


def mine(left: Vectors, right: Vectors, gold: Collection[tuple[int, int]], score: Score = "margin") -> Mining:
    """BUCC-style mining between ``left`` [n, d] and ``right`` [m, d].

    Candidates are the best matches of both directions; from the best score down, each sentence is
    taken once; the threshold is the one with the best F1 against the ``gold`` pairs of rows.
    """
    pairs = candidate_pairs(best_match(left, right, score), best_match(right, left, score))
    return best_threshold(one_to_one(pairs), gold)
