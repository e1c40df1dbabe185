"""Conversion of a parallel adapter to more neurons of its feed-forward block.

A block computes ``V act(W x + b) + c``, its adapter ``U relu(D x + d) + e``. With ``act`` = ReLU both
together are one wider block with the weights ``[W; D]`` and ``[V, U]``. Smooth activations, such as GELU,
approach ReLU far from 0: ``act(k z) / k → relu(z)`` as k grows, for GELU with an error of at most 0.17 / k.
So with ``[W; k D]`` and ``[V, U / k]`` a plain BERT computes the same as the modules. k is a power of
two, which does not round weights; 4096 suffices for float32, and allows activations up to 16 in float16.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from transformers import PreTrainedModel

from modenc.composition.body import compose
from modenc.composition.modules import LanguageModules
from modenc.errors import OptionError
from modenc.hub.checks import ParallelAdapter

_STEEPNESS = 4096.0
_LIKE_RELU = ("relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "silu")


def widen(body: PreTrainedModel, modules: LanguageModules, *, align: bool) -> PreTrainedModel:
    """Make a plain model of the body's class that computes the same as the body with a language's modules.

    Args:
        body: the base's body, float32; it is not changed.
        modules: the language's modules.
        align: include its alignment adapter, if it has one.

    Raises:
        OptionError: the base's activation does not approach ReLU; no plain model can hold the adapter.
        HubError: the modules do not fit the body.
    """
    # Includes LoRAs and embeddings, and checks that the modules fit.
    composed = compose(body, modules, align=False)
    if not (align and modules.parallel_adapters):
        return composed
    act = composed.config.hidden_act
    if act not in _LIKE_RELU:
        raise OptionError(
            f"{modules.lang}: expected a base whose activation is ReLU or approaches it far from 0, such as "
            f"GELU, found {act!r:.60}, with which a plain model cannot hold the alignment adapter; export it "
            "to onnx or openvino, whose graphs can, or without alignment (--no-align; in Python, align=False)"
        )
    most = max(len(adapter.down_bias) for adapter in modules.parallel_adapters.values())
    config = copy.deepcopy(composed.config)
    config.intermediate_size += most
    weights = composed.state_dict()
    for number in range(config.num_hidden_layers):
        _widen(weights, f"encoder.layer.{number}", modules.parallel_adapters.get(number), most)
    model: PreTrainedModel = type(composed)(config, add_pooling_layer=False)
    model.load_state_dict(weights)
    return model.eval()


def _widen(
    weights: dict[str, Tensor], layer: str, adapter: ParallelAdapter[Tensor] | None, most: int
) -> None:
    """Add ``most`` neurons to a block: the adapter's, then neurons of zeros."""
    inner, outer = f"{layer}.intermediate.dense", f"{layer}.output.dense"
    hidden = len(weights[f"{outer}.weight"])
    down, bias, up = torch.zeros(most, hidden), torch.zeros(most), torch.zeros(hidden, most)
    if adapter is not None:
        width = len(adapter.down_bias)
        down[:width] = _STEEPNESS * adapter.down_weight
        bias[:width] = _STEEPNESS * adapter.down_bias
        up[:, :width] = adapter.up_weight / _STEEPNESS
        weights[f"{outer}.bias"] = weights[f"{outer}.bias"] + adapter.up_bias
    weights[f"{inner}.weight"] = torch.cat([weights[f"{inner}.weight"], down])
    weights[f"{inner}.bias"] = torch.cat([weights[f"{inner}.bias"], bias])
    weights[f"{outer}.weight"] = torch.cat([weights[f"{outer}.weight"], up], dim=1)
