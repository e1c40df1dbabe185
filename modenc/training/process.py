"""The process that trains: it is alone, locks its folders; how it logs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from modenc.composition.bert import choose_precision
from modenc.errors import RecipeError
from modenc.recipe.settings import RunSettings
from modenc.storage import exclusive_lock

logger = logging.getLogger(__name__)


def uses_bf16(run: RunSettings) -> bool:
    """Check whether matrices are multiplied in bfloat16, by the recipe or else by the machine."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return choose_precision(run.precision, device) == "bf16"


def refuse_several_processes() -> None:
    """Raise RecipeError in one of several processes, whose trainings would write the same files."""
    if (processes := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise RecipeError(
            f"expected one process that trains, found WORLD_SIZE = {processes}, as torchrun and accelerate "
            "launch set it; start modenc without them. Several GPUs or machines train several languages at "
            "once with --on ray"
        )


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
