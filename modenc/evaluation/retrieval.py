"""Retrieval on parallel text: how often a sentence's nearest neighbour is its translation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


def unit(vectors: npt.ArrayLike) -> Vectors:
    """Rows [n, d] scaled to length 1 as contiguous float32; a zero row stays zero."""
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    scaled: Vectors = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return scaled


def accuracy_at_1(queries: Vectors, targets: Vectors) -> float:
    """Percent of the rows of ``queries`` [n, d] whose nearest row of ``targets`` [n, d] is their own."""
    nearest = (unit(queries) @ unit(targets).T).argmax(axis=1)
    return float((nearest == np.arange(len(queries))).mean() * 100)


def both_ways(left: Vectors, right: Vectors) -> float:
    """Mean of the accuracies in both directions, in percent."""
    return (accuracy_at_1(left, right) + accuracy_at_1(right, left)) / 2
