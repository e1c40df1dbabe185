"""Topic classification by logistic regression on frozen vectors."""

from __future__ import annotations

from collections.abc import Sequence

from sklearn.linear_model import LogisticRegression

from modenc.evaluation.retrieval import Vectors, unit

_INVERSE_REGULARIZATIONS = (0.1, 1.0, 10.0, 100.0)
_ITERATIONS = 2000


def fit_classifier(
    train: Vectors, labels: Sequence[str], dev: Vectors, dev_labels: Sequence[str], *, seed: int
) -> LogisticRegression:
    """Fit a classifier of unit vectors on ``train`` [n, d]; ``dev`` [m, d] chooses its regularization."""
    fits = [
        LogisticRegression(C=value, max_iter=_ITERATIONS, random_state=seed).fit(unit(train), labels)
        for value in _INVERSE_REGULARIZATIONS
    ]
    return max(fits, key=lambda fit: float(fit.score(unit(dev), dev_labels)))
