"""What a training computes with: one or several processes, and numbers of 16 or 32 bits."""

from __future__ import annotations

from typing import TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, parse_flag_from_env

from modenc.hardware import has_bf16
from modenc.recipe.settings import OptimizerSettings, RunSettings

Result = TypeVar("Result")


def process_state() -> PartialState:
    """Which of the processes this is; the first call joins them.

    ``ACCELERATE_USE_CPU=true`` asks for processes on the CPU, which ``PartialState()`` alone ignores.
    """
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))


def of_main_process(result: Result) -> Result:
    """The main process's ``result`` in every process; all must call it, and wait for each other."""
    results = [result]
    broadcast_object_list(results)
    return results[0]


def rows_a_step(optimizer: OptimizerSettings) -> int:
    """Rows that one optimizer step reads, in all processes together."""
    rows: int = optimizer.batch_size * optimizer.gradient_accumulation * process_state().num_processes
    return rows


def uses_bf16(run: RunSettings) -> bool:
    """Whether matrices are multiplied in bfloat16: as the recipe says, or as the machine can."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return run.precision == "bf16" or (run.precision == "auto" and has_bf16(device))
