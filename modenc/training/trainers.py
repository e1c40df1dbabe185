"""The libraries' trainers with checkpoints of the trainable weights only, and the best ones kept."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from modenc.recipe.settings import OptimizerSettings, RunSettings
from modenc.threads import wait_policy
from modenc.training.dev import (
    DevData,
    DevEvaluator,
    KeepBest,
    load_parts,
    load_trainable_state,
    parts_state,
    trainable_state,
)
from modenc.training.mixing import Mix, Turns, TurnsSampler, as_dataset, pass_epochs_on, reading
from modenc.training.processes import process_state, uses_bf16
from modenc.training.progress import LossLines, LossProgress, on_terminal, readable
from modenc.training.stage import StageRun

logger = logging.getLogger(__name__)

_WEIGHTS = "trainable.safetensors"
# The last is written last.
_CHECKPOINT_FILES = (_WEIGHTS, "optimizer.pt", "scheduler.pt", "trainer_state.json")


class _TrainableCheckpoints:
    """Mixin: a checkpoint holds the trainable weights, not the frozen body.

    A loss may have ``parts`` of its own that learn or remember: they are in it whole.
    """

    model: nn.Module
    loss: nn.Module | dict[str, nn.Module] | None = None
    best: KeepBest | None = None
    """What a checkpoint keeps besides: resumed there, the best weights are those of then."""

    def parts(self) -> nn.ModuleList:
        """What is thrown away after training: of the losses, or of a model that is nothing else."""
        losses = self.loss.values() if isinstance(self.loss, dict) else [self.loss or self.model]
        found = [part for loss in losses if isinstance(part := getattr(loss, "parts", None), nn.Module)]
        return nn.ModuleList(dict.fromkeys(found))

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or self.args.output_dir)  # type: ignore[attr-defined]
        folder.mkdir(parents=True, exist_ok=True)
        save_file(trainable_state(self.model) | parts_state(self.parts()), folder / _WEIGHTS)
        if self.best is not None:
            self.best.keep_in(folder)

    def _load_from_checkpoint(self, checkpoint: str, model: nn.Module | None = None) -> None:
        state = load_file(Path(checkpoint) / _WEIGHTS)
        load_trainable_state(state, model or self.model)
        load_parts(state, self.parts())


class BodyTrainer(_TrainableCheckpoints, Trainer):  # type: ignore[misc]
    """``transformers.Trainer`` for stage 2's masked LM."""

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """All rows: in an evaluation a last batch of fewer is not left out."""
        drop_last, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            return super().get_eval_dataloader(eval_dataset)
        finally:
            self.args.dataloader_drop_last = drop_last


class SentenceTrainer(_TrainableCheckpoints, SentenceTransformerTrainer):  # type: ignore[misc]
    """``SentenceTransformerTrainer`` for sentence-level objectives; several sets are read by ``turns``."""

    turns: Turns | None = None

    def get_multi_dataset_batch_sampler(self, dataset: Any, **settings: Any) -> Any:
        """The sampler of ``turns``."""
        assert self.turns is not None
        return TurnsSampler(dataset, self.turns, **settings)

    def get_train_dataloader(self) -> Any:
        """With another order in each epoch, in several processes too."""
        return pass_epochs_on(super().get_train_dataloader())

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """None: the hub writes its own cards."""


class LossSteps(TrainerCallback):  # type: ignore[misc]
    """Clears, averages over processes and clips the gradients of losses' own parameters.

    The trainers do so for the model's alone. Losses that change with time are given the step.
    """

    def __init__(self, losses: Iterable[nn.Module], parts: nn.Module) -> None:
        self.losses: list[Any] = list(losses)
        self.parts = parts

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before each optimizer step."""
        for loss in self.losses:
            loss.zero_grad()
            if hasattr(loss, "begin_step"):
                loss.begin_step(state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After all passes of a step."""
        learning = [parameter for parameter in self.parts.parameters() if parameter.requires_grad]
        processes = process_state().num_processes
        if processes > 1:
            for parameter in learning:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad /= processes
        if args.max_grad_norm:
            nn.utils.clip_grad_norm_(learning, args.max_grad_norm)


class WaitPolicy(TrainerCallback):  # type: ignore[misc]
    """Looks before each step whether threads should sleep while they wait."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before each optimizer step."""
        wait_policy.check()


@dataclass(frozen=True)
class TrainingFigures:
    """What one training run did."""

    steps: int
    seconds: float
    timed_steps: int
    """Those that ``seconds`` were spent on: fewer where the run was resumed."""
    loss: float | None
    """Mean over the steps; nothing where a resumed run found them all done."""
    best_step: int | None
    dev: list[dict[str, float]] = field(default_factory=list)


