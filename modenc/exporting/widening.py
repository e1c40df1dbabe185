"""A parallel adapter as more neurons of the feed-forward block that it stands beside.

A block computes ``V act(W x + b) + c``, its adapter ``s U relu(D x + d) + s e``. With ``act`` = ReLU both
are one wider block, its weights ``[W; D]`` and ``[V, s U]``. Smooth activations, such as GELU, come to ReLU
far from 0: ``act(k z) / k → relu(z)`` as k grows, for GELU off by 0.17 / k at most. So with ``[W; k D]`` and
``[V, (s / k) U]`` a stock BERT computes what the language's modules do. k is a power of two, which rounds no
weight; 4096 is enough for float32, and leaves room for activations up to 16 in float16.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from modenc.composition.body import compose
from modenc.composition.modules import LanguageModules, ParallelLayer
from modenc.errors import OptionError

_STEEPNESS = 4096.0
# GELU has 0.17, SiLU 0.28 and Mish 0.31.
_MOST_OFF = 0.4 / _STEEPNESS


def widened(body: PreTrainedModel, modules: LanguageModules, *, align: bool) -> PreTrainedModel:
    """A stock model of the body's own class that computes what the body does with a language's modules.

    Args:
        body: the untouched base, float32.
        modules: the language's.
        align: with its alignment adapter, where it has one.

    Raises:
        OptionError: the base's activation does not come to ReLU, so that no stock model can hold the adapter.
        HubError: the modules do not fit the base.
    """
    # Checks that they fit; LoRAs and embeddings are in it.
    merged = compose(body, modules, align=False)
    if not (align and modules.parallel):
        return merged
    act = merged.config.hidden_act
    if not comes_to_relu(ACT2FN[act] if isinstance(act, str) else act):
        raise OptionError(
            f"{modules.lang}: expected a base whose activation is ReLU or comes to it far from 0, such as "
            f"GELU, found {act!r:.60}, with which a stock model cannot hold the alignment adapter; export it "
            "to onnx or openvino, whose graphs can, or without alignment (--no-align; in Python, align=False)"
        )
    most = max(len(adapter.down_bias) for adapter in modules.parallel.values())
    config = copy.deepcopy(merged.config)
    config.intermediate_size += most
    weights = merged.state_dict()
    for number in range(config.num_hidden_layers):
        _widen(weights, f"encoder.layer.{number}", modules.parallel.get(number), most)
    model: PreTrainedModel = type(merged)(config, add_pooling_layer=False)
    model.load_state_dict(weights)
    return model.eval()


def comes_to_relu(act: nn.Module) -> bool:
    """Whether an activation, made steep, is ReLU as nearly as float32 can tell."""
    z = torch.linspace(-8, 8, 4097, dtype=torch.float64)
    return bool((act(_STEEPNESS * z) / _STEEPNESS - z.relu()).abs().max() <= _MOST_OFF)


def _widen(weights: dict[str, Tensor], layer: str, adapter: ParallelLayer | None, most: int) -> None:
    """Add ``most`` neurons to a block, the adapter's and, after them, some of zeros."""
    inner, outer = f"{layer}.intermediate.dense", f"{layer}.output.dense"
    hidden = len(weights[f"{outer}.weight"])
    down, bias, up = torch.zeros(most, hidden), torch.zeros(most), torch.zeros(hidden, most)
    if adapter is not None:
        width = len(adapter.down_bias)
        down[:width] = _STEEPNESS * adapter.down_weight
        bias[:width] = _STEEPNESS * adapter.down_bias
        up[:, :width] = adapter.scaling / _STEEPNESS * adapter.up_weight
        weights[f"{outer}.bias"] = weights[f"{outer}.bias"] + adapter.scaling * adapter.up_bias
    weights[f"{inner}.weight"] = torch.cat([weights[f"{inner}.weight"], down])
    weights[f"{inner}.bias"] = torch.cat([weights[f"{inner}.bias"], bias])
    weights[f"{outer}.weight"] = torch.cat([weights[f"{outer}.weight"], up], dim=1)
