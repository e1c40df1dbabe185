"""The body of the BERT family: every layer's norm after its residual.

``x = norm(x + Attention(x))``, then ``x = norm(x + FFN(x) + scaling * Up(relu(Down(x))))``. The layers'
weights are merged ones, or the base's with a :class:`~modenc.composition.bank.BankRows` beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from modenc.composition.bank import BankRows, Site
from modenc.composition.kernels import Dense, Precision, make_dense
from modenc.composition.modules import LowRank
from modenc.composition.packing import Bucket

FAMILIES = ("bert", "roberta", "xlm-roberta")
"""Model types whose bodies are built alike."""
QUERY, KEY, VALUE = (f"attention.self.{part}" for part in ("query", "key", "value"))
ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT = "attention.output.dense", "intermediate.dense", "output.dense"
_SCORES_AT_A_TIME = 400_000

Parallel = tuple[Tensor, Tensor, Tensor, Tensor]
"""Down [bottleneck, hidden], its bias, up [bottleneck, hidden] with the scaling in it, its bias."""


@dataclass(frozen=True)
class Layer:
    """One layer's weights, ready to compute with."""

    query: Dense
    key: Dense
    value: Dense
    attention_output: Dense
    attention_norm: tuple[Tensor, Tensor]
    intermediate: Dense
    output: Dense
    norm: tuple[Tensor, Tensor]
    down: Dense | None
    up: Dense | None

    @property
    def nbytes(self) -> int:
        """Bytes that the dense layers take."""
        parts = (getattr(self, part.name) for part in fields(self))
        return sum(dense.nbytes for dense in parts if hasattr(dense, "nbytes"))


class PackedBody:
    """A frozen body of one of the :data:`FAMILIES`, for inference.

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

    @staticmethod
    def supports(body: PreTrainedModel) -> bool:
        """Whether a model is built as this class computes."""
        config: Any = body.config
        absolute = getattr(config, "position_embedding_type", "absolute") in ("absolute", None)
        return config.model_type in FAMILIES and absolute and not getattr(config, "is_decoder", False)

    @property
    def sites(self) -> dict[Site, tuple[int, int]]:
        """Inputs and outputs of every linear layer that an adapter can change."""
        names = (QUERY, KEY, VALUE, ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT)
        return {
            (number, name): (layer.get_submodule(name).in_features, layer.get_submodule(name).out_features)
            for number, layer in enumerate(self._body.encoder.layer)
            for name in names
        }

    def layers(
        self, low_rank: Mapping[Site, LowRank] | None = None, parallel: Mapping[int, Parallel] | None = None
    ) -> list[Layer]:
        """The layers' weights with a language's changes merged, or the base's own."""
        low_rank, parallel = low_rank or {}, parallel or {}
        return [
            self._layer(number, layer, low_rank, parallel.get(number))
            for number, layer in enumerate(self._body.encoder.layer)
        ]

    def run(self, words: Tensor, bucket: Bucket, layers: list[Layer], rows: BankRows | None = None) -> Tensor:
        """Vectors after all layers.

        Args:
            words: [rows, length, hidden], each token's row of its language's embeddings.
            bucket: the rows.
            layers: see :meth:`layers`.
            rows: what acts beside the layers.

        Returns:
            [rows, length, hidden], of no meaning where there is no token.
        """
        x = embed(self._body, words, bucket.ids)
        before = x.dtype
        x = x.to(self.dtype).flatten(0, 1)
        if layers[0].query.wants_few_sizes:
            x = functional.pad(x, (0, 0, 0, bucket.size - len(x)))
        for number, layer in enumerate(layers):
            x = self._step(x, bucket, number, layer, rows)
        y: Tensor = _in_rows(x, bucket).to(before)
        return y

    def _step(self, x: Tensor, bucket: Bucket, number: int, layer: Layer, rows: BankRows | None) -> Tensor:
        """One layer over [tokens, hidden]: the bucket's rows one after another, then what fills up."""

        def add(y: Tensor, name: str, x: Tensor) -> Tensor:
            if rows is not None:
                rows.add((number, name), _in_rows(y, bucket), _in_rows(x, bucket))
            return y

        hidden = x.shape[1:]
        query, key, value = (
            add(dense(x), name, x)
            for dense, name in ((layer.query, QUERY), (layer.key, KEY), (layer.value, VALUE))
        )
        context = _attention(query, key, value, bucket, self._heads)
        y = add(layer.attention_output(context, residual=x), ATTENTION_OUTPUT, context)
        x = functional.layer_norm(y, hidden, *layer.attention_norm, self._epsilon)
        if self._fused is not None and not (rows and rows.changes((number, INTERMEDIATE))):
            inner = layer.intermediate(x, activation=self._fused)
        else:
            inner = self._activation(add(layer.intermediate(x), INTERMEDIATE, x))
        y = layer.output(inner, residual=x)
        if layer.down is not None and layer.up is not None:
            y = layer.up(layer.down(x, activation="relu"), residual=y)
        y = add(y, OUTPUT, inner)
        if rows is not None:
            rows.add_beside(number, _in_rows(y, bucket), _in_rows(x, bucket))
        return functional.layer_norm(y, hidden, *layer.norm, self._epsilon)

    def _layer(
        self, number: int, layer: nn.Module, low_rank: Mapping[Site, LowRank], parallel: Parallel | None
    ) -> Layer:
        def merged(name: str) -> tuple[Tensor, Tensor]:
            linear: Any = layer.get_submodule(name)
            weight = linear.weight.detach()
            if change := low_rank.get((number, name)):
                weight = weight + (change.b.float() @ change.a.float()).to(weight)
            return weight, linear.bias.detach()

        def dense(name: str) -> Dense:
            return make_dense(*merged(name), self._precision)

        def norm(name: str) -> tuple[Tensor, Tensor]:
            part: Any = layer.get_submodule(name)
            return part.weight.detach().to(self.dtype), part.bias.detach().to(self.dtype)

        down, up = None, None
        if parallel is not None:
            kind = self._body.dtype
            # Copies: views would keep the whole bank as it is now in memory.
            down_weight, down_bias, up_weight, up_bias = (part.to(kind, copy=True) for part in parallel)
            down = make_dense(down_weight, down_bias, self._precision)
            up = make_dense(up_weight.T, up_bias, self._precision)
        return Layer(
            query=dense(QUERY),
            key=dense(KEY),
            value=dense(VALUE),
            attention_output=dense(ATTENTION_OUTPUT),
            attention_norm=norm("attention.output.LayerNorm"),
            intermediate=dense(INTERMEDIATE),
            output=dense(OUTPUT),
            norm=norm("output.LayerNorm"),
            down=down,
            up=up,
        )


def embed(body: PreTrainedModel, words: Tensor, ids: Tensor) -> Tensor:
    """What enters the first layer of a body of one of the :data:`FAMILIES`.

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


def _in_rows(x: Tensor, bucket: Bucket) -> Tensor:
    """A view of [tokens, ·] as [rows, width, ·]."""
    rows, width = bucket.ids.shape
    return x[: rows * width].view(rows, width, -1)


def _attention(query: Tensor, key: Tensor, value: Tensor, bucket: Bucket, heads: int) -> Tensor:
    """All [tokens, hidden]."""
    output = torch.empty_like(query)
    output[bucket.ids.numel() :] = 0
    split = (*bucket.ids.shape, heads, -1)
    query, key, value, context = (
        _in_rows(part, bucket).view(split).transpose(1, 2) for part in (query, key, value, output)
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
