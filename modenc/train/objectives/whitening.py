r"""Whitening by what differs between translations (within-class covariance normalisation; Hatch, 2006).

Classes are meanings: a sentence and its translation are two vectors x_i, y_i of one class. With the
covariance S of the differences between the centred two,

    S = 1/n Σ_i d_i d_iᵀ,  d_i = (x_i - x̄) - (y_i - ȳ),      M = (S + r tr(S)/h I)^(-p)

a linear map M shrinks the directions in which translations differ most, and so what of a vector is
language, noise or style rather than meaning. p = 1/2 is the paper's; less is a step towards it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


def translation_whitening(
    texts: npt.NDArray[np.float32], translations: npt.NDArray[np.float32], *, ridge: float, power: float
) -> Matrix:
    """The symmetric map M [hidden, hidden] of the module's formula.

    Args:
        texts: vectors [pairs, hidden].
        translations: vectors [pairs, hidden], row for row.
        ridge: r, above 0.
        power: p.

    Raises:
        ValueError: there are fewer than two pairs, or all pairs differ alike.
    """
    if len(texts) < 2:
        raise ValueError(f"expected two pairs or more to whiten by, found {len(texts)}")
    x, y = texts.astype(np.float64), translations.astype(np.float64)
    gaps = (x - x.mean(axis=0)) - (y - y.mean(axis=0))
    spread = gaps.T @ gaps / len(gaps)
    mean_variance = np.trace(spread) / len(spread)
    if mean_variance <= 0:
        raise ValueError("expected translations that differ from each other, found none")
    variances, directions = np.linalg.eigh(spread + ridge * mean_variance * np.eye(len(spread)))
    whitening: Matrix = (directions * variances**-power) @ directions.T
    return whitening
