"""Composition of a language's modules with the body: the transformer of the base that all languages share.

For language l an adapted linear layer gives ``W x + B_l A_l x`` (LA and SE concatenated, merged here
into ``W`` in float32, once, from the untouched body), and a feed-forward block gives
``FFN(x) + Up(relu(Down(x)))`` before its residual and layer norm. A composed body shares
all unchanged tensors with the original.
"""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from modenc.composition.modules import LanguageModules, dequantize_rows
from modenc.errors import HubError
from modenc.hub.checks import ParallelAdapter


class ParallelOutput(nn.Module):
    """Output layer of a feed-forward block with a parallel adapter added."""

    def __init__(self, output: nn.Module, adapter: ParallelAdapter[Tensor]) -> None:
        super().__init__()
        old: Any = output
        self.dense: nn.Module = old.dense
        self.dropout: nn.Module = old.dropout
        self.LayerNorm: nn.Module = old.LayerNorm
        self.down_weight = nn.Parameter(adapter.down_weight, requires_grad=False)
        self.down_bias = nn.Parameter(adapter.down_bias, requires_grad=False)
        self.up_weight = nn.Parameter(adapter.up_weight, requires_grad=False)
        self.up_bias = nn.Parameter(adapter.up_bias, requires_grad=False)

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """Return the block's output from its inner activations and its input, both [batch, length, ·]."""
        down = torch.relu(nn.functional.linear(input_tensor, self.down_weight, self.down_bias))
        parallel = nn.functional.linear(down, self.up_weight, self.up_bias)
        output: Tensor = self.LayerNorm(self.dropout(self.dense(hidden_states)) + parallel + input_tensor)
        return output


def compose(body: PreTrainedModel, modules: LanguageModules, *, align: bool) -> PreTrainedModel:
    """Make a body for one language.

    Args:
        body: the base's body, float32; it is not changed.
        modules: the language's modules.
        align: apply the cross-lingual alignment adapter, if the language has one.

    Returns:
        A new module in evaluation mode that shares its unchanged tensors with ``body``.

    Raises:
        HubError: the modules do not fit the body (see :func:`check_fit`).
    """
    check_fit(body, modules)
    shared = {id(tensor): tensor for tensor in chain(body.parameters(), body.buffers())}
    composed: PreTrainedModel = copy.deepcopy(body, shared)
    if modules.embeddings is not None and modules.tokenizer is not None:
        before, pad = composed.get_input_embeddings().weight, modules.tokenizer.pad_token_id
        table = dequantize_rows(modules.embeddings, modules.scales).to(before.device, before.dtype)
        pieces, width = table.shape
        embedding = nn.Embedding(pieces, width, padding_idx=pad, _weight=table, _freeze=True)
        composed.set_input_embeddings(embedding)
        composed.config.vocab_size = pieces
        composed.config.pad_token_id = pad
    for name, lora in modules.lora.items():
        layer = composed.get_submodule(name)
        merged = layer.weight.detach() + (lora.b @ lora.a).to(layer.weight)
        layer.weight = nn.Parameter(merged, requires_grad=False)
    if align:
        for number, adapter in modules.parallel_adapters.items():
            block = composed.encoder.layer[number]
            device = block.output.dense.weight.device
            block.output = ParallelOutput(block.output, adapter).to(device)
    return composed.eval()


def check_fit(body: PreTrainedModel, modules: LanguageModules) -> None:
    """Check modules against the body's layers and padding id.

    Raises:
        HubError: a layer is missing in the body or has another shape, or the padding ids differ.
    """
    layers_by_name = dict(body.named_modules()) if modules.lora else {}
    for name, lora in sorted(modules.lora.items()):  # the first issue is the same each time
        layer = layers_by_name.get(name)
        if not isinstance(layer, nn.Linear):
            raise HubError(
                f"{modules.lang}: an adapter for the layer {name!r}, which the base does not have as a "
                "linear layer"
            )
        if (layer.out_features, layer.in_features) != (lora.b.shape[0], lora.a.shape[1]):
            raise HubError(
                f"{modules.lang}: the adapter of {name} maps {lora.a.shape[1]} to {lora.b.shape[0]}, "
                f"the base's layer {layer.in_features} to {layer.out_features}; "
                "these modules were made for another base"
            )
    layers = body.config.num_hidden_layers
    if beyond := [number for number in modules.parallel_adapters if number >= layers]:
        raise HubError(f"{modules.lang}: alignment of layer {beyond[0]}, the base has {layers}")
    if modules.embeddings is not None:
        pad = None if modules.tokenizer is None else modules.tokenizer.pad_token_id
        expected = body.get_input_embeddings().padding_idx
        # RoBERTa-like bodies count positions from the padding id.
        counts_from_padding = hasattr(body.embeddings, "padding_idx") and body.config.model_type != "bert"
        if counts_from_padding and pad != expected:
            raise HubError(f"{modules.lang}: expected padding id {expected} as in the base, found {pad}")
