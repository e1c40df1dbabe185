"""The development set as an evaluator, and the weights with the best score on it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator
from torch import nn
from transformers import TrainerCallback

from modenc.data.kinds import CrossRow, ScoredRow, SearchRow
from modenc.evaluation.retrieval import Vectors, mean_accuracy_at_1
from modenc.evaluation.search import make_search_set, search_metrics
from modenc.evaluation.sts import cross_similarity, pair_cosines, spearman
from modenc.storage import atomic_write
from modenc.training.body_module import Encode, encode_texts, readable

logger = logging.getLogger(__name__)

PublishedWeights = Callable[[], AbstractContextManager[None]]
"""Makes a context in which the model has the weights that are published, scaled by ``strength``."""


@dataclass(frozen=True, eq=False)
class DevEvaluator(SentenceEvaluator):  # type: ignore[misc]
    """Evaluator of a model on the development sets; empty fields are left out."""

    sts: Sequence[Sequence[ScoredRow]] = ()
    """Sentence pairs with gold scores, a set for each language, each on a scale of its own."""
    search: Sequence[SearchRow] = ()
    """Queries with the passages that answer them."""
    cross_sts: Sequence[ScoredRow] = ()
    """Sentence pairs with gold scores, the first sentence in the pivot language."""
    cross_search: Sequence[SearchRow] = ()
    """Queries in the pivot language with the passages that answer them."""
    parallel: Sequence[CrossRow] = ()
    """Held-out translations."""
    pivot: Encode | None = None
    """Encoder of the frozen pivot, for the three above and as what training aims at; None: there is no frozen
    one."""
    max_length: int | None = None
    """Number of tokens at which texts are cut, as those that are encoded later; None: as in training."""
    teacher_texts: Sequence[str] = ()
    """Held-out running text."""
    teacher: Vectors | None = None
    """The base's vectors of ``teacher_texts``, row for row."""
    weights: PublishedWeights = nullcontext
    """Context for evaluations, in which the model has the weights that are published."""

    def empty(self) -> bool:
        """Check whether there is nothing to measure."""
        across = self.cross_sts, self.cross_search, self.parallel
        return not any((*self.sts, self.search, *across, self.teacher_texts))

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Measure ``model``; returns metric → value on a scale of 100, and their mean as ``score``."""
        length = model.max_seq_length
        with self.weights():
            try:
                model.max_seq_length = self.max_length or length
                scores = self.measure(partial(encode_texts, model))
            finally:
                model.max_seq_length = length
        return {**scores, "score": float(np.mean(list(scores.values())))}

    def measure(self, own: Encode) -> dict[str, float]:
        """Measure an encoder of the language's texts; returns metric → value on a scale of 100."""
        scores: dict[str, float] = {}
        if sets := list(filter(None, self.sts)):
            scores["sts"] = float(np.mean([_scores_correlation(own, own, rows) for rows in sets]))
        if self.search:
            scores["search"] = _ranking_score(own, own, self.search)
        if self.cross_sts and self.pivot is not None:
            scores["cross_sts"] = _scores_correlation(self.pivot, own, self.cross_sts)
        if self.cross_search and self.pivot is not None:
            scores["cross_search"] = _ranking_score(self.pivot, own, self.cross_search)
        if self.parallel and self.pivot is not None:
            counterparts = self.pivot([row.pivot for row in self.parallel])
            vectors = own([row.text for row in self.parallel])
            scores["retrieval"] = mean_accuracy_at_1(vectors, counterparts)
            scores["similarity"] = cross_similarity(vectors, counterparts)
        if self.teacher is not None:
            vectors = own(list(self.teacher_texts))
            scores["teacher_cosine"] = float(pair_cosines(vectors, self.teacher).mean() * 100)
        return scores


def _scores_correlation(left: Encode, right: Encode, rows: Sequence[ScoredRow]) -> float:
    """Correlate the cosines of the rows' sentences with their gold scores, each side by its own encoder."""
    first, second, scores = zip(*rows, strict=True)
    return spearman(left(list(first)), right(list(second)), scores)


def _ranking_score(queries: Encode, passages: Encode, rows: Sequence[SearchRow]) -> float:
    """Rank the rows' passages for each of their queries: the mean nDCG@10, on a scale of 100."""
    found = make_search_set(rows)
    ranked = search_metrics(queries(found.queries), passages(found.passages), found.answers)
    return float(ranked["ndcg_at_10"].mean() * 100)


_LEARNED, _AUXILIARY = "0.", "parts."


def save_weights(path: Path, model: nn.Module, auxiliary: nn.Module, **about: float) -> None:
    """Write a model's trainable parameters, and all tensors of its losses' auxiliary modules.

    ``about`` are numbers for the file's header.
    """
    learned = {
        f"{_LEARNED}{name}": parameter.detach().cpu().contiguous().clone()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    state = auxiliary.state_dict().items()
    tensors = learned | {f"{_AUXILIARY}{name}": tensor.cpu().contiguous() for name, tensor in state}
    save_file(tensors, path, {name: str(number) for name, number in about.items()})


def load_weights(path: Path, model: nn.Module, auxiliary: nn.Module) -> None:
    """Restore what :func:`save_weights` wrote; every trainable parameter must be there."""
    state, start = load_file(path), len(_AUXILIARY)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(state[f"{_LEARNED}{name}"])
    auxiliary.load_state_dict({name[start:]: state[name] for name in state if name.startswith(_AUXILIARY)})


class KeepBest(TrainerCallback):  # type: ignore[misc]
    """Callback that keeps the trainable weights with the highest dev score, those of a killed run too."""

    def __init__(self, folder: Path, module: nn.Module, auxiliary: nn.Module) -> None:
        self.module = module
        self.auxiliary = auxiliary
        """Auxiliary modules, kept beside the weights: a later phase starts from both."""
        self.weights = folder / "best.safetensors"

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:
        """Save the weights if they are the best so far."""
        scores = dev_scores(metrics)
        logger.info("  dev at step %d: %s", state.global_step, readable(scores))
        if not math.isfinite(scores["score"]):
            logger.warning("  dev: the score is not a number; try a smaller learning rate")
        elif scores["score"] > self._best("score", -math.inf):
            with atomic_write(self.weights) as temporary:
                step, score = state.global_step, scores["score"]
                save_weights(temporary, self.module, self.auxiliary, step=step, score=score)

    def restore(self) -> int | None:
        """Restore the best weights; returns their step, or None if no score is a number."""
        if not self.weights.is_file():
            return None
        load_weights(self.weights, self.module, self.auxiliary)
        return int(self._best("step", 0))

    def _best(self, name: str, otherwise: float) -> float:
        """Read the step or the score of the best weights from their file."""
        if not self.weights.is_file():
            return otherwise
        with safe_open(self.weights, "pt") as file:
            return float((file.metadata() or {})[name])


def dev_scores(metrics: dict[str, float]) -> dict[str, float]:
    """Return the dev metrics among what a trainer logs of an evaluation."""
    scores = {key.removeprefix("eval_"): float(value) for key, value in metrics.items() if "eval_" in key}
    return {key: round(value, 4) for key, value in scores.items() if not key.endswith(("time", "_second"))}
