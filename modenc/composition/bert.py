"""Inference with a frozen body of the BERT family: layers with the norm after each residual.

``x = norm(x + Attention(x))``, then ``x = norm(x + FFN(x) + scaling * Up(relu(Down(x))))``. A language's
adapters are merged into the weights, or :class:`~modenc.composition.adapter_bank.RowAdapters` adds them.
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
    BankMatrices,
    RowAdapters,
)
from modenc.composition.buckets import Bucket
from modenc.composition.kernels import Dense, Precision, make_dense

_DOWN, _UP = "down", "up"
_SCORES_AT_A_TIME = 400_000


@dataclass(frozen=True)
class Layer:
    """Weights of one layer, packed for the kernels."""

    dense: dict[str, Dense]
    """Name → linear layer; includes the parallel adapter's, if there is one."""
    attention_norm: tuple[Tensor, Tensor]
    norm: tuple[Tensor, Tensor]


class Bert:
    """A frozen body of the BERT family, for inference.

    Args:
        body: the model; its embeddings are used in place.
        precision: type to compute the layers in; the embedding layer and the output keep the body's type.
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
        """Type of the hidden states between the layers."""

    # Weights made in inference mode could not be moved to another device.
    @torch.inference_mode(False)
    @torch.no_grad()
    def merged_layers(self, adapters: BankMatrices) -> list[Layer]:
        """Make layers with one slot's adapters merged into the weights."""
        return [self._layer(number, layer, adapters) for number, layer in enumerate(self._body.encoder.layer)]

    def run(self, words: Tensor, bucket: Bucket, layers: list[Layer], adapters: RowAdapters) -> Tensor:
        """Compute the token vectors of a bucket.

        Args:
            words: [rows, length, hidden], word embeddings.
            bucket: the rows.
            layers: weights, from :meth:`merged_layers`.
            adapters: adapters that are not merged.

        Returns:
            [rows, length, hidden], meaningless at padding.
        """
        x = self._embed(words, bucket.ids)
        before = x.dtype
        x = x.to(self.dtype).flatten(0, 1)
        if layers[0].dense[QUERY].wants_few_sizes:
            x = functional.pad(x, (0, 0, 0, bucket.size - len(x)))
        for number, layer in enumerate(layers):
            dense, hidden = layer.dense, x.shape[1:]
            query, key, value = (
                adapters.add_lora(number, name, dense[name](x), x) for name in (QUERY, KEY, VALUE)
            )
            context = _attention(query, key, value, bucket, self._heads)
            y = dense[ATTENTION_OUTPUT](context, residual=x)
            y = adapters.add_lora(number, ATTENTION_OUTPUT, y, context)
            x = functional.layer_norm(y, hidden, *layer.attention_norm, self._epsilon)
            if self._fused is not None and (number, INTERMEDIATE) not in adapters.lora:
                inner = dense[INTERMEDIATE](x, activation=self._fused)
            else:
                y = adapters.add_lora(number, INTERMEDIATE, dense[INTERMEDIATE](x), x)
                inner = self._activation(y)
            y = dense[OUTPUT](inner, residual=x)
            if _DOWN in dense:
                y = dense[_UP](dense[_DOWN](x, activation="relu"), residual=y)
            y = adapters.add_lora(number, OUTPUT, y, inner)
            y = adapters.add_parallel_adapter(number, y, x)
            x = functional.layer_norm(y, hidden, *layer.norm, self._epsilon)
        final: Tensor = bucket.in_rows(x).to(before)
        return final

    def _embed(self, words: Tensor, ids: Tensor) -> Tensor:
        """Compute the first layer's input from word embeddings, both [rows, length, hidden]."""
        embeddings: Any = self._body.embeddings
        positions = functional.embedding(position_ids(self._body, ids), embeddings.position_embeddings.weight)
        x: Tensor = embeddings.LayerNorm(words + positions + embeddings.token_type_embeddings.weight[0])
        return x

    def _layer(self, number: int, layer: nn.Module, adapters: BankMatrices) -> Layer:
        def merged(name: str) -> Dense:
            linear: Any = layer.get_submodule(name)
            weight = linear.weight.detach()
            if (number, name) in adapters.lora:
                a, b = adapters.lora[number, name]
                weight = weight + (b.T.float() @ a.float()).to(weight)
            return make_dense(weight, linear.bias.detach(), self._precision)

        def norm(name: str) -> tuple[Tensor, Tensor]:
            layer_norm: Any = layer.get_submodule(name)
            return layer_norm.weight.detach().to(self.dtype), layer_norm.bias.detach().to(self.dtype)

        dense = {name: merged(name) for name in LINEAR_LAYERS}
        if number in adapters.parallel_adapters:
            # Views would keep the bank's present matrices in memory.
            down, down_bias, up, up_bias = (
                matrix.to(self._body.dtype, copy=True) for matrix in adapters.parallel_adapters[number]
            )
            dense[_DOWN] = make_dense(down, down_bias, self._precision)
            dense[_UP] = make_dense(up.T, up_bias, self._precision)
        return Layer(dense, norm("attention.output.LayerNorm"), norm("output.LayerNorm"))


def position_ids(body: PreTrainedModel, ids: Tensor) -> Tensor:
    """Compute the positions of tokens as a body of the BERT family counts them.

    Args:
        body: the model.
        ids: [rows, length], token ids, padded on the right.

    Returns:
        [length] for BERT; [rows, length] for RoBERTa-like bodies, which count from the padding id and skip
        padding tokens, those inside a text as well.
    """
    config: Any = body.config
    if config.model_type == "bert":
        return torch.arange(ids.shape[1], device=ids.device)
    real = ids.ne(config.pad_token_id)
    return real.cumsum(dim=1) * real + int(config.pad_token_id)


def _attention(query: Tensor, key: Tensor, value: Tensor, bucket: Bucket, heads: int) -> Tensor:
    """Return the attention's output; arguments and result are [tokens, hidden]."""
    output = torch.empty_like(query)
    output[bucket.ids.numel() :] = 0
    split = (*bucket.ids.shape, heads, -1)
    query, key, value, context = (
        bucket.in_rows(tensor).view(split).transpose(1, 2) for tensor in (query, key, value, output)
    )
    if query.device.type == "cpu":
        _attend_in_chunks(query, key, value, bucket.mask, context)
    else:
        mask = None if bucket.mask is None else bucket.mask.to(query.dtype)
        context.copy_(functional.scaled_dot_product_attention(query, key, value, attn_mask=mask))
    return output


def _attend_in_chunks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor) -> None:
    """Compute attention by plain products, a few rows at a time, so that scores stay in the CPU's cache.

    On CPUs this is faster than the fused operator at every length.
    """
    rows, heads, width, size = query.shape
    chunk = max(1, _SCORES_AT_A_TIME // (heads * width * width))
    for start in range(0, rows, chunk):
        block = slice(start, start + chunk)
        scores = torch.matmul(query[block], key[block].transpose(-1, -2))
        scores = scores if scores.dtype == torch.float64 else scores.float()
        scores = scores.mul_(size**-0.5) if mask is None else torch.add(mask[block], scores, alpha=size**-0.5)
        out[block] = torch.matmul(scores.softmax(dim=-1).to(value.dtype), value[block])
