"""Metrics of the geometry of a multilingual vector space, on parallel text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from modenc.evaluation.retrieval import Vectors, unit

Floats = npt.NDArray[np.float64]

# A Gaussian fitted on fewer sentences than dimensions has no inverse covariance.
_SHRINKAGE = 0.1


def rsim(left: Vectors, right: Vectors) -> float:
    """Compute relational similarity (Vulić et al., 2020): Pearson correlation of two lists of cosines.

    Args:
        left: vectors [n, d] of sentences in one language.
        right: vectors [n, d] of their translations.
    """
    pairs = np.triu_indices(len(left), k=1)
    first, second = ((unit(side) @ unit(side).T)[pairs] for side in (left, right))
    return float(np.corrcoef(first, second)[0, 1])


def invariance(languages: Sequence[Vectors]) -> float:
    """Compute the mean symmetric KL divergence between Gaussians of the languages (EMMA-X, eq. 16).

    Lower is better. Covariances are shrunk towards a multiple of the identity by 0.1, so that few sentences
    suffice.

    Args:
        languages: each language's unit vectors [n, d]; two languages or more.
    """
    fits = [_gaussian(vectors) for vectors in languages]
    gaps = [(_divergence(*a, *b) + _divergence(*b, *a)) / 2 for a, b in combinations(fits, 2)]
    return float(np.mean(gaps))


def _gaussian(vectors: Vectors) -> tuple[Floats, Floats]:
    rows = unit(vectors).astype(np.float64)
    covariance = np.cov(rows, rowvar=False)
    scale = np.trace(covariance) / len(covariance)
    return rows.mean(axis=0), (1 - _SHRINKAGE) * covariance + _SHRINKAGE * scale * np.eye(len(covariance))


def _divergence(mean_p: Floats, cov_p: Floats, mean_q: Floats, cov_q: Floats) -> float:
    """Compute KL(p ‖ q) of two Gaussians."""
    gap = mean_q - mean_p
    trace = np.trace(np.linalg.solve(cov_q, cov_p))
    logs = np.linalg.slogdet(cov_q)[1] - np.linalg.slogdet(cov_p)[1]
    return float((trace + gap @ np.linalg.solve(cov_q, gap) - len(gap) + logs) / 2)


def calinski_harabasz(languages: Sequence[Vectors]) -> float:
    """Compute how tightly translations cluster (EMMA-X, eq. 17); higher is better.

    Args:
        languages: each language's vectors [n, d]; rows i are translations of each other.
    """
    stacked = np.stack([unit(vectors) for vectors in languages]).astype(np.float64)
    centroids = stacked.mean(axis=0)
    between = len(languages) * ((centroids - centroids.mean(axis=0)) ** 2).sum()
    within = ((stacked - centroids) ** 2).sum()
    return float(between / within)


def isotropy(vectors: Vectors) -> float:
    """Compute the ratio of the partition function's extremes over eigenvectors (EMMA-X, eq. 18).

    1 is isotropic.

    Args:
        vectors: vectors [n, d]; they are scaled to unit length first.
    """
    rows = unit(vectors).astype(np.float64)
    _, directions = np.linalg.eigh(rows.T @ rows)
    partition = np.exp(rows @ directions).sum(axis=0)
    return float(partition.min() / partition.max())
