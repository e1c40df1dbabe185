"""Semantic textual similarity: Spearman correlation of cosines with gold scores, times 100."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata, spearmanr

from modenc.evaluation.retrieval import Vectors

Items = npt.NDArray[np.float64]
"""Rows [n, k], one for each item of a test set."""

_NEIGHBORS = 8


def pair_cosines(left: Vectors, right: Vectors) -> Vectors:
    """Return the cosines [n] of rows i of ``left`` [n, d] and ``right`` [n, d]."""
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: Vectors = (left * right).sum(axis=1) / np.maximum(norms, 1e-12)
    return cosines


def spearman(left: Vectors, right: Vectors, scores: npt.ArrayLike) -> float:
    """Correlate the rows' cosines with ``scores`` [n]: Spearman times 100."""
    return float(spearmanr(pair_cosines(left, right), np.asarray(scores)).statistic * 100)


def mean_spearman(items: Items) -> float:
    """Correlate each column of ``items`` [n, k] with the last: mean Spearman times 100."""
    ranks = rankdata(items, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # a constant has no correlation
        return float(np.corrcoef(ranks, rowvar=False)[-1, :-1].mean() * 100)


def cross_similarity(vectors: Vectors, pivot: Vectors) -> float:
    """Measure cross-lingual similarity without gold scores: cosines within the pivot take their place.

    Each sentence is compared with its own translation and with the eight nearest to that one. Spearman
    correlation, times 100, of these cosines with the cosines between the translations alone.

    Args:
        vectors: unit rows [n, d] of sentences.
        pivot: unit rows [n, d] of their translations.
    """
    within = pivot @ pivot.T
    near = np.argsort(-within, axis=1)[:, : _NEIGHBORS + 1]
    across = np.take_along_axis(vectors @ pivot.T, near, axis=1)
    return float(spearmanr(across.ravel(), np.take_along_axis(within, near, axis=1).ravel()).statistic * 100)


def language_bias(pairs: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]) -> float:
    """Compute what pooling several languages costs (Roy et al., 2020), on a scale of 100.

    It is the mean Spearman over the language pairs, each with cosines [n] and gold scores [n], minus Spearman
    over all of their items together.
    """
    each = [spearmanr(cosines, gold).statistic for cosines, gold in pairs]
    cosines, gold = (np.concatenate([np.asarray(pair[side]) for pair in pairs]) for side in (0, 1))
    return float((np.mean(each) - spearmanr(cosines, gold).statistic) * 100)


def to_ranks(*columns: npt.ArrayLike) -> Items:
    """Return the ranks [n, k] of the values in k columns [n]: equal for Spearman, a third to store."""
    return np.column_stack([rankdata(column, method="dense") for column in columns]).astype(np.float64)
