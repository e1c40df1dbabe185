"""Training in several processes, as `accelerate launch` and `torchrun` start them."""

from __future__ import annotations

from typing import TypeVar

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, parse_flag_from_env

from modenc.recipe.settings import OptimizerSettings

Result = TypeVar("Result")


def process_state() -> PartialState:
    """Which of the processes this is; the first call joins them.

    ``ACCELERATE_USE_CPU=true`` asks for processes on the CPU, which ``PartialState()`` alone overlooks.
    """
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))


def of_main_process(result: Result) -> Result:
    """The main process's ``result``, in every process; all call it, and wait for each other there."""
    results = [result]
    broadcast_object_list(results)
    return results[0]


def rows_a_step(optimizer: OptimizerSettings) -> int:
    """Rows that one optimizer step reads, in all processes together."""
    rows: int = optimizer.batch_size * optimizer.gradient_accumulation * process_state().num_processes
    return rows
