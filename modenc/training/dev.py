"""The development set as an evaluator, and the weights with the best score on it."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator
from torch import nn
from transformers import TrainerCallback

from modenc.data.kinds import ScoredRow, SearchRow
from modenc.evaluation.retrieval import Vectors, mean_accuracy_at_1
from modenc.evaluation.search import make_search_set, search_metrics
from modenc.evaluation.sts import cross_similarity, pair_cosines, spearman
from modenc.storage import whole_file, write_atomically
from modenc.training.body_module import encode_texts
from modenc.training.processes import process_state, readable

logger = logging.getLogger(__name__)

Encode = Callable[[list[str]], Vectors]
"""Encodes texts as unit vectors [texts, hidden]."""

PublishedWeights = Callable[[], AbstractContextManager[None]]
"""Makes a context in which the model has the weights that are published, scaled by ``strength``."""


@dataclass(frozen=True, eq=False)
class DevEvaluator(SentenceEvaluator):  # type: ignore[misc]
    """Evaluator of a model on the development sets; empty fields are left out."""

    greater_is_better: ClassVar[bool] = True
    primary_metric: ClassVar[str] = "score"

    sts: Sequence[Sequence[ScoredRow]] = ()
    """Sentence pairs with gold scores, a set for each language, each on a scale of its own."""
    search: Sequence[SearchRow] = ()
    """Queries with the passages that answer them."""
    search_length: int = 512
    """Number of tokens at which passages are cut; most stages train on shorter texts."""
    cross_sts_texts: Sequence[tuple[str, float]] = ()
    """Sentences in the language, one of each cross-lingual pair, with gold scores."""
    cross_sts_pivot: Vectors | None = None
    """The pivot side's vectors, row for row."""
    parallel_texts: Sequence[str] = ()
    """Sentences in the language of held-out translations."""
    parallel_pivot: Vectors | None = None
    """The pivot side's vectors, row for row."""
    teacher_texts: Sequence[str] = ()
    """Held-out running text."""
    teacher: Vectors | None = None
    """The base's vectors of ``teacher_texts``, row for row."""
    may_keep_initial: bool = True
    """Whether the weights before training may be chosen as the best."""
    weights: PublishedWeights = nullcontext
    """Context for evaluations, in which the model has the weights that are published."""

    def empty(self) -> bool:
        """Check whether there is nothing to measure."""
        rows = (*self.sts, self.search, self.cross_sts_texts, self.parallel_texts, self.teacher_texts)
        return not any(rows)

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Measure ``model``; returns metric → value on a scale of 100, and their mean as ``score``."""
        encode, scores = partial(encode_texts, model), dict[str, float]()
        with self.weights():
            if sets := list(filter(None, self.sts)):
                scores["sts"] = float(np.mean([scores_correlation(encode, encode, rows) for rows in sets]))
            if self.search:
                with _cut_at(model, self.search_length):
                    scores["search"] = search_score(encode, self.search)
            if self.cross_sts_pivot is not None:
                texts, gold = zip(*self.cross_sts_texts, strict=True)
                scores["cross_sts"] = spearman(self.cross_sts_pivot, encode(list(texts)), gold)
            if self.parallel_pivot is not None:
                vectors = encode(list(self.parallel_texts))
                scores["retrieval"] = mean_accuracy_at_1(vectors, self.parallel_pivot)
                scores["similarity"] = cross_similarity(vectors, self.parallel_pivot)
            if self.teacher is not None:
                vectors = encode(list(self.teacher_texts))
                scores["teacher_cosine"] = float(pair_cosines(vectors, self.teacher).mean() * 100)
        return {**scores, "score": float(np.mean(list(scores.values())))}


@contextmanager
def _cut_at(model: SentenceTransformer, length: int) -> Iterator[None]:
    before, model.max_seq_length = model.max_seq_length, length
    try:
        yield
    finally:
        model.max_seq_length = before


def search_score(encode: Encode, rows: Sequence[SearchRow]) -> float:
    """Measure how high the passages of queries are ranked among all of them: nDCG@10 x 100."""
    found = make_search_set(rows)
    scores = search_metrics(encode(found.queries), encode(found.passages), found.answers)
    return float(scores["ndcg_at_10"].mean() * 100)


def scores_correlation(left: Encode, right: Encode, rows: Sequence[ScoredRow]) -> float:
    """Correlate the cosines of the rows' sentences with their gold scores, each side by its own encoder."""
    first, second, scores = zip(*rows, strict=True)
    return spearman(left(list(first)), right(list(second)), scores)


_BEST, _HISTORY = "best.safetensors", "dev.json"
_LEARNED, _AUXILIARY = "0.", "parts."


