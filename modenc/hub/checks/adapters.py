"""Checked parsing of a language's adapters: LA and SE in peft's format, CLA in AdapterHub's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modenc.errors import HubError
from modenc.hub.checks.tensors import MOST_HEADER, Array, Tensors, check_numbers, name_some, parse_tensors
from modenc.hub.layout import CLA_CONFIG, LORA_CONFIG

# Largest dimension of a matrix, in hidden sizes: engines allocate as much as a malicious file claims.
_MOST_TIMES = 16
# Most numbers in all tensors of an adapter, in matrices of [hidden, hidden].
_MOST_MATRICES = 1 << 10
_MOST_SCALING = 1e3
_LORA_TENSOR = re.compile(
    r"base_model\.model\.(?P<module>[\w.]{1,200})\.lora_(?P<matrix>[AB])(?:\.\w{1,100})?\.weight", re.ASCII
)
_PARALLEL_TENSOR = re.compile(
    r"(?:[\w.]{1,100}\.)?encoder\.layer\.(?P<layer>\d{1,4})\.output\.adapters\.\w{1,100}"
    r"\.adapter_(?P<projection>down|up)(?:\.0)?\.(?P<kind>weight|bias)",
    re.ASCII,
)
_PARALLEL = {"is_parallel": True, "output_adapter": True, "mh_adapter": False, "non_linearity": "relu"}
# Settings that must be absent or off, since modenc does not support them.
_NOT_IN_PARALLEL = ("ln_before", "ln_after", "phm_layer", "use_gating", "inv_adapter")
_NOT_IN_LORA = (
    *("use_dora", "lora_bias", "use_qalora", "use_bdlora", "modules_to_save", "trainable_token_indices"),
    *("target_parameters", "layer_replication", "alora_invocation_tokens", "arrow_config", "kasa_config"),
)
# Other initializations (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA) change the base's weights.
_STARTS = (None, True, False, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True)
class LoraWeights:
    """LoRA of one linear layer: ``W x + scaling * B A x``."""

    a: Array
    """[rank, in]"""
    b: Array
    """[out, rank]"""
    scaling: float


@dataclass(frozen=True)
class ParallelWeights:
    """Parallel adapter of one feed-forward block: ``scaling * Up(relu(Down(x)))``."""

    down_weight: Array
    """[bottleneck, hidden]"""
    down_bias: Array
    up_weight: Array
    """[hidden, bottleneck]"""
    up_bias: Array
    scaling: float


def most_adapter_bytes(hidden_size: int) -> int:
    """Return the most bytes of an adapter's weights for a base of this width."""
    return MOST_HEADER + 4 * _MOST_MATRICES * hidden_size**2


def parse_lora(content: bytes, config: dict[str, Any], hidden_size: int) -> dict[str, LoraWeights]:
    """Parse a peft LoRA (Hu et al., 2022) to module name → weights.

    Raises:
        HubError: it is no plain LoRA, or not for a base of this width.
    """
    tensors = parse_tensors(content)
    if issue := _not_plain(config):
        raise HubError(f"expected a plain peft LoRA without bias in {LORA_CONFIG}, found {issue}")
    if others := config.get("alpha_pattern"):
        raise HubError(
            f"expected one lora_alpha for all layers in {LORA_CONFIG}, found alpha_pattern {others!r:.60}"
        )
    ranks, alpha = _ranks(config), _scaling(config, "lora_alpha")
    pairs: dict[str, Tensors] = {}
    for name, tensor in tensors.items():
        match = _LORA_TENSOR.fullmatch(name)
        if match is None or match["matrix"] in pairs.setdefault(match["module"], {}):
            raise HubError(f"expected each layer's lora_A and lora_B weights once, found {name!r:.120}")
        pairs[match["module"]][match["matrix"]] = tensor
    if not pairs:
        raise HubError(f"expected lora_A and lora_B weights, found {name_some(tensors)}")
    for layer, pair in pairs.items():
        shapes = {matrix: list(tensor.shape) for matrix, tensor in pair.items()}
        if set(pair) != {"A", "B"} or any(tensor.ndim != 2 for tensor in pair.values()):
            raise HubError(f"{layer}: expected the matrices lora_A and lora_B, found {shapes}")
        found, sizes = f"found A {shapes['A']}, B {shapes['B']}", [*shapes["A"], *shapes["B"]]
        rank, width, out, rank_of_b = sizes
        if rank != rank_of_b or rank not in ranks:
            listed = " or ".join(str(rank) for rank in sorted(ranks))
            raise HubError(f"{layer}: expected rank {listed:.60} ({LORA_CONFIG}), {found}")
        if hidden_size not in (width, out):
            raise HubError(f"{layer}: expected hidden size {hidden_size}, {found}")
        if max(sizes) > _MOST_TIMES * hidden_size:
            raise HubError(f"{layer}: expected at most {_MOST_TIMES} times the hidden size, {found}")
    _check_size(tensors, hidden_size)
    check_numbers(tensors)
    root = math.sqrt if config.get("use_rslora") else float
    return {
        layer: LoraWeights(pair["A"], pair["B"], alpha / root(len(pair["A"])))
        for layer, pair in pairs.items()
    }


