"""One language after another in 8-bit integers, each with a model of its own, on a CPU.

Languages never share a batch's products, so that a text's vector is the same in every mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.composition.bert import embed
from modenc.composition.body import check_fit, compose
from modenc.composition.int8 import compiled, int8_file
from modenc.composition.modules import LanguageModules
from modenc.composition.packing import Bucket, buckets
from modenc.errors import BaseModelError
from modenc.languages import BASE


class _Model(NamedTuple):
    compiled: Any
    nbytes: int


class Int8Engine:
    """Has the methods of :class:`~modenc.composition.batched_engine.BatchedEngine`.

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
        self._base = body
        self._base_tokenizer = base_tokenizer
        self._modules: dict[str, LanguageModules] = {}
        # By language and alignment; the longest unused first.
        self._models: dict[tuple[str, bool], _Model] = {}
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> None:
        """Add a language.

        Raises:
            HubError: its modules do not fit the body.
        """
        check_fit(self._base, modules)
        with self._lock:
            self._modules[modules.lang] = modules

    def cost(self, modules: LanguageModules) -> int:
        """Bytes that :meth:`put` would add."""
        return modules.nbytes

    def remove(self, code: str) -> None:
        """Remove a language that no batch is using."""
        with self._lock:
            del self._modules[code]
            for align in (False, True):
                self._models.pop((code, align), None)

    def shrink(self, excess: int = 0) -> None:
        """Free models until ``excess`` bytes are free; they are read from the cache again when needed."""
        with self._lock:
            for key in list(self._models):
                if excess > 0:
                    excess -= self._models.pop(key).nbytes

    def reset(self) -> None:
        """Nothing: what was run before does not change what is computed."""

    @property
    def nbytes(self) -> int:
        """Bytes that all languages take, the body's own weights not counted."""
        with self._lock:
            models = sum(model.nbytes for model in self._models.values())
            return models + sum(modules.nbytes for modules in self._modules.values())

    @torch.no_grad()
    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Token vectors of a padded batch: see :meth:`BatchedEngine.run`."""
        output = torch.zeros(*ids.shape, self._base.config.hidden_size, dtype=self._base.dtype)
        for code in dict.fromkeys(languages):
            members = torch.tensor([row for row, other in enumerate(languages) if other == code])
            request = self._model(code, align).compiled.create_infer_request()
            for bucket in buckets(ids[members], mask[members], [0] * len(members)):
                rows = members if bucket.rows is None else members[bucket.rows]
                found = request.infer(self._inputs(bucket, code), share_inputs=True)[0]
                output[rows, : bucket.ids.shape[1]] = torch.from_numpy(found).to(output.dtype)
        return output.masked_fill_(mask[..., None] == 0, 0.0)

    def _model(self, code: str, align: bool) -> _Model:
        with self._lock:
            key = (code, align and code != BASE and bool(self._modules[code].parallel))
            self._models[key] = self._models.pop(key) if key in self._models else self._make(*key)
            return self._models[key]

    # Weights made in inference mode could never be traced.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _make(self, code: str, align: bool) -> _Model:
        body, tokenizer = self._base, None
        if code != BASE:
            body = compose(self._base, self._modules[code], align=align)
            tokenizer = self._modules[code].tokenizer
        file = int8_file(body, tokenizer or self._base_tokenizer(), code)
        return _Model(compiled(file), file.with_suffix(".bin").stat().st_size)

    def _inputs(self, bucket: Bucket, code: str) -> list[Any]:
        """What the models take: see :func:`~modenc.composition.int8.int8_file`."""
        table = None if code == BASE else self._modules[code].embeddings
        words = self._base.get_input_embeddings().weight if table is None else table
        x = embed(self._base, functional.embedding(bucket.ids, words), bucket.ids)
        real = torch.ones(bucket.ids.shape)
        if bucket.mask is not None:
            real = (bucket.mask.view(bucket.ids.shape) == 0).float()
        return [x.float().numpy(), real.numpy()]
