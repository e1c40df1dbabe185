"""Retrieval on parallel text: how often a sentence's nearest neighbor is its translation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""Vectors [texts, hidden], or cosines and scores of them, in single precision."""


def unit(vectors: npt.ArrayLike) -> Vectors:
    """Scale rows [n, d] to length 1, as contiguous float32; a zero row stays zero."""
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    scaled: Vectors = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return scaled


def accuracy_at_1(queries: Vectors, targets: Vectors) -> float:
    """Return the percentage of rows i of ``queries`` [n, d] whose nearest of ``targets`` [n, d] is row i."""
    nearest = (unit(queries) @ unit(targets).T).argmax(axis=1)
    return float((nearest == np.arange(len(queries))).mean() * 100)


def mean_accuracy_at_1(left: Vectors, right: Vectors) -> float:
    """Average :func:`accuracy_at_1` of both directions."""
    return (accuracy_at_1(left, right) + accuracy_at_1(right, left)) / 2
