"""The process that trains: it is alone, keeps its environment, locks its folders; how it logs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from modenc.composition.kernels import has_bf16
from modenc.errors import RecipeError
from modenc.recipe.settings import RunSettings
from modenc.storage import exclusive_lock

logger = logging.getLogger(__name__)

_SET_BY_TRAINING = ("ACCELERATE_MIXED_PRECISION", "TOKENIZERS_PARALLELISM")


def uses_bf16(run: RunSettings) -> bool:
    """Check whether matrices are multiplied in bfloat16, by the recipe or else by the machine."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return run.precision == "bf16" or (run.precision == "auto" and has_bf16(device))


@contextmanager
def one_process() -> Iterator[None]:
    """Refuse one process of several; put back, at the end, the environment variables that a training sets.

    Raises:
        RecipeError: the process is one of several, whose trainings would write the same files.
    """
    if (processes := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise RecipeError(
            f"expected one process that trains, found WORLD_SIZE = {processes}, as torchrun and accelerate "
            "launch set it; start modenc without them. Several GPUs or machines train several languages at "
            "once with --on ray"
        )
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
    held = RecipeError(
        f"{folder}: another training is running here; wait until it is done, or give this one "
        "a run.work_dir of its own"
    )
    with exclusive_lock(folder, held, wait):
        yield


def on_terminal() -> bool:
    """Check whether bars are shown: not if standard error is a file, nor if only errors are logged."""
    return sys.stderr is not None and sys.stderr.isatty() and logger.isEnabledFor(logging.WARNING)


def readable(metrics: Mapping[str, Any]) -> str:
    """Format metrics on one line: ``sts 81.94, score 88.50``."""
    return ", ".join(
        f"{name.replace('_', ' ')} {f'{value:.2f}' if isinstance(value, float) else value}"
        for name, value in metrics.items()
    )
