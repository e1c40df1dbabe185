"""Training in several processes, as `accelerate launch` and `torchrun` start them."""

from __future__ import annotations

from accelerate import PartialState
from accelerate.utils import parse_flag_from_env


def process_state() -> PartialState:
    """Which of the processes this is; the first call joins them.

    ``ACCELERATE_USE_CPU=true`` asks for processes on the CPU, which ``PartialState()`` alone overlooks.
    """
    return PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))
