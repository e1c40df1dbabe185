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
        named = _unwrapped(model).named_parameters()
        self.names = [name for name, parameter in named if parameter.requires_grad]
        for number, parameter in enumerate(self._learning(model)):
            self.register_buffer(f"slow_{number}", parameter.detach().clone())

    def _learning(self, model: nn.Module) -> list[Tensor]:
        parameters = dict(_unwrapped(model).named_parameters())
        return [parameters[name] for name in self.names]

    def _slow(self) -> list[Tensor]:
        return [self.get_buffer(f"slow_{number}") for number in range(len(self.names))]

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Take one step: slow ← momentum · slow + (1 - momentum) · own."""
        for slow, own in zip(self._slow(), self._learning(model), strict=True):
            slow.lerp_(own.to(slow), 1 - self.momentum)

    @torch.no_grad()
    def start_at(self, model: nn.Module) -> None:
        """Set the slow parameters to the model's own."""
        for slow, own in zip(self._slow(), self._learning(model), strict=True):
            slow.copy_(own)

    @torch.no_grad()
    def __call__(self, model: nn.Module, inputs: Mapping[str, Any]) -> Any:
        """Compute ``model(inputs)`` with the slow parameters, without gradients."""
        slow = dict(zip(self.names, self._slow(), strict=True))
        return functional_call(_unwrapped(model), slow, (dict(inputs),))


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
