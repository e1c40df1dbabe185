"""Processes of a training, one or several: what they share, the locks that they hold, how they log."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, parse_flag_from_env

from modenc.composition.kernels import has_bf16
from modenc.errors import RecipeError
from modenc.recipe.settings import OptimizerSettings, RunSettings
from modenc.storage import exclusive_lock

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_SET_BY_TRAINING = ("ACCELERATE_MIXED_PRECISION", "TOKENIZERS_PARALLELISM")


def process_state() -> PartialState:
    """Return the state of this process among all; the first call joins them.

    ``ACCELERATE_USE_CPU=true`` means processes on the CPU, which ``PartialState()`` alone ignores.
    """
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))


def broadcast_from_main(result: Result) -> Result:
    """Return the main process's ``result`` in every process; all must call it, and wait for each other."""
    results = [result]
    broadcast_object_list(results)
    return results[0]


def rows_a_step(optimizer: OptimizerSettings) -> int:
    """Count the rows that one optimizer step reads, in all processes."""
    rows: int = optimizer.batch_size * optimizer.gradient_accumulation * process_state().num_processes
    return rows


def uses_bf16(run: RunSettings) -> bool:
    """Check whether matrices are multiplied in bfloat16, by the recipe or else by the machine."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return run.precision == "bf16" or (run.precision == "auto" and has_bf16(device))


@contextmanager
def environment_kept() -> Iterator[None]:
    """Put back, at the end, the environment variables that a training sets for its libraries."""
    before = {name: os.environ.get(name) for name in _SET_BY_TRAINING}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def training_lock(folder: Path, wait: float = 0) -> Iterator[None]:
    """Lock a work folder; RecipeError if another training holds it for more than ``wait`` seconds."""
    if not process_state().is_main_process:
        yield
        return
    held = RecipeError(
        f"{folder}: another training is running here; wait until it is done, or give this one "
        "a run.work_dir of its own"
    )
    with exclusive_lock(folder, held, wait):
        yield


def average(tensor: torch.Tensor) -> None:
    """Replace a tensor by its mean over all processes; the same shape and type in each."""
    torch.distributed.all_reduce(tensor)
    tensor /= process_state().num_processes


def on_terminal() -> bool:
    """Check whether bars are shown: not if standard error is a file, nor if only errors are logged."""
    return sys.stderr is not None and sys.stderr.isatty() and logger.isEnabledFor(logging.WARNING)


def readable(metrics: Mapping[str, Any]) -> str:
    """Format metrics on one line: ``sts 81.94, score 88.50``."""
    return ", ".join(
        f"{name.replace('_', ' ')} {f'{value:.2f}' if isinstance(value, float) else value}"
        for name, value in metrics.items()
    )