def parse_parallel(content: bytes, config: dict[str, Any], hidden_size: int) -> dict[int, ParallelWeights]:
    """Parse an AdapterHub parallel adapter (He et al., 2022) to layer number → weights.

    Raises:
        HubError: it is another kind of adapter, or not for a base of this width.
    """
    tensors, scaling = parse_tensors(content), _parallel_scaling(config.get("config"))
    layers: dict[int, Tensors] = {}
    for name, tensor in tensors.items():
        match = _PARALLEL_TENSOR.fullmatch(name)
        weights = layers.setdefault(int(match["layer"]), {}) if match else {}
        if match is None or (key := f"{match['projection']}_{match['kind']}") in weights:
            raise HubError(f"expected each layer's adapter_down and adapter_up once, found {name!r:.120}")
        weights[key] = tensor
    if not layers:
        raise HubError(f"expected the matrices of a parallel adapter, found {name_some(tensors)}")
    for layer, weights in sorted(layers.items()):
        _check_layer(layer, weights, hidden_size)
    _check_size(tensors, hidden_size)
    check_numbers(tensors)
    return {layer: ParallelWeights(**weights, scaling=scaling) for layer, weights in sorted(layers.items())}


PARSERS: dict[str, Callable[[bytes, dict[str, Any], int], dict[Any, Any]]] = {
    "la": parse_lora,
    "se": parse_lora,
    "cla": parse_parallel,
}
"""Part → its parser, of the weights file's content, the configuration and the base's hidden size."""


def _parallel_scaling(settings: object) -> float:
    """Return the scaling of a plain parallel adapter from its configuration; refuse other adapters."""
    if not isinstance(settings, dict):
        raise HubError(f"expected an AdapterHub configuration in {CLA_CONFIG}, found {settings!r:.60}")
    scaling = _scaling(settings, "scaling")
    if found := {key: settings.get(key) for key, value in _PARALLEL.items() if settings.get(key) != value}:
        raise HubError(f"expected a parallel adapter with {_PARALLEL} in {CLA_CONFIG}, found {found!r:.200}")
    others = {key: settings[key] for key in _NOT_IN_PARALLEL if settings.get(key)}
    if others or settings.get("original_ln_after") is False:
        raise HubError(
            "expected a parallel adapter alone, with the layer norm of its block after it, in "
            f"{CLA_CONFIG}, found {others or {'original_ln_after': False}!r:.200}"
        )
    return scaling


def _check_layer(layer: int, weights: Tensors, hidden_size: int) -> None:
    shapes = {key: tensor.shape for key, tensor in weights.items()}
    bottleneck = next(iter(shapes.get("down_weight", ())), 0)
    expected = {
        "down_weight": (bottleneck, hidden_size),
        "down_bias": (bottleneck,),
        "up_weight": (hidden_size, bottleneck),
        "up_bias": (hidden_size,),
    }
    if shapes != expected or not bottleneck:
        listed = ", ".join(
            f"{key.replace('_', ' ')} {list(shapes[key]) if key in shapes else 'missing'}" for key in expected
        )
        raise HubError(
            f"layer {layer}: expected one bottleneck and hidden size {hidden_size} throughout, found {listed}"
        )
    if bottleneck > _MOST_TIMES * hidden_size:
        raise HubError(
            f"layer {layer}: expected at most {_MOST_TIMES} times the hidden size, found {bottleneck}"
        )


def _not_plain(config: dict[str, Any]) -> str:
    """Return the settings of a peft adapter that make it no plain LoRA (``scaling * B A x``); else empty."""
    if (kind := config.get("peft_type")) != "LORA":
        return f"{kind!r:.60}"
    found = {key: config[key] for key in _NOT_IN_LORA if config.get(key)}
    if (bias := config.get("bias", "none")) != "none":
        found["bias"] = bias
    if (start := config.get("init_lora_weights")) not in _STARTS:
        found["init_lora_weights"] = start
    return ", ".join(f"{key} {value!r:.60}" for key, value in found.items())


def _ranks(config: dict[str, Any]) -> set[int]:
    pattern = config.get("rank_pattern") or {}
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    if not all(type(rank) is int and rank > 0 for rank in ranks):
        raise HubError(f"expected ranks of 1 or more in {LORA_CONFIG}, found {ranks!r:.60}")
    return {int(rank) for rank in ranks if rank is not None}


def _scaling(config: dict[str, Any], key: str) -> float:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_SCALING:
        raise HubError(
            f"expected a number up to {_MOST_SCALING:g} for {key} in {LORA_CONFIG}, found {value!r:.60}"
        )
    return float(value)


def _check_size(tensors: Tensors, hidden_size: int) -> None:
    found, most = sum(tensor.size for tensor in tensors.values()), _MOST_MATRICES * hidden_size**2
    if found > most:
        raise HubError(f"expected at most {most} numbers in all tensors, found {found}")
