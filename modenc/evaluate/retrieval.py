"""Retrieval on parallel text: how often a sentence's nearest neighbour is its translation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


def accuracy_at_1(queries: Vectors, targets: Vectors) -> float:
    """Percent of the rows of ``queries`` [n, d] whose nearest row of ``targets`` [n, d] is their own."""
    queries = queries / np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), 1e-12)
    targets = targets / np.maximum(np.linalg.norm(targets, axis=1, keepdims=True), 1e-12)
    nearest = (queries @ targets.T).argmax(axis=1)
    return float((nearest == np.arange(len(queries))).mean() * 100)


def both_ways(left: Vectors, right: Vectors) -> float:
    """Mean of the accuracies in both directions, in percent."""
    return (accuracy_at_1(left, right) + accuracy_at_1(right, left)) / 2