def save_weights(path: Path, model: nn.Module, auxiliary: nn.Module) -> None:
    """Write a model's trainable parameters, and all tensors of its losses' auxiliary modules."""
    learned = {
        f"{_LEARNED}{name}": parameter.detach().cpu().contiguous().clone()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    state = auxiliary.state_dict().items()
    save_file(learned | {f"{_AUXILIARY}{name}": tensor.cpu().contiguous() for name, tensor in state}, path)


def load_weights(path: Path, model: nn.Module, auxiliary: nn.Module) -> None:
    """Restore what :func:`save_weights` wrote; every trainable parameter must be there."""
    state, start = load_file(path), len(_AUXILIARY)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(state[f"{_LEARNED}{name}"])
    auxiliary.load_state_dict({name[start:]: state[name] for name in state if name.startswith(_AUXILIARY)})


class KeepBest(TrainerCallback):  # type: ignore[misc]
    """Callback that keeps the trainable weights with the highest dev score.

    Each checkpoint has a copy of the best weights and of all scores so far, so that a resumed training
    forgets evaluations after its checkpoint.
    """

    def __init__(self, folder: Path, module: nn.Module, auxiliary: nn.Module | None = None) -> None:
        self.folder = folder
        self.module = module
        self.auxiliary = nn.Module() if auxiliary is None else auxiliary
        """Auxiliary modules, kept beside the weights: a later phase starts from both."""
        self.path = folder / _HISTORY
        self.history = _read(self.path)

    def resume_from(self, checkpoint: str | None) -> None:
        """Restore the best weights and the scores of a checkpoint; without a checkpoint, forget all."""
        self.history = _read(Path(checkpoint) / _HISTORY) if checkpoint else []
        process_state().wait_for_everyone()
        if process_state().is_main_process:
            (self.folder / _BEST).unlink(missing_ok=True)
            self._write_history(self.path)
            if checkpoint and (Path(checkpoint) / _BEST).is_file():
                _link(Path(checkpoint) / _BEST, self.folder / _BEST)

    def save_to(self, checkpoint: Path) -> None:
        """Copy the best weights and all scores so far into a checkpoint that is being written."""
        for name in (_BEST, _HISTORY):
            (checkpoint / name).unlink(missing_ok=True)
        if (self.folder / _BEST).is_file():
            _link(self.folder / _BEST, checkpoint / _BEST)
        self._write_history(checkpoint / _HISTORY)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:
        """Note the metrics, and save the weights if they are the best so far."""
        scores = {
            key.removeprefix("eval_"): value
            for key, value in metrics.items()
            if isinstance(value, float) and not key.endswith(("runtime", "per_second", "epoch"))
        }
        if "score" in scores:
            self.record(state.global_step, scores)

    def record(self, step: int, metrics: dict[str, float]) -> None:
        """Record the metrics of a step; step 0 is the weights before training."""
        self.history = [entry for entry in self.history if entry["step"] < step]
        best = self._best()
        scores = {key: round(float(value), 4) for key, value in metrics.items()}
        self.history.append({"step": step, **scores})
        logger.info("  dev at step %d: %s", step, readable(scores))
        if wrong := [key for key, value in scores.items() if not math.isfinite(value)]:
            logger.warning(
                "  dev at step %d: %s: not a number, so these weights cannot be the best; check the dev "
                "sets, or try a smaller learning rate",
                step, ", ".join(wrong),
            )  # fmt: skip
        if process_state().is_main_process:
            if math.isfinite(scores["score"]) and (best is None or scores["score"] > best["score"]):
                with whole_file(self.folder / _BEST) as temporary:
                    save_weights(temporary, self.module, self.auxiliary)
            self._write_history(self.path)

    def last_step(self) -> int:
        """Return the last step that was evaluated; -1 before any."""
        return int(self.history[-1]["step"]) if self.history else -1

    def restore(self) -> int | None:
        """Restore the best weights; returns their step, or None if no score is a number."""
        process_state().wait_for_everyone()
        best = self._best()
        if best is None or not (self.folder / _BEST).is_file():
            return None
        load_weights(self.folder / _BEST, self.module, self.auxiliary)
        return int(best["step"])

    def _best(self) -> dict[str, float] | None:
        found = [entry for entry in self.history if math.isfinite(entry["score"])]
        return max(found, key=lambda entry: entry["score"]) if found else None

    def _write_history(self, path: Path) -> None:
        write_atomically(path, json.dumps(self.history, indent=1))


def _read(path: Path) -> list[dict[str, float]]:
    found: list[dict[str, float]] = json.loads(path.read_text()) if path.is_file() else []
    return found


def _link(source: Path, target: Path) -> None:
    """Link a file under another name: both are only ever replaced, never written to."""
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
