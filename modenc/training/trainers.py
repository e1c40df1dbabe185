"""The libraries' trainers, with checkpoints of the trainable weights alone, and the best weights kept."""

from __future__ import annotations

import json
import logging
import math
import os
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.sampler import DefaultBatchSampler, MultiDatasetBatchSamplers
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from modenc.errors import RecipeError
from modenc.recipe.settings import OptimizerSettings, RunSettings
from modenc.training.body_module import on_terminal, readable, uses_bf16
from modenc.training.dev import DevEvaluator, KeepBest, dev_scores, load_weights, save_weights
from modenc.training.stage import Stage

logger = logging.getLogger(__name__)

_WEIGHTS = "trainable.safetensors"
# The trainer writes the last of them last.
_CHECKPOINT_FILES = (_WEIGHTS, "optimizer.pt", "scheduler.pt", "trainer_state.json")


class _TrainableCheckpoints:
    """Mixin: a checkpoint holds the trainable weights, and all of the loss's auxiliary modules.

    Auxiliary modules (decoders, classifiers, queues) train with a loss and are thrown away afterwards. A loss
    that has any has them as its attribute ``auxiliary``. Where each data set has its own loss, none has any.
    """

    model: nn.Module
    loss: nn.Module | dict[str, nn.Module] | None = None

    def auxiliary(self) -> nn.ModuleList:
        """List the auxiliary modules of the loss, or of an :class:`AuxiliaryModel`."""
        found = getattr(self.loss or self.model, "auxiliary", None)
        return nn.ModuleList([] if found is None else [found])

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)  # type: ignore[attr-defined]
        folder.mkdir(parents=True, exist_ok=True)
        save_weights(folder / _WEIGHTS, self.model, self.auxiliary())

    def _load_from_checkpoint(self, checkpoint: str, model: nn.Module | None = None) -> None:
        load_weights(Path(checkpoint) / _WEIGHTS, model or self.model, self.auxiliary())


class BodyTrainer(_TrainableCheckpoints, Trainer):  # type: ignore[misc]
    """``transformers.Trainer`` for models that compute their own loss."""


