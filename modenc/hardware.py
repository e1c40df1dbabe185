"""Number formats that devices compute in hardware."""

from __future__ import annotations

import torch


def has_bf16(device: torch.device) -> bool:
    """Check whether ``device`` multiplies bfloat16 matrices in hardware (otherwise it is slower than fp32).

    A CPU that ``ONEDNN_MAX_CPU_ISA`` limits to older instructions does not.
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    found = device.type == "cpu" and any(getattr(torch.cpu, check, lambda: False)() for check in checks)
    # Absent if torch was built without oneDNN.
    allowed = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    return found and bool(allowed())
