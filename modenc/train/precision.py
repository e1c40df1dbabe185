"""In which numbers a run computes."""

from __future__ import annotations

import torch

from modenc.recipe.settings import RunSettings


def uses_bf16(run: RunSettings) -> bool:
    """Whether matrices are multiplied in bfloat16: as the recipe says, or as the machine can."""
    return run.precision == "bf16" or (run.precision == "auto" and has_bf16())


def has_bf16() -> bool:
    """Whether the processor multiplies bfloat16 matrices in hardware (elsewhere it is slower than fp32)."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, check, lambda: False)() for check in checks)
