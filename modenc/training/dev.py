"""The development set as a sentence-transformers evaluator, which chooses the best checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator

from modenc.evaluation.retrieval import both_ways
from modenc.evaluation.sts import cross_similarity, pair_cosines, spearman
from modenc.training.body_module import Vectors, encode_texts

Scaled = Callable[[], AbstractContextManager[None]]
"""Within its block a model has the weights that are published, scaled by ``strength``."""


@dataclass(frozen=True)
class DevData:
    """A language's development data; empty parts are left out of the score."""

    sts: Sequence[tuple[str, str, float]] = ()
    """Sentence pairs of the language with gold scores."""
    cross_sts_texts: Sequence[tuple[str, float]] = ()
    """The language's side of cross-lingual pairs, with gold scores."""
    cross_sts_pivot: Vectors | None = None
    """The pivot side's vectors, row for row."""
    parallel_texts: Sequence[str] = ()
    """The language's side of held-out parallel pairs."""
    parallel_pivot: Vectors | None = None
    """The pivot side's vectors, row for row."""
    teacher_texts: Sequence[str] = ()
    """Held-out running text."""
    teacher: Vectors | None = None
    """The base's vectors of it."""
    start_may_win: bool = True
    """Whether the weights before training may be the best."""
    weights: Scaled = nullcontext
    """Gives a model, while it is evaluated, the weights that are published for it."""

    def empty(self) -> bool:
        """Whether there is nothing to measure."""
        return not (self.sts or self.cross_sts_texts or self.parallel_texts or self.teacher_texts)


class DevEvaluator(SentenceEvaluator):  # type: ignore[misc]
    """Each metric on a scale of 100, and their mean as ``score``."""

    def __init__(self, data: DevData) -> None:
        super().__init__()
        self.data = data
        self.primary_metric = "score"

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Metric → value of ``model``."""
        with self.data.weights():
            return self._measure(model)

    def _measure(self, model: SentenceTransformer) -> dict[str, float]:
        data = self.data
        scores: dict[str, float] = {}
        if data.sts:
            left = encode_texts(model, [row[0] for row in data.sts])
            right = encode_texts(model, [row[1] for row in data.sts])
            scores["sts"] = spearman(left, right, [row[2] for row in data.sts])
        if data.cross_sts_pivot is not None:
            vectors = encode_texts(model, [row[0] for row in data.cross_sts_texts])
            scores["cross_sts"] = spearman(
                data.cross_sts_pivot, vectors, [row[1] for row in data.cross_sts_texts]
            )
        if data.parallel_pivot is not None:
            vectors = encode_texts(model, list(data.parallel_texts))
            scores["retrieval"] = both_ways(vectors, data.parallel_pivot)
            scores["similarity"] = cross_similarity(vectors, data.parallel_pivot)
        if data.teacher is not None:
            vectors = encode_texts(model, list(data.teacher_texts))
            scores["teacher_cosine"] = float(pair_cosines(vectors, data.teacher).mean() * 100)
        return {**scores, "score": float(np.mean(list(scores.values())))}
