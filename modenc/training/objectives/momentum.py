"""Momentum contrast (He et al., 2020): a slow copy of the encoder, and a queue of its past vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


class MomentumCopy(nn.Module):
    """A momentum encoder: ``model`` with slower copies of its trainable parameters.

    Frozen parameters are not copied: the model itself runs with the slow parameters in place of its own.
    """

    def __init__(self, model: nn.Module, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        learning = {name: own for name, own in _unwrapped(model).named_parameters() if own.requires_grad}
        self.names = list(learning)
        for number, parameter in enumerate(learning.values()):
            self.register_buffer(f"slow_{number}", parameter.detach().clone())

    def _slow(self) -> dict[str, Tensor]:
        return {name: self.get_buffer(f"slow_{number}") for number, name in enumerate(self.names)}

    def _slow_and_own(self, model: nn.Module) -> list[tuple[Tensor, Tensor]]:
        own = dict(_unwrapped(model).named_parameters())
        return [(slow, own[name]) for name, slow in self._slow().items()]

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Take one step: slow ← momentum · slow + (1 - momentum) · own."""
        for slow, own in self._slow_and_own(model):
            slow.lerp_(own.to(slow), 1 - self.momentum)

    @torch.no_grad()
    def start_at(self, model: nn.Module) -> None:
        """Set the slow parameters to the model's own."""
        for slow, own in self._slow_and_own(model):
            slow.copy_(own)

    @torch.no_grad()
    def __call__(self, model: nn.Module, inputs: Mapping[str, Any]) -> Any:
        """Compute ``model(inputs)`` with the slow parameters, without gradients."""
        return functional_call(_unwrapped(model), self._slow(), (dict(inputs),))


def _unwrapped(model: nn.Module) -> nn.Module:
    """Return the model itself, which training in several processes wraps."""
    inner = getattr(model, "module", model)
    return inner if isinstance(inner, nn.Module) else model


class VectorQueue(nn.Module):
    """Queue of the last ``size`` vectors [size, hidden]."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, hidden))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    rows: Tensor
    count: Tensor

    @torch.no_grad()
    def push(self, vectors: Tensor) -> None:
        """Add ``vectors`` [n, hidden] in place of the oldest."""
        size = len(self.rows)
        places = (self.count + torch.arange(len(vectors), device=self.count.device)) % size
        # If there are more than fit, the last are kept.
        self.rows[places[-size:]] = vectors[-size:].to(self.rows)
        self.count += len(vectors)

    def vectors(self) -> Tensor:
        """Return the vectors in the queue [at most size, hidden]."""
        return self.rows[: min(int(self.count), len(self.rows))].clone()
