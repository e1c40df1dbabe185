"""Linear layers that are never trained: their weights are packed once for both passes.

On CPUs torch multiplies float32 by a library that is slow on some processors, and under autocast it converts
every weight in every step. oneDNN's products with packed weights avoid both.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from modenc.composition.kernels import OneDnnDense, onednn_works


class FrozenLinear(nn.Linear):
    """A layer with the weight and bias of another one, which never change."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(1, 1, device="meta")
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self._packed: dict[torch.dtype, tuple[OneDnnDense, OneDnnDense]] = {}

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] → [..., out]."""
        autocast = torch.is_autocast_enabled("cpu")
        kind = torch.get_autocast_dtype("cpu") if autocast else x.dtype
        if x.device.type != "cpu" or not onednn_works(kind):
            return super().forward(x)
        if kind not in self._packed:
            weight, bias = self.weight.detach().to(kind), self.bias.detach().to(kind)
            back = OneDnnDense(weight.T.contiguous(), weight.new_zeros(self.in_features))
            self._packed[kind] = (OneDnnDense(weight, bias), back)
        y: Tensor = _Product.apply(x.to(kind), *self._packed[kind])  # type: ignore[no-untyped-call]
        return y


class _Product(torch.autograd.Function):
    """``x W^T + b`` with a gradient for x alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, product: OneDnnDense, back: OneDnnDense) -> Tensor:
        ctx.back = back
        return product(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.back(gradients[0].contiguous()), None, None


def pack_frozen(model: nn.Module) -> None:
    """Make each frozen linear layer of ``model`` a :class:`FrozenLinear`; call it with adapters in place."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if not isinstance(child, nn.Linear) or isinstance(child, FrozenLinear) or child.bias is None:
                continue
            if not any(part.requires_grad for part in child.parameters()):
                setattr(parent, name, FrozenLinear(child))
