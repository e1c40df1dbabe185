"""Compose a language's modules with the shared body.

For language l an adapted linear layer gives ``W x + B_l A_l x`` (LA and SE concatenated, merged here
into ``W`` in float32, once, from the untouched base), and a feed-forward block gives
``FFN(x) + scaling * Up(relu(Down(x)))`` before its residual and layer norm. A composed body shares
every tensor that the language leaves alone with the base.
"""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from modenc.composition.modules import LanguageModules, ParallelLayer
from modenc.errors import HubError


class ParallelOutput(nn.Module):
    """A feed-forward block's output layer with a parallel adapter beside the block."""

    def __init__(self, output: nn.Module, adapter: ParallelLayer) -> None:
        super().__init__()
        parts: Any = output
        self.dense: nn.Module = parts.dense
        self.dropout: nn.Module = parts.dropout
        self.LayerNorm: nn.Module = parts.LayerNorm
        self.scaling = adapter.scaling
        self.down_weight = nn.Parameter(adapter.down_weight, requires_grad=False)
        self.down_bias = nn.Parameter(adapter.down_bias, requires_grad=False)
        self.up_weight = nn.Parameter(adapter.up_weight, requires_grad=False)
        self.up_bias = nn.Parameter(adapter.up_bias, requires_grad=False)

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """Both arguments [batch, length, ·]: the block's inner activations and its input."""
        down = torch.relu(nn.functional.linear(input_tensor, self.down_weight, self.down_bias))
        parallel = nn.functional.linear(down, self.up_weight, self.up_bias) * self.scaling
        output: Tensor = self.LayerNorm(self.dropout(self.dense(hidden_states)) + parallel + input_tensor)
        return output


def compose(body: PreTrainedModel, modules: LanguageModules, *, align: bool) -> PreTrainedModel:
    """A body for one language.

    Args:
        body: the untouched base, float32.
        modules: what the language adds.
        align: apply the cross-lingual alignment adapter, where the language has one.

    Returns:
        A new module in evaluation mode; ``body`` is not changed and shares its other tensors with it.

    Raises:
        HubError: a module names a layer that the body lacks, or its shape does not fit.
    """
    check_fit(body, modules)
    shared = {id(tensor): tensor for tensor in chain(body.parameters(), body.buffers())}
    composed: PreTrainedModel = copy.deepcopy(body, shared)
    if modules.embeddings is not None and modules.tokenizer is not None:
        _set_embeddings(composed, modules)
    for name, change in modules.low_rank.items():
        layer = composed.get_submodule(name)
        merged = layer.weight.detach() + (change.b @ change.a).to(layer.weight)
        layer.weight = nn.Parameter(merged, requires_grad=False)
    if align:
        for number, adapter in modules.parallel.items():
            block = composed.encoder.layer[number]
            device = block.output.dense.weight.device
            block.output = ParallelOutput(block.output, adapter).to(device)
    return composed.eval()


def check_fit(body: PreTrainedModel, modules: LanguageModules) -> None:
    """See that a language's modules were made for a body like this one.

    Raises:
        HubError: a module names a layer that the body lacks, or its shape does not fit.
    """
    for name, change in modules.low_rank.items():
        layer = _linear(body, name, modules.lang)
        if change.a.ndim != 2 or change.b.ndim != 2 or change.a.shape[0] != change.b.shape[1]:
            raise HubError(
                f"{modules.lang}: expected matrices of one rank for {name}, "
                f"found A {list(change.a.shape)}, B {list(change.b.shape)}; install the language again"
            )
        if (layer.out_features, layer.in_features) != (change.b.shape[0], change.a.shape[1]):
            raise HubError(
                f"{modules.lang}: the adapter of {name} maps {change.a.shape[1]} to {change.b.shape[0]}, "
                f"the base's layer {layer.in_features} to {layer.out_features}; "
                "these modules were made for another base"
            )
    hidden, layers = body.config.hidden_size, body.config.num_hidden_layers
    for number, adapter in modules.parallel.items():
        if number >= layers:
            raise HubError(f"{modules.lang}: alignment of layer {number}, the base has {layers}")
        _check_parallel(adapter, hidden, f"{modules.lang}: the alignment of layer {number}")
    if modules.embeddings is not None:
        _check_embeddings(body, modules, modules.embeddings)


def _check_parallel(adapter: ParallelLayer, hidden: int, name: str) -> None:
    down, up = adapter.down_weight.shape, adapter.up_weight.shape
    biases = adapter.down_bias.shape, adapter.up_bias.shape
    if len(down) != 2 or up != down[::-1] or biases != (down[:1], up[:1]):
        found = ", ".join(str(list(shape)) for shape in (down, biases[0], up, biases[1]))
        raise HubError(
            f"{name}: expected one bottleneck and one width, found the shapes {found}; "
            "install the language again"
        )
    if down[1] != hidden:
        raise HubError(
            f"{name} is {down[1]} wide, the base {hidden}; these modules were made for another base"
        )


def _check_embeddings(body: PreTrainedModel, modules: LanguageModules, table: Tensor) -> None:
    before = body.get_input_embeddings()
    if table.ndim != 2 or table.shape[1] != before.embedding_dim:
        raise HubError(
            f"{modules.lang}: embeddings of width {list(table.shape[1:])}, the base's are "
            f"{before.embedding_dim} wide; these modules were made for another base"
        )
    pad = None if modules.tokenizer is None else modules.tokenizer.pad_token_id
    # RoBERTa-like bodies count positions from the padding id.
    if (
        hasattr(body.embeddings, "padding_idx")
        and body.config.model_type != "bert"
        and pad != before.padding_idx
    ):
        raise HubError(
            f"{modules.lang}: expected padding id {before.padding_idx} as in the base, found {pad}"
        )


def _set_embeddings(body: PreTrainedModel, modules: LanguageModules) -> None:
    before = body.get_input_embeddings()
    assert modules.embeddings is not None
    assert modules.tokenizer is not None
    pad = modules.tokenizer.pad_token_id
    table = modules.embeddings.to(before.weight.device, before.weight.dtype)
    embedding = nn.Embedding(table.shape[0], table.shape[1], padding_idx=pad, _weight=table, _freeze=True)
    body.set_input_embeddings(embedding)
    body.config.vocab_size = table.shape[0]
    body.config.pad_token_id = pad


def _linear(body: PreTrainedModel, name: str, lang: str) -> nn.Linear:
    try:
        layer = body.get_submodule(name)
    except AttributeError:
        layer = None
    if not isinstance(layer, nn.Linear):
        raise HubError(
            f"{lang}: an adapter for the layer {name!r}, which the base does not have as a linear layer"
        )
    return layer
