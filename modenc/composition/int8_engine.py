"""Each language's merged body in 8-bit integers, run in turn: see :mod:`modenc.composition.engine`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.composition.body import compose
from modenc.composition.engine import BASE
from modenc.composition.int8 import compiled, int8_file
from modenc.composition.packed_body import embed
from modenc.composition.packing import Bucket, buckets
from modenc.composition.serial_engine import SerialEngine
from modenc.errors import BaseModelError
from modenc.hardware import has_bf16


@dataclass(frozen=True)
class _Model:
    compiled: Any
    nbytes: int


class Int8Engine(SerialEngine[_Model]):
    """For bodies of the BERT family on a CPU.

    Languages never share a batch's products, so that a text's vector is the same in every mixture.

    Args:
        body: the base.
        base_tokenizer: gives the tokenizer of the base, and of languages that keep its vocabulary.

    Raises:
        BaseModelError: the base is not on a CPU.
    """

    def __init__(self, body: PreTrainedModel, base_tokenizer: Callable[[], PreTrainedTokenizerFast]) -> None:
        if body.device.type != "cpu":
            raise BaseModelError(
                f"compute='int8': expected the encoder on a CPU, found {body.device}; "
                "say device='cpu', or compute='bf16'"
            )
        super().__init__(body)
        self._base_tokenizer = base_tokenizer

    def shrink(self, excess: int) -> None:
        """Free models, the longest unused first; they are read from the cache again when they are needed."""
        with self._lock:
            for key in list(self._models):
                if excess > 0:
                    excess -= self._models.pop(key).nbytes

    def _make(self, code: str, align: bool) -> _Model:
        body, tokenizer = self._base, None
        if code != BASE:
            body = compose(self._base, self._modules[code], align=align)
            tokenizer = self._modules[code].tokenizer
        file = int8_file(body, tokenizer or self._base_tokenizer(), code)
        precision = "bf16" if has_bf16(body.device) else "fp32"
        model = compiled(file, torch.get_num_threads(), precision)
        return _Model(model, file.with_suffix(".bin").stat().st_size)

    def _models_nbytes(self) -> int:
        return sum(model.nbytes for model in self._models.values())

    @torch.no_grad()
    def _vectors(self, model: _Model, code: str, ids: Tensor, mask: Tensor) -> Tensor:
        output = torch.zeros(*ids.shape, self._base.config.hidden_size)
        table = None if code == BASE else self._modules[code].embeddings
        request = model.compiled.create_infer_request()
        for bucket in buckets(ids, mask, [0] * len(ids)):
            x, real = self._inputs(bucket, table)
            hidden = torch.from_numpy(request.infer([x, real], share_inputs=True)[0])
            output[slice(None) if bucket.rows is None else bucket.rows, : hidden.shape[1]] = hidden
        return output.to(self._base.dtype)

    def _inputs(self, bucket: Bucket, table: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
        """What the models take: see :func:`~modenc.composition.int8.int8_file`."""
        words = self._base.get_input_embeddings().weight if table is None else table
        x = embed(self._base, functional.embedding(bucket.ids, words), bucket.ids)
        real = torch.ones(bucket.ids.shape)
        if bucket.mask is not None:
            real = (bucket.mask.view(bucket.ids.shape) == 0).float()
        return x.float().numpy(), real.numpy()