def training_arguments(
    optimizer: OptimizerSettings, run: RunSettings, folder: Path, *, sentences: bool, evaluate: bool
) -> TrainingArguments:
    """The libraries' training arguments for a stage; ``sentences`` chooses sentence-transformers' own."""
    bf16 = uses_bf16(run)
    kind = SentenceTransformerTrainingArguments if sentences else TrainingArguments
    # The library takes what an earlier training in bf16 left here for a choice of this one's.
    os.environ["ACCELERATE_MIXED_PRECISION"] = "bf16" if bf16 else "no"
    return kind(
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
        max_grad_norm=optimizer.max_grad_norm,
        bf16=bf16,
        # Without it the library takes bf16 for a GPU's alone.
        use_cpu=bf16 and not torch.cuda.is_available(),
        seed=run.seed,
        data_seed=run.seed,
        logging_steps=10,
        save_strategy="steps",
        save_steps=run.checkpoint_every,
        save_total_limit=2,
        eval_strategy="steps" if evaluate and run.evaluate_every else "no",
        eval_steps=run.evaluate_every or None,
        dataloader_drop_last=True,
        # It warns on machines without a GPU.
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=not sentences,
        report_to=[],
    )


def last_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written to its end, or ``None``."""
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


def run_trainer(trainer: Trainer, best: KeepBest | None = None) -> TrainingFigures:
    """Train to the end, resuming from the last complete checkpoint, and restore the best weights."""
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(LossProgress if on_terminal() else LossLines)
    trainer.add_callback(WaitPolicy)
    if best is not None:
        trainer.add_callback(best)
        trainer.best = best
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    checkpoint = last_checkpoint(Path(trainer.args.output_dir))
    state = None
    if checkpoint:
        logger.info("  resuming from %s", Path(checkpoint).name)
        state = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
    seconds, loss = 0.0, None
    if state is not None and state.global_step >= state.max_steps:
        # Resumed there, the trainer would take one step too many.
        trainer.state = state
        trainer._load_from_checkpoint(checkpoint)
    else:
        result = trainer.train(resume_from_checkpoint=checkpoint)
        seconds, loss = round(result.metrics["train_runtime"], 1), round(result.training_loss, 4)
    steps = trainer.state.global_step
    if best is not None and best.last_step() < steps:
        trainer.evaluate()
    best_step = best.restore() if best is not None else None
    if best_step == 0:
        logger.warning("  no step of the training beat its start on the dev set; the start is kept")
    return TrainingFigures(
        steps=steps,
        seconds=seconds,
        timed_steps=steps - (state.global_step if state else 0),
        loss=loss,
        best_step=best_step,
        dev=best.history if best is not None else [],
    )


class PartsAlone(nn.Module):
    """A loss's own parts as a model by themselves; ``loss`` is of rows [batch] of something that it holds."""

    def __init__(self, parts: nn.Module, loss: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.parts = parts
        self.loss = loss

    def forward(self, rows: Tensor) -> dict[str, Tensor]:
        """``loss`` of the rows."""
        return {"loss": self.loss(rows.cpu())}


def train_parts(
    settings: OptimizerSettings, run: RunSettings, folder: Path, model: nn.Module, rows: Dataset
) -> dict[str, Any]:
    """Train a :class:`PartsAlone` on a data set of ``rows``; :class:`TrainingFigures` as a dictionary."""
    settings = reading(rows, settings).optimizer
    arguments = training_arguments(settings, run, folder / "checkpoints", sentences=False, evaluate=False)
    return vars(run_trainer(BodyTrainer(model=model, args=arguments, train_dataset=rows)))


def train_sentence_model(
    run: StageRun,
    settings: OptimizerSettings,
    model: SentenceTransformer,
    train: Dataset | Mix,
    loss: nn.Module | dict[str, nn.Module],
    dev: DevData,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    drawn_from: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Train a stage's sentence model and leave it with the weights of the best dev score.

    Args:
        run: the stage.
        settings: steps, batches, rates.
        model: what learns.
        train: its data; of several sets those of one task in proportion to their rows, tasks in turn.
        loss: its loss, or one for each data set.
        dev: what the best weights are chosen by.
        optimizer: another than AdamW at one rate.
        drawn_from: as :func:`~modenc.training.mixing.reading` takes it.

    Returns:
        :class:`TrainingFigures` as a dictionary, under ``sets`` how many ``rows`` each data set has and how
        many were read, and where there is dev data the metrics on it as ``dev_before`` and ``dev_after``.

    Raises:
        RecipeError: a data set has no rows, or too few for several processes.
    """
    read = reading(train, settings, drawn_from)
    read.announce(run.name)
    evaluator = None if dev.empty() else DevEvaluator(dev)
    metrics: dict[str, Any] = {"dev_before": evaluator(model)} if evaluator else {}
    trainer = SentenceTrainer(
        model=model,
        args=training_arguments(
            read.optimizer, run.plan.run, run.checkpoints, sentences=True, evaluate=evaluator is not None
        ),
        train_dataset=as_dataset(train),
        loss=loss,
        evaluator=evaluator,
        optimizers=(optimizer, None),
    )
    trainer.turns = read.turns
    parts = trainer.parts()
    trainer.add_callback(LossSteps(loss.values() if isinstance(loss, dict) else [loss], parts))
    best = KeepBest(run.folder, model, parts) if evaluator else None
    if best:
        best.go_on_from(last_checkpoint(run.checkpoints))
        if dev.start_may_win and not best.history:
            best.note(0, metrics["dev_before"])
    metrics |= vars(run_trainer(trainer, best))
    metrics["sets"] = read.seen(metrics["steps"])
    if evaluator:
        metrics["dev_after"] = evaluator(model)
        logger.info("  dev, of the weights that are kept: %s", readable(metrics["dev_after"]))
    return metrics
