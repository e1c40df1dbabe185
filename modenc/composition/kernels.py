"""Dense layers ``act(x W^T + b) [+ residual]`` in the precision of an engine.

On CPUs oneDNN's matrix product packs weights once and applies the activation or residual in the same pass.
torch's ``linear`` needs two passes; it is used if torch was built without oneDNN, and in float32 without
AVX-512.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

COMPUTE = ("fp32", "bf16", "auto")
Precision = Literal["fp32", "bf16"]
Activation = Literal["none", "relu", "gelu"]
_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": functional.gelu,
}
# oneDNN packs weights for a number of rows; other numbers work as well.
_TYPICAL_ROWS = 1024


def make_dense(weight: Tensor, bias: Tensor, precision: Precision) -> Dense:
    """Make the fastest layer for ``weight`` [out, in] and ``bias`` [out], both detached."""
    if precision == "bf16":
        weight, bias = weight.bfloat16(), bias.bfloat16()
    if weight.device.type != "cpu" or not onednn_works(weight.dtype):
        return TorchDense(weight, bias)
    if weight.dtype == torch.float32 and torch_is_faster():
        return TorchDense(weight, bias)
    return OneDnnDense(weight, bias)


class TorchDense:
    """Dense layer by torch's ``linear``, for any device and type."""

    wants_few_sizes = False
    """Whether each new number of tokens costs time and memory."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor, activation: Activation = "none", residual: Tensor | None = None) -> Tensor:
        """Return ``activation(x W^T + b) + residual`` for x [tokens, in]; give only one of the two."""
        y: Tensor = _ACTIVATIONS[activation](functional.linear(x, self._weight, self._bias))
        return y if residual is None else y.add_(residual)


class OneDnnDense:
    """Dense layer by oneDNN with packed weights, on CPUs, in float32 or bfloat16."""

    wants_few_sizes = True

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._bias = bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)

    def __call__(self, x: Tensor, activation: Activation = "none", residual: Tensor | None = None) -> Tensor:
        """Compute the layer; see :class:`TorchDense`."""
        if residual is not None:
            added: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
                x, residual, self._packed, self._bias, "add"
            )
            return added
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, activation, [], "none")
        return y


Dense = TorchDense | OneDnnDense


def torch_is_faster() -> bool:
    """Check whether torch's ``linear`` is at least as fast in float32 as oneDNN: on CPUs without AVX-512.

    There torch's default library (MKL) needs a tenth less time on its path for Intel's processors and no more
    on AMD's; with AVX-512 oneDNN is twice as fast (``benchmarks/performance_findings.md``). Processors other
    than these were not measured.
    """
    return "AVX512" not in torch.backends.cpu.get_cpu_capability()


@cache
def onednn_works(dtype: torch.dtype) -> bool:
    """Check whether torch has oneDNN's operators, and they compute the same as ``linear``."""
    if dtype not in (torch.float32, torch.bfloat16) or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    generator = torch.Generator().manual_seed(0)
    x, weight, bias, residual = (
        torch.rand(shape, generator=generator).to(dtype) for shape in ((8, 32), (16, 32), (16,), (8, 16))
    )
    try:
        with torch.inference_mode():
            layer, reference = OneDnnDense(weight, bias), TorchDense(weight, bias)
            pairs = [(layer(x, activation), reference(x, activation)) for activation in _ACTIVATIONS]
            pairs.append((layer(x, residual=residual), reference(x, residual=residual)))
    except (AttributeError, RuntimeError):
        return False
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    return all(torch.allclose(found.float(), right.float(), atol=tolerance) for found, right in pairs)


def choose_precision(compute: str, device: torch.device) -> Precision:
    """Return the precision for ``fp32``, ``bf16``, or ``auto``: bf16 if the device has it in hardware."""
    return "bf16" if compute == "bf16" or (compute == "auto" and has_bf16(device)) else "fp32"


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
