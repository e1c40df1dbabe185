"""A composed body for each language, run in turn: see :mod:`modenc.composition.engine`."""

from __future__ import annotations

from torch import Tensor
from transformers import PreTrainedModel

from modenc.composition.body import compose
from modenc.composition.engine import BASE
from modenc.composition.serial_engine import SerialEngine


class ComposedEngine(SerialEngine[PreTrainedModel]):
    """Needs of the body only that its layers are named as BERT's where modules change them."""

    def shrink(self, excess: int) -> None:
        """Free all composed bodies, if anything is to be freed."""
        with self._lock:
            if excess > 0:
                self._models.clear()

    def _make(self, code: str, align: bool) -> PreTrainedModel:
        if code == BASE:
            return self._base
        composed = compose(self._base, self._modules[code], align=align)
        return composed.to(self._base.device, self._base.dtype)

    def _models_nbytes(self) -> int:
        shared = {tensor.data_ptr() for tensor in self._base.parameters()}
        tables = [at.embeddings for at in self._modules.values() if at.embeddings is not None]
        shared |= {table.data_ptr() for table in tables}
        parts = {part.data_ptr(): part for body in self._models.values() for part in body.parameters()}
        return sum(part.nbytes for place, part in parts.items() if place not in shared)

    def _vectors(self, model: PreTrainedModel, code: str, ids: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden
