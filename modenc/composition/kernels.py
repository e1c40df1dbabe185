"""Dense layers ``act(x W^T + b) [+ residual]`` in the precision an engine computes in.

On CPUs oneDNN's own matrix product takes weights packed once and the activation or residual in the same
pass. torch's ``linear`` does the same in two; it serves where torch is built without oneDNN, and in float32
where its library is measured to be the faster one on this machine.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from modenc.cache import Mark, cache_dir
from modenc.errors import StorageError

logger = logging.getLogger(__name__)

Precision = Literal["fp32", "bf16"]
Activation = Literal["none", "relu", "gelu"]
_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": functional.gelu,
}
# oneDNN packs for a number of rows; any other number still computes.
_TYPICAL_ROWS = 1024
_ROUNDS = 12
# What is measured to be faster by less may be slower tomorrow.
_MARGIN = 1.03
# Limits to older instructions, which the libraries read from the environment.
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")


def make_dense(weight: Tensor, bias: Tensor, precision: Precision) -> Dense:
    """The fastest layer at hand for ``weight`` [out, in] and ``bias`` [out], both detached."""
    if precision == "bf16":
        weight, bias = weight.bfloat16(), bias.bfloat16()
    if weight.device.type != "cpu" or not onednn_works(weight.dtype):
        return TorchDense(weight, bias)
    if weight.dtype == torch.float32 and torch_is_faster(torch.get_num_threads()):
        return TorchDense(weight, bias)
    return OneDnnDense(weight, bias)


class TorchDense:
    """torch's ``linear``: any device, any type.

    ``nbytes`` is what the weights take; ``wants_few_sizes`` says whether each new number of tokens costs time
    and memory.
    """

    wants_few_sizes = False

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias = weight, bias
        self.nbytes = weight.nbytes + bias.nbytes

    def __call__(self, x: Tensor, activation: Activation = "none", residual: Tensor | None = None) -> Tensor:
        """``activation(x W^T + b) + residual`` of x [tokens, in]; the two never come together."""
        y: Tensor = _ACTIVATIONS[activation](functional.linear(x, self._weight, self._bias))
        return y if residual is None else y.add_(residual)


class OneDnnDense:
    """oneDNN on a CPU, float32 or bfloat16, with packed weights."""

    wants_few_sizes = True

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._bias = bias
        self.nbytes = weight.nbytes + bias.nbytes
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)

    def __call__(self, x: Tensor, activation: Activation = "none", residual: Tensor | None = None) -> Tensor:
        """See :class:`TorchDense`."""
        if residual is not None:
            added: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
                x, residual, self._packed, self._bias, "add"
            )
            return added
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, activation, [], "none")
        return y


Dense = TorchDense | OneDnnDense


@cache
def torch_is_faster(threads: int) -> bool:
    """Whether torch's ``linear`` multiplies float32 clearly faster than oneDNN, with so many threads.

    Measured once a machine, in a fraction of a second, on a feed-forward block of a small body, and cached.
    No rule by instruction set fits all: with AVX2 alone, torch's default library (MKL) was faster where it
    took its path for Intel's processors; with AVX-512 on AMD's it is slower (see
    ``benchmarks/performance_findings.md``).
    """
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    machine = [torch.backends.cpu.get_cpu_capability(), platform.machine(), sorted(capabilities.items())]
    limits = [os.environ.get(name, "") for name in _LIMITS]
    key = repr([threads, torch.__version__, machine, limits])
    mark = None
    with suppress(StorageError):  # no place for a cache: measured in each process
        mark = Mark(cache_dir() / "kernels" / hashlib.sha256(key.encode()).hexdigest())
    faster = mark.names() if mark else []
    if not faster:
        ratio = times_faster(_block(OneDnnDense), _block(TorchDense))
        logger.info("float32: torch's product takes 1/%.2f of oneDNN's time", ratio)
        faster = ["torch" if ratio >= _MARGIN else "oneDNN"]
        if mark:
            mark.make(faster)
    return faster == ["torch"]


# Packed outside of any inference mode, as weights are.
@torch.inference_mode(False)
@torch.no_grad()
def _block(dense: Callable[[Tensor, Tensor], Dense]) -> Callable[[], Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, up, down = (torch.rand(shape, generator=generator) for shape in ((512, 384), (1536, 384), (384, 1536)))
    inner, outer = dense(up, torch.zeros(len(up))), dense(down, torch.zeros(len(down)))
    return torch.inference_mode()(lambda: outer(inner(x, activation="gelu"), residual=x))


def times_faster(first: Callable[[], Any], second: Callable[[], Any]) -> float:
    """How many times faster ``second`` is: the least time of each, since others' work only adds to it."""
    least = [float("inf"), float("inf")]
    # In turn, so that a busy moment meets both.
    for _ in range(_ROUNDS):
        for number, run in enumerate((first, second)):
            start = time.perf_counter()
            run()
            least[number] = min(least[number], time.perf_counter() - start)
    return least[0] / max(least[1], 1e-9)


@cache
def onednn_works(dtype: torch.dtype) -> bool:
    """Whether this torch has the operators, and they compute what ``linear`` does."""
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
