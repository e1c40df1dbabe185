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


def mean_accuracy_at_1(left: Vectors, right: Vectors) -> float:
    """Return the percentage of rows i [n, d] whose nearest of the other side is row i, of both directions."""
    sides, own = (unit(left), unit(right)), np.arange(len(left))
    hits = [(queries @ targets.T).argmax(axis=1) == own for queries, targets in (sides, sides[::-1])]
    return float(hits[0].mean() * 100 + hits[1].mean() * 100) / 2
