r"""A linear map onto the pivot, fitted in closed form on translations.

With vectors x_i of the language's sentences and y_i of their translations in the pivot, ridge regression
towards no change:

    x ↦ ȳ + (x - x̄)(I + D),   D = argmin_D Σ_i |(x_i - x̄)(I + D) - (y_i - ȳ)|² + r tr(C)/h |D|²,

C = Σ_i (x_i - x̄)(x_i - x̄)ᵀ. A translation's own vector differs from its sentence's by chance as well, and
an adapter that is pulled onto it learns that, too; the map holds only what many pairs agree on. It
also gives a target for text without a translation. (Linear maps between languages: Mikolov et al., 2013.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PivotMap:
    """The fitted map."""

    matrix: Matrix
    """I + D, [hidden, hidden]."""
    own_mean: Matrix
    """x̄, [hidden]."""
    pivot_mean: Matrix
    """ȳ, [hidden]."""

    def __call__(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Map vectors [texts, hidden]; their lengths change."""
        mapped: npt.NDArray[np.float64] = (vectors - self.own_mean) @ self.matrix + self.pivot_mean
        return mapped.astype(np.float32)


def fit_pivot_map(
    texts: npt.NDArray[np.float32], translations: npt.NDArray[np.float32], *, ridge: float
) -> PivotMap:
    """Fit the map of the module's formula.

    Args:
        texts: vectors [pairs, hidden] of the language.
        translations: the pivot's vectors [pairs, hidden], row for row.
        ridge: r, above 0.

    Raises:
        ValueError: there are fewer than two different texts.
    """
    x, y = texts.astype(np.float64), translations.astype(np.float64)
    own_mean, pivot_mean = x.mean(axis=0), y.mean(axis=0)
    x, y = x - own_mean, y - pivot_mean
    spread = x.T @ x
    hidden = len(spread)
    if np.trace(spread) <= 0:
        raise ValueError(f"expected two or more different texts to fit a map on, found {len(texts)} alike")
    held = spread + ridge * np.trace(spread) / hidden * np.eye(hidden)
    return PivotMap(np.eye(hidden) + np.linalg.solve(held, x.T @ (y - x)), own_mean, pivot_mean)
