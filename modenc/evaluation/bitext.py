r"""Finding translations: the best match of each sentence, mining, and the hubs that stand in the way.

With unit rows x and y, NN_k the k nearest rows on the other side and cos the cosine, a pair scores
cos(x, y), or by ratio margin (Artetxe and Schwenk, 2019)

    margin(x, y) = cos(x, y) / ( Σ_{z∈NN_k(x)} cos(x, z) / 2k + Σ_{z∈NN_k(y)} cos(y, z) / 2k ),

which takes away what hubs, near to everything, score everywhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import faiss
import numpy as np
import numpy.typing as npt
from scipy.stats import skew

from modenc.evaluation.retrieval import unit

Vectors = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Score = Literal["cosine", "margin"]

NEIGHBOURS = 4


def nearest(queries: Vectors, targets: Vectors, k: int) -> tuple[Vectors, Integers]:
    """Cosines and rows of the ``k`` (at most all) ``targets`` [m, d] nearest to each of ``queries`` [n, d].

    Returns:
        Two arrays [n, k], the best first.
    """
    index = faiss.IndexFlatIP(targets.shape[1])
    index.add(unit(targets))
    cosines, rows = index.search(unit(queries), min(k, len(targets)))
    return cosines, rows


def best_match(queries: Vectors, targets: Vectors, score: Score = "cosine") -> tuple[Vectors, Integers]:
    """The best-scoring row of ``targets`` [m, d] for each of ``queries`` [n, d].

    By margin it is chosen among the ``NEIGHBOURS`` (4) nearest.

    Returns:
        Scores [n] and rows [n].
    """
    cosines, rows = nearest(queries, targets, NEIGHBOURS)
    if score == "cosine":
        return cosines[:, 0], rows[:, 0]
    backward, _ = nearest(targets, queries, NEIGHBOURS)
    around = (cosines.mean(axis=1, keepdims=True) + backward.mean(axis=1)[rows]) / 2
    margins = cosines / around
    best = margins.argmax(axis=1)
    each = np.arange(len(queries))
    return margins[each, best], rows[each, best]


def is_top1(queries: Vectors, targets: Vectors, score: Score = "cosine") -> Booleans:
    """Whether the best match of each row of ``queries`` [n, d] is the same row of ``targets`` [n, d]."""
    hits: Booleans = best_match(queries, targets, score)[1] == np.arange(len(queries))
    return hits


def hubness(queries: Vectors, targets: Vectors, k: int = 10) -> float:
    """Skewness of how often each row of ``targets`` [m, d] is among the ``k`` nearest of ``queries`` [n, d].

    0 where all are found equally often; hubs, near to everything, make it large (Radovanović et al., 2010).
    """
    counts = np.bincount(nearest(queries, targets, k)[1].ravel(), minlength=len(targets))
    return float(skew(counts)) if counts.std() else 0.0


@dataclass(frozen=True)
class Mining:
    """What mining finds at the threshold with the best F1; percent."""

    f1: float
    precision: float
    recall: float
    threshold: float


def mine(left: Vectors, right: Vectors, gold: Collection[tuple[int, int]], score: Score = "margin") -> Mining:
    """BUCC-style mining between ``left`` [n, d] and ``right`` [m, d].

    Candidates are the best matches of both directions; from the best score down, each sentence is
    taken once; the threshold is the one with the best F1 against the ``gold`` pairs of rows.
    """
    candidates: dict[tuple[int, int], float] = {}
    for forward in (True, False):
        scores, rows = best_match(left, right, score) if forward else best_match(right, left, score)
        for row, (value, match) in enumerate(zip(scores.tolist(), rows.tolist(), strict=True)):
            pair = (row, match) if forward else (match, row)
            candidates[pair] = max(value, candidates.get(pair, value))
    wanted, taken_left, taken_right = set(gold), set[int](), set[int]()
    best = Mining(0.0, 0.0, 0.0, float("inf"))
    hits = taken = 0
    for pair, value in sorted(candidates.items(), key=lambda item: (-item[1], item[0])):
        if pair[0] in taken_left or pair[1] in taken_right:
            continue
        taken_left.add(pair[0])
        taken_right.add(pair[1])
        taken += 1
        hits += pair in wanted
        f1 = 200 * hits / (taken + len(wanted)) if wanted else 0.0
        if f1 > best.f1:
            best = Mining(f1, 100 * hits / taken, 100 * hits / len(wanted), value)
    return best
