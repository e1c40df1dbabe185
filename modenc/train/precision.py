"""In which numbers a run computes."""

from __future__ import annotations

import torch

from modenc.hardware import has_bf16
from modenc.recipe.settings import RunSettings


def uses_bf16(run: RunSettings) -> bool:
    """Whether matrices are multiplied in bfloat16: as the recipe says, or as the machine can."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return run.precision == "bf16" or (run.precision == "auto" and has_bf16(device))
