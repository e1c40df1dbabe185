"""Semantic textual similarity: Spearman correlation of cosines with human scores, times 100."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

Vectors = npt.NDArray[np.float32]


def pair_cosines(left: Vectors, right: Vectors) -> Vectors:
    """Cosine of each row of ``left`` [n, d] with the same row of ``right`` [n, d]; shape [n]."""
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: Vectors = (left * right).sum(axis=1) / np.maximum(norms, 1e-12)
    return cosines


def spearman(left: Vectors, right: Vectors, scores: npt.ArrayLike) -> float:
    """Spearman correlation times 100 of the rows' cosines with ``scores`` [n]."""
    return float(spearmanr(pair_cosines(left, right), np.asarray(scores)).statistic * 100)


def mean_spearman(items: npt.NDArray[np.float64]) -> float:
    """Spearman correlation times 100 of each column of ``items`` [n, k] with its last; their mean."""
    return float(np.mean([spearmanr(column, items[:, -1]).statistic for column in items[:, :-1].T]) * 100)


def cross_similarity(vectors: Vectors, pivot: Vectors, neighbours: int = 8) -> float:
    """Similarity across two languages without gold scores, where the pivot's own cosines stand for them.

    Spearman correlation times 100 of the cosines between a sentence and the translations of its nearest
    neighbours, its own included, with the cosines that the pivot gives to those pairs.

    Args:
        vectors: unit rows [n, d] of sentences.
        pivot: unit rows [n, d] of their translations.
        neighbours: how many translations each sentence is compared to.
    """
    own = pivot @ pivot.T
    near = np.argsort(-own, axis=1)[:, : neighbours + 1]
    across = np.take_along_axis(vectors @ pivot.T, near, axis=1)
    return float(spearmanr(across.ravel(), np.take_along_axis(own, near, axis=1).ravel()).statistic * 100)


def language_bias(pairs: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]) -> float:
    """How much a pool of several languages costs (Roy et al., 2020), on a scale of 100.

    Mean Spearman over the language pairs, minus Spearman over all of their items together.

    Args:
        pairs: for each language pair, cosines [n] and gold scores [n].
    """
    each = [spearmanr(cosines, gold).statistic for cosines, gold in pairs]
    cosines, gold = (np.concatenate([np.asarray(pair[side]) for pair in pairs]) for side in (0, 1))
    return float((np.mean(each) - spearmanr(cosines, gold).statistic) * 100)
