"""The frozen body for inference: BERT's layers, with the norm after each residual.

``x = norm(x + Attention(x))``, then ``x = norm(x + FFN(x) + scaling * Up(relu(Down(x))))``. The layers'
weights are merged ones, or the base's with :class:`~modenc.composition.adapter_bank.RowAdapters` beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from modenc.composition.adapter_bank import (
    ATTENTION_OUTPUT,
    INTERMEDIATE,
    KEY,
    LINEAR_LAYERS,
    OUTPUT,
    QUERY,
    VALUE,
    Matrices,
    RowAdapters,
)
from modenc.composition.kernels import Dense, Precision, make_dense
from modenc.composition.packing import Bucket

_DOWN, _UP = "down", "up"
_SCORES_AT_A_TIME = 400_000


@dataclass(frozen=True)
class Layer:
    """One layer's weights, ready to compute with."""

    dense: dict[str, Dense]
    """By name; with those of a parallel adapter where one is merged."""
    attention_norm: tuple[Tensor, Tensor]
    norm: tuple[Tensor, Tensor]

    @property
    def nbytes(self) -> int:
        """Bytes that the dense layers take."""
        return sum(dense.nbytes for dense in self.dense.values())


class Bert:
    """A frozen body of the BERT family, for inference.

    Args:
        body: the model; its embeddings are used in place.
        precision: of the linear layers and of what lies between them; the embeddings' sum and norm, and what
            comes out, keep the body's own type.
    """

    def __init__(self, body: PreTrainedModel, precision: Precision) -> None:
        config: Any = body.config
        self._body = body
        self._precision = precision
        self._heads: int = config.num_attention_heads
        self._epsilon: float = config.layer_norm_eps
        activation = config.hidden_act
        self._fused = activation if activation in ("gelu", "relu") else None
        self._activation: Callable[[Tensor], Tensor] = ACT2FN[activation]
        own: torch.dtype = body.dtype
        self.dtype = torch.bfloat16 if precision == "bf16" else own
        """Type that tokens have between the layers."""

    def layers(self, low_rank: Matrices, parallel: Matrices) -> list[Layer]:
        """The layers' weights with a language's adapters merged into them.

        Args:
            low_rank: a slot's: see :class:`~modenc.composition.adapter_bank.BankMatrices`. Empty for none.
            parallel: likewise.
        """
        return [
            self._layer(number, layer, low_rank, parallel.get(number))
            for number, layer in enumerate(self._body.encoder.layer)
        ]

    def run(self, words: Tensor, bucket: Bucket, layers: list[Layer], adapters: RowAdapters) -> Tensor:
        """Vectors after all layers.

        Args:
            words: [rows, length, hidden], each token's row of its language's embeddings.
            bucket: the rows.
            layers: see :meth:`layers`.
            adapters: what acts beside the layers.

        Returns:
            [rows, length, hidden], meaningless where there is no token.
        """
        x = embed(self._body, words, bucket.ids)
        before = x.dtype
        x = x.to(self.dtype).flatten(0, 1)
        if layers[0].dense[QUERY].wants_few_sizes:
            x = functional.pad(x, (0, 0, 0, bucket.size - len(x)))
        for number, layer in enumerate(layers):
            dense, hidden = layer.dense, x.shape[1:]
            query, key, value = (
                adapters.add_low_rank(number, name, dense[name](x), x) for name in (QUERY, KEY, VALUE)
            )
            context = _attention(query, key, value, bucket, self._heads)
            y = dense[ATTENTION_OUTPUT](context, residual=x)
            y = adapters.add_low_rank(number, ATTENTION_OUTPUT, y, context)
            x = functional.layer_norm(y, hidden, *layer.attention_norm, self._epsilon)
            if self._fused is not None and (number, INTERMEDIATE) not in adapters.low_rank:
                inner = dense[INTERMEDIATE](x, activation=self._fused)
            else:
                y = adapters.add_low_rank(number, INTERMEDIATE, dense[INTERMEDIATE](x), x)
                inner = self._activation(y)
            y = dense[OUTPUT](inner, residual=x)
            if _DOWN in dense:
                y = dense[_UP](dense[_DOWN](x, activation="relu"), residual=y)
            y = adapters.add_low_rank(number, OUTPUT, y, inner)
            y = adapters.add_parallel(number, y, x)
            x = functional.layer_norm(y, hidden, *layer.norm, self._epsilon)
        final: Tensor = bucket.in_rows(x).to(before)
        return final

    def _layer(
        self, number: int, layer: nn.Module, low_rank: Matrices, parallel: tuple[Tensor, ...] | None
    ) -> Layer:
        def merged(name: str) -> Dense:
            linear: Any = layer.get_submodule(name)
            weight = linear.weight.detach()
            if (number, name) in low_rank:
                a, b = low_rank[number, name]
                weight = weight + (b.T.float() @ a.float()).to(weight)
            return make_dense(weight, linear.bias.detach(), self._precision)

        def norm(name: str) -> tuple[Tensor, Tensor]:
            part: Any = layer.get_submodule(name)
            return part.weight.detach().to(self.dtype), part.bias.detach().to(self.dtype)

        dense = {name: merged(name) for name in LINEAR_LAYERS}
        if parallel is not None:
            # Copies: views would keep the whole bank as it is now in memory.
            down, down_bias, up, up_bias = (part.to(self._body.dtype, copy=True) for part in parallel)
            dense[_DOWN] = make_dense(down, down_bias, self._precision)
            dense[_UP] = make_dense(up.T, up_bias, self._precision)
        return Layer(dense, norm("attention.output.LayerNorm"), norm("output.LayerNorm"))


