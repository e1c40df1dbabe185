"""Training in several processes, as `accelerate launch` and `torchrun` start them."""

from __future__ import annotations

from accelerate import PartialState
from accelerate.utils import parse_flag_from_env

from modenc.recipe.settings import OptimizerSettings


def process_state() -> PartialState:
    """Which of the processes this is; the first call joins them.

    ``ACCELERATE_USE_CPU=true`` asks for processes on the CPU, which ``PartialState()`` alone overlooks.
    """
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))


def rows_a_step(optimizer: OptimizerSettings) -> int:
    """Rows that one optimizer step reads, in all processes together."""
    rows: int = optimizer.batch_size * optimizer.gradient_accumulation * process_state().num_processes
    return rows
