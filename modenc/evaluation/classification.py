"""Topic classification by logistic regression on frozen vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from modenc.evaluation.retrieval import Vectors, unit

Booleans = npt.NDArray[np.bool_]

_INVERSE_REGULARIZATIONS = (0.1, 1.0, 10.0, 100.0)
_ITERATIONS = 2000


class TopicClassifier:
    """Logistic regression; its regularization is chosen on a development set.

    Args:
        train: vectors [n, d].
        labels: their classes [n].
        dev: vectors [m, d] to choose on.
        dev_labels: their classes [m].
        seed: seed of the solver.
    """

    def __init__(
        self, train: Vectors, labels: Sequence[str], dev: Vectors, dev_labels: Sequence[str], *, seed: int
    ) -> None:
        fits = [
            LogisticRegression(C=value, max_iter=_ITERATIONS, random_state=seed).fit(unit(train), labels)
            for value in _INVERSE_REGULARIZATIONS
        ]
        self.model = max(fits, key=lambda fit: float(fit.score(unit(dev), dev_labels)))

    def is_correct(self, test: Vectors, labels: Sequence[str]) -> Booleans:
        """Say for each of ``test`` [n, d] whether its predicted class is that in ``labels`` [n]."""
        hits: Booleans = self.model.predict(unit(test)) == np.asarray(labels)
        return hits