def embed(body: PreTrainedModel, words: Tensor, ids: Tensor) -> Tensor:
    """What enters the first layer of a body of the BERT family.

    Args:
        body: the model.
        words: [rows, length, hidden], each token's row of its language's embeddings.
        ids: [rows, length], those tokens.

    Returns:
        [rows, length, hidden], normed.
    """
    parts: Any = body.embeddings
    config: Any = body.config
    table: Tensor = parts.position_embeddings.weight
    if config.model_type == "bert":
        positions = table[: ids.shape[1]]
    else:
        # RoBERTa-like bodies count from the padding id on, and pass over padding that a text may hold.
        real = ids.ne(config.pad_token_id)
        positions = functional.embedding(real.cumsum(dim=1) * real + config.pad_token_id, table)
    x: Tensor = parts.LayerNorm(words + positions + parts.token_type_embeddings.weight[0])
    return x


def _attention(query: Tensor, key: Tensor, value: Tensor, bucket: Bucket, heads: int) -> Tensor:
    """All [tokens, hidden]."""
    output = torch.empty_like(query)
    output[bucket.ids.numel() :] = 0
    split = (*bucket.ids.shape, heads, -1)
    query, key, value, context = (
        bucket.in_rows(part).view(split).transpose(1, 2) for part in (query, key, value, output)
    )
    if query.device.type == "cpu":
        _attend_in_chunks(query, key, value, bucket.mask, context)
    else:
        mask = None if bucket.mask is None else bucket.mask.to(query.dtype)
        context.copy_(functional.scaled_dot_product_attention(query, key, value, attn_mask=mask))
    return output


def _attend_in_chunks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor) -> None:
    """Attention by plain products on a few rows at a time, whose scores stay in the processor's cache.

    On CPUs that is faster than the fused operator at every length that bodies have.
    """
    rows, heads, width, size = query.shape
    chunk = max(1, _SCORES_AT_A_TIME // (heads * width * width))
    for start in range(0, rows, chunk):
        part = slice(start, start + chunk)
        scores = torch.matmul(query[part], key[part].transpose(-1, -2))
        scores = scores if scores.dtype == torch.float64 else scores.float()
        scores = scores.mul_(size**-0.5) if mask is None else torch.add(mask[part], scores, alpha=size**-0.5)
        out[part] = torch.matmul(scores.softmax(dim=-1).to(value.dtype), value[part])
