"""Semantic textual similarity: Spearman correlation of cosines with human scores, times 100."""

from __future__ import annotations

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
