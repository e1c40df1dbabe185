"""A composed body for each language, run in turn: see :mod:`modenc.composition.engine`."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock

import torch
from torch import Tensor
from transformers import PreTrainedModel

from modenc.composition.body import check_fit, compose
from modenc.composition.engine import BASE
from modenc.composition.modules import LanguageModules


class ComposedEngine:
    """Needs of the body only that its layers are named as BERT's where modules change them."""

    def __init__(self, body: PreTrainedModel) -> None:
        self._base = body
        self._modules: dict[str, LanguageModules] = {}
        self._bodies: dict[tuple[str, bool], PreTrainedModel] = {}
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> None:
        """Take in a language."""
        check_fit(self._base, modules)
        self._modules[modules.lang] = modules

    def cost(self, modules: LanguageModules) -> int:
        """Bytes that :meth:`put` would add."""
        return modules.nbytes

    def remove(self, code: str) -> None:
        """Forget a language that no batch is using."""
        with self._lock:
            del self._modules[code]
            for align in (False, True):
                self._bodies.pop((code, align), None)

    def shrink(self, excess: int) -> None:
        """Free all composed bodies, if anything is to be freed."""
        with self._lock:
            if excess > 0:
                self._bodies.clear()

    def tidy(self) -> None:
        """Nothing is ever left behind."""

    @property
    def nbytes(self) -> int:
        """Bytes that all languages take, the body's own weights not counted."""
        with self._lock:
            shared = {tensor.data_ptr() for tensor in self._base.parameters()}
            tables = [at.embeddings for at in self._modules.values() if at.embeddings is not None]
            shared |= {table.data_ptr() for table in tables}
            parts = {part.data_ptr(): part for body in self._bodies.values() for part in body.parameters()}
            total: int = sum(part.nbytes for place, part in parts.items() if place not in shared)
            return total + sum(modules.nbytes for modules in self._modules.values())

    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Token vectors of a padded batch."""
        output: Tensor | None = None
        for code in dict.fromkeys(languages):
            members = torch.tensor([row for row, other in enumerate(languages) if other == code])
            members = members.to(ids.device)
            length = int(mask[members].sum(dim=1).max())
            hidden = self._body(code, align)(
                input_ids=ids[members, :length], attention_mask=mask[members, :length]
            ).last_hidden_state
            if output is None:
                output = hidden.new_zeros((*ids.shape, hidden.shape[-1]))
            output[members, :length] = hidden
        assert output is not None
        return output.masked_fill_(mask[..., None] == 0, 0.0)

    def _body(self, code: str, align: bool) -> PreTrainedModel:
        if code == BASE:
            return self._base
        key = (code, align and bool(self._modules[code].parallel))
        with self._lock:
            if key not in self._bodies:
                with torch.inference_mode(False), torch.no_grad():
                    composed = compose(self._base, self._modules[code], align=key[1])
                    self._bodies[key] = composed.to(self._base.device, self._base.dtype)
            return self._bodies[key]
