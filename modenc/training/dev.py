"""The development set as an evaluator, and the weights that do best on it, kept through restarts."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator
from torch import Tensor, nn
from transformers import TrainerCallback

from modenc.evaluation.retrieval import mean_accuracy_at_1
from modenc.evaluation.sts import cross_similarity, pair_cosines, spearman
from modenc.storage import whole_file
from modenc.training.body_module import Vectors, encode_texts
from modenc.training.processes import process_state
from modenc.training.progress import readable

logger = logging.getLogger(__name__)

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
            scores["retrieval"] = mean_accuracy_at_1(vectors, data.parallel_pivot)
            scores["similarity"] = cross_similarity(vectors, data.parallel_pivot)
        if data.teacher is not None:
            vectors = encode_texts(model, list(data.teacher_texts))
            scores["teacher_cosine"] = float(pair_cosines(vectors, data.teacher).mean() * 100)
        return {**scores, "score": float(np.mean(list(scores.values())))}


_BEST, _HISTORY = "best.safetensors", "dev.json"
_PARTS = "parts."


def trainable_state(*modules: nn.Module) -> dict[str, Tensor]:
    """Name → tensor of all parameters that learn."""
    return {
        f"{number}.{name}": parameter.detach().cpu().contiguous().clone()
        for number, module in enumerate(modules)
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }


def load_trainable_state(state: dict[str, Tensor], *modules: nn.Module) -> None:
    """Put back what :func:`trainable_state` gave; every trainable parameter must be there."""
    with torch.no_grad():
        for number, module in enumerate(modules):
            for name, parameter in module.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(state[f"{number}.{name}"])


def parts_state(parts: nn.Module) -> dict[str, Tensor]:
    """Name → tensor of a loss's own parts, whole."""
    return {f"{_PARTS}{name}": tensor.cpu().contiguous() for name, tensor in parts.state_dict().items()}


def load_parts(state: dict[str, Tensor], parts: nn.Module) -> None:
    """Put back what :func:`parts_state` gave."""
    parts.load_state_dict({name[len(_PARTS) :]: state[name] for name in state if name.startswith(_PARTS)})


class KeepBest(TrainerCallback):  # type: ignore[misc]
    """Keep the trainable weights with the highest dev score.

    Each checkpoint has a copy of the best weights and of all scores so far, so that a resumed training
    forgets evaluations after its checkpoint.
    """

    def __init__(self, folder: Path, module: nn.Module, parts: nn.Module | None = None) -> None:
        self.folder = folder
        self.module = module
        self.parts = nn.Module() if parts is None else parts
        """What is kept beside the weights: a later phase starts from both."""
        self.path = folder / _HISTORY
        self.history = _read(self.path)

    def go_on_from(self, checkpoint: str | None) -> None:
        """Restore the best weights and the scores of a checkpoint; without one, forget all."""
        self.history = _read(Path(checkpoint) / _HISTORY) if checkpoint else []
        process_state().wait_for_everyone()
        if process_state().is_main_process:
            (self.folder / _BEST).unlink(missing_ok=True)
            self._write_history(self.path)
            if checkpoint and (Path(checkpoint) / _BEST).is_file():
                _link(Path(checkpoint) / _BEST, self.folder / _BEST)

    def keep_in(self, checkpoint: Path) -> None:
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
            self.note(state.global_step, scores)

    def note(self, step: int, metrics: dict[str, float]) -> None:
        """Note the metrics of a step; 0 stands for the weights before training."""
        self.history = [entry for entry in self.history if entry["step"] < step]
        best = self._best()
        scores = {key: round(float(value), 4) for key, value in metrics.items()}
        self.history.append({"step": step, **scores})
        logger.info("  dev at step %d: %s", step, readable(scores))
        if wrong := [key for key, value in scores.items() if not math.isfinite(value)]:
            logger.warning(
                "  dev at step %d: %s: not a number, so these weights cannot be the best; check the dev "
                "sets, and a learning rate that may be too high",
                step, ", ".join(wrong),
            )  # fmt: skip
        if process_state().is_main_process:
            if math.isfinite(scores["score"]) and (best is None or scores["score"] > best["score"]):
                with whole_file(self.folder / _BEST) as temporary:
                    save_file(trainable_state(self.module) | parts_state(self.parts), temporary)
            self._write_history(self.path)

    def last_step(self) -> int:
        """The last step that was evaluated; -1 before any."""
        return int(self.history[-1]["step"]) if self.history else -1

    def restore(self) -> int | None:
        """Put the best weights back; returns their step, or ``None`` where no score is a number."""
        process_state().wait_for_everyone()
        best = self._best()
        if best is None or not (self.folder / _BEST).is_file():
            return None
        state = load_file(self.folder / _BEST)
        load_trainable_state(state, self.module)
        load_parts(state, self.parts)
        return int(best["step"])

    def _best(self) -> dict[str, float] | None:
        """The first entry with the highest score that is a number."""
        found = [entry for entry in self.history if math.isfinite(entry["score"])]
        return max(found, key=lambda entry: entry["score"]) if found else None

    def _write_history(self, path: Path) -> None:
        with whole_file(path) as temporary:
            temporary.write_text(json.dumps(self.history, indent=1))


def _read(path: Path) -> list[dict[str, float]]:
    found: list[dict[str, float]] = json.loads(path.read_text()) if path.is_file() else []
    return found


def _link(source: Path, target: Path) -> None:
    """Give the same content another name; files are only replaced and never written to."""
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