class SentenceTrainer(_TrainableCheckpoints, SentenceTransformerTrainer):  # type: ignore[misc]
    """``SentenceTransformerTrainer`` that reads the rows of each data set in their order."""

    def get_batch_sampler(self, dataset: Any, batch_size: int, drop_last: bool, **_: Any) -> Any:
        """Return batches of rows as they follow each other."""
        return DefaultBatchSampler(range(len(dataset)), batch_size, drop_last)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Do nothing: the hub writes its own cards."""


class AuxiliaryGradients(TrainerCallback):  # type: ignore[misc]
    """Callback that clears and clips the gradients of a loss's auxiliary modules.

    The trainers do so for the model alone. A loss with a method ``begin_step`` is given the step's number.
    """

    def __init__(self, loss: Any) -> None:
        self.loss = loss

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Clear gradients before each optimizer step."""
        self.loss.zero_grad()
        if hasattr(self.loss, "begin_step"):
            self.loss.begin_step(state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Clip gradients after all passes of a step."""
        nn.utils.clip_grad_norm_(self.loss.auxiliary.parameters(), args.max_grad_norm)


class LossLines(TrainerCallback):  # type: ignore[misc]
    """Callback that logs the loss, where there is no progress bar that shows it."""

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Log the newest loss."""
        if logs and "loss" in logs:
            logger.info("  step %d of %d: loss %.3f", state.global_step, state.max_steps, logs["loss"])


def training_arguments(
    optimizer: OptimizerSettings, run: RunSettings, folder: Path, *, sentences: bool, evaluate: bool
) -> TrainingArguments:
    """Make the libraries' training arguments; ``sentences`` chooses sentence-transformers' class."""
    bf16 = uses_bf16(run)
    arguments = SentenceTransformerTrainingArguments if sentences else TrainingArguments
    # Otherwise the library takes over the precision of an earlier training in this process.
    os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16" if bf16 else "no"
    made = arguments(
        output_dir=str(folder),
        max_steps=optimizer.steps or -1,
        num_train_epochs=optimizer.epochs,
        per_device_train_batch_size=optimizer.batch_size,
        per_device_eval_batch_size=optimizer.batch_size,
        gradient_accumulation_steps=optimizer.gradient_accumulation,
        learning_rate=optimizer.learning_rate,
        lr_scheduler_type=optimizer.schedule,
        warmup_ratio=optimizer.warmup_ratio,
        weight_decay=optimizer.weight_decay,
        bf16=bf16,
        # Without it the library refuses bf16 where there is no GPU.
        use_cpu=bf16 and not torch.cuda.is_available(),
        seed=run.seed,
        data_seed=run.seed,
        # A share: ten times in a training.
        logging_steps=0.1,
        save_strategy="steps",
        save_steps=run.checkpoint_every,
        save_total_limit=2,
        eval_strategy="steps" if evaluate and run.evaluate_every else "no",
        eval_steps=run.evaluate_every or None,
        dataloader_drop_last=True,
        # Pinning warns on machines without a GPU.
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=not sentences,
        report_to=[],
    )
    # One device: otherwise the trainers split each batch over all GPUs, and losses see fewer of its rows.
    made._n_gpu = 1
    if sentences:
        made.multi_dataset_batch_sampler = MultiDatasetBatchSamplers.ROUND_ROBIN
    return made


def last_checkpoint(folder: Path) -> str | None:
    """Find the newest checkpoint that was written to its end; None if there is none."""
    found = sorted(
        folder.glob("checkpoint-*"), key=lambda path: int(path.name.rsplit("-", 1)[1]), reverse=True
    )
    for path in found:
        if _is_whole(path):
            return str(path)
        logger.warning("checkpoint %s is incomplete; an older one is used", path.name)
    return None


def _is_whole(checkpoint: Path) -> bool:
    with suppress(OSError, ValueError):
        json.loads((checkpoint / _CHECKPOINT_FILES[-1]).read_text())
        return all((checkpoint / name).stat().st_size for name in _CHECKPOINT_FILES)
    return False


def run_trainer(trainer: Trainer, best: KeepBest | None = None) -> dict[str, Any]:
    """Train to the end, resuming from the last complete checkpoint, and restore the best weights.

    Returns the metrics: ``steps``, ``seconds`` since the last start, ``best_step`` and the ``dev`` scores of
    evaluations.
    """
    if not on_terminal():
        trainer.remove_callback(ProgressCallback)
        trainer.add_callback(LossLines)
    trainer.remove_callback(PrinterCallback)
    if best is not None:
        trainer.add_callback(best)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    checkpoint = last_checkpoint(Path(trainer.args.output_dir))
    state = None
    if checkpoint:
        logger.info("  resuming from %s", Path(checkpoint).name)
        state = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
    seconds = 0.0
    if state is not None and state.global_step >= state.max_steps:
        # A trainer that resumes after its last step would take one step too many.
        trainer.state = state
        trainer._load_from_checkpoint(checkpoint)
    else:
        result = trainer.train(resume_from_checkpoint=checkpoint)
        seconds = round(result.metrics["train_runtime"], 1)
    steps = trainer.state.global_step
    metrics = {"steps": steps, "seconds": seconds}
    if best is None:
        return metrics
    log = trainer.state.log_history
    if not any(entry["step"] == steps and "eval_score" in entry for entry in log):
        trainer.evaluate()
    history = [{"step": entry["step"], **dev_scores(entry)} for entry in log if "eval_score" in entry]
    return {**metrics, "best_step": best.restore(), "dev": history}


class AuxiliaryModel(nn.Module):
    """Auxiliary modules that train without the encoder; ``loss`` takes rows [batch] of data that it holds."""

    def __init__(self, auxiliary: nn.Module, loss: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.auxiliary = auxiliary
        self.loss = loss

    def forward(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the loss of the rows."""
        return {"loss": self.loss(rows.cpu())}


def train_body(
    stage: Stage,
    settings: OptimizerSettings,
    model: nn.Module,
    rows: Dataset,
    *,
    collator: Callable[[list[Any]], Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> dict[str, Any]:
    """Train a model that computes its own loss, to the last step; returns its steps and seconds.

    ``optimizer`` is by default AdamW with one learning rate. RecipeError where there are no rows.
    """
    settings = plan_steps({"rows": rows}, settings)
    trainer = BodyTrainer(
        model,
        training_arguments(settings, stage.plan.run, stage.checkpoints, sentences=False, evaluate=False),
        collator,
        rows,
        optimizers=(optimizer, None),
    )
    return run_trainer(trainer)


def train_sentence_model(
    stage: Stage,
    settings: OptimizerSettings,
    model: SentenceTransformer,
    train: Dataset | Mapping[str, Dataset],
    loss: nn.Module | dict[str, nn.Module],
    dev: DevEvaluator,
    *,
    optimizer: torch.optim.Optimizer | None = None,
) -> dict[str, Any]:
    """Train a stage's sentence model and leave it with the weights of the best dev score.

    Several data sets take turns batch by batch. An epoch ends when the largest was read; smaller ones start
    again in another order.

    Args:
        stage: the stage.
        settings: steps, batches, rates.
        model: the model that trains.
        train: the data, one set or several by name.
        loss: the loss of all data sets, or one for each.
        dev: the data that choose the best weights.
        optimizer: an optimizer; by default AdamW with one learning rate.

    Returns:
        The metrics of :func:`run_trainer`; with dev data also the metrics on it as ``dev_before`` and
        ``dev_after``.

    Raises:
        RecipeError: a data set has no rows.
    """
    data, settings = order_rows(
        {"rows": train} if isinstance(train, Dataset) else train, settings, stage.plan.run.seed
    )
    evaluator = None if dev.empty() else dev
    metrics: dict[str, Any] = {}
    if evaluator:
        metrics["dev_before"] = evaluator(model)
        logger.info("  dev before: %s", readable(metrics["dev_before"]))
    arguments = training_arguments(
        settings, stage.plan.run, stage.checkpoints, sentences=True, evaluate=bool(evaluator)
    )
    trainer = SentenceTrainer(
        model, arguments, data, loss=loss, evaluator=evaluator, optimizers=(optimizer, None)
    )
    if hasattr(loss, "auxiliary"):
        trainer.add_callback(AuxiliaryGradients(loss))
    best = KeepBest(stage.folder, model, trainer.auxiliary()) if evaluator else None
    metrics |= run_trainer(trainer, best)
    if evaluator:
        metrics["dev_after"] = evaluator(model)
        logger.info("  dev with the weights that are kept: %s", readable(metrics["dev_after"]))
    return metrics


def order_rows(
    sets: Mapping[str, Dataset], optimizer: OptimizerSettings, seed: int
) -> tuple[DatasetDict, OptimizerSettings]:
    """Put the rows of each set into the order in which a training reads them, as many as it reads.

    A set is read pass after pass, each in another order (passages in their own: neighbors are harder to tell
    apart than others). Rows that would not fill a pass's last batch are skipped.

    Returns:
        The sets, with equally many batches; and the settings with the number of steps, and with a batch of at
        most the smallest set's rows.

    Raises:
        RecipeError: a set has no rows.
    """
    optimizer = plan_steps(sets, optimizer)
    batch = optimizer.batch_size
    needed = math.ceil(optimizer.steps * optimizer.gradient_accumulation / len(sets)) * batch
    draw, ordered = random.Random(seed), DatasetDict()
    for name, rows in sets.items():
        order: list[int] = []
        while len(order) < needed:
            numbers = list(range(len(rows)))
            if "passage" not in rows.column_names:
                draw.shuffle(numbers)
            order += numbers[: len(rows) - len(rows) % batch]
        ordered[name] = rows.select(order[:needed])
    return ordered, optimizer


def plan_steps(sets: Mapping[str, Dataset], optimizer: OptimizerSettings) -> OptimizerSettings:
    """Return settings with the number of steps, and a batch of at most the smallest set's rows; log them.

    Raises:
        RecipeError: a set has no rows.
    """
    sizes = {name: len(rows) for name, rows in sets.items()}
    for name, count in sizes.items():
        if not count:
            raise RecipeError(
                f"{name}: expected 1 row of training data or more, found 0; add data or use another objective"
            )
    batch = min(optimizer.batch_size, *sizes.values())
    a_pass = math.ceil(max(sizes.values()) // batch * len(sizes) / optimizer.gradient_accumulation)
    steps = optimizer.steps or max(math.ceil(optimizer.epochs * a_pass), 1)
    logger.info("  %d steps; rows: %s", steps, ", ".join(f"{name} {count}" for name, count in sizes.items()))
    return replace(optimizer, steps=steps, batch_size=batch)
