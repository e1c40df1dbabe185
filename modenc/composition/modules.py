"""Read a language's modules from its hub folder, without peft or adapters.

LA and SE are peft LoRA folders, both acting on the same input, so
``s_la B_la A_la x + s_se B_se A_se x = [s_la B_la, s_se B_se] [A_la; A_se] x``:
they are read as one adapter of the summed rank. CLA is an AdapterHub folder.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from modenc.errors import HubError
from modenc.hub.files import read_json
from modenc.hub.layout import (
    CLA_CONFIG,
    CLA_WEIGHTS,
    EMBEDDINGS_TENSOR,
    LORA_CONFIG,
    LORA_WEIGHTS,
    MOST_INT8,
    SCALES_TENSOR,
    LanguageLayout,
)
from modenc.hub.tokenizer_faults import SPECIAL_TOKENS, TOKENIZER_FILE, panics_caught
from modenc.hub.weights import LORA_TENSOR, PARALLEL_TENSOR

# Of a piece, measured: 624 with 16,000 in a Unigram model, 680 with 50,000.
_TOKENIZER_BYTES = 680
_TOKENIZER_OPTIONS = (*SPECIAL_TOKENS, "model_input_names")


@dataclass(frozen=True)
class LowRank:
    """A low-rank change of one linear layer: ``W x + b (a x)``, scaling folded into ``b``."""

    a: Tensor
    """[rank, in]"""
    b: Tensor
    """[out, rank]"""


@dataclass(frozen=True)
class ParallelLayer:
    """One feed-forward block's parallel adapter: ``scaling * Up(relu(Down(x)))``."""

    down_weight: Tensor
    """[bottleneck, hidden]"""
    down_bias: Tensor
    up_weight: Tensor
    """[hidden, bottleneck]"""
    up_bias: Tensor
    scaling: float


@dataclass(frozen=True)
class LanguageModules:
    """All that a language adds to the shared body, in float32."""

    lang: str
    tokenizer: PreTrainedTokenizerFast | None
    """``None``: the language keeps the base's vocabulary."""
    embeddings: Tensor | None
    """[vocabulary, hidden], or ``None`` as above."""
    low_rank: dict[str, LowRank]
    """Module name in the body → LA and SE together."""
    parallel: dict[int, ParallelLayer]
    """Layer number → CLA; empty where the language has none (the pivot)."""

    @property
    def low_rank_digest(self) -> str:
        """The same for languages whose LA and SE change the body alike; empty where nothing is changed."""
        digest = hashlib.blake2b(digest_size=16)
        for name, change in sorted(self.low_rank.items()):
            digest.update(name.encode())
            for tensor in (change.a, change.b):
                digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest() if self.low_rank else ""

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors and of the tokenizer."""
        tensors = [tensor for change in self.low_rank.values() for tensor in (change.a, change.b)]
        for layer in self.parallel.values():
            tensors += [layer.down_weight, layer.down_bias, layer.up_weight, layer.up_bias]
        return sum(tensor.nbytes for tensor in tensors) + vocabulary_nbytes(self.embeddings)


def vocabulary_nbytes(embeddings: Tensor | None) -> int:
    """Bytes of a language's own table and, about, of its tokenizer; 0 where it has the base's."""
    return 0 if embeddings is None else embeddings.nbytes + len(embeddings) * _TOKENIZER_BYTES


def read_modules(layout: LanguageLayout) -> LanguageModules:
    """Read every part that a language's folder holds.

    Raises:
        HubError: a file is missing, truncated, or not of the format its place calls for.
    """
    present = layout.present()
    tokenizer, embeddings = None, None
    if "tokenizer" in present:
        tokenizer = load_tokenizer(layout.tokenizer)
        embeddings = _read_embeddings(layout.embeddings)
        if len(tokenizer) != embeddings.shape[0]:
            raise HubError(
                f"{layout.embeddings}: expected one row for each of the tokenizer's {len(tokenizer)} tokens, "
                f"found {embeddings.shape[0]}; install the language again"
            )
    adapters = [
        read_lora(folder) for part, folder in (("la", layout.la), ("se", layout.se)) if part in present
    ]
    return LanguageModules(
        lang=layout.root.name,
        tokenizer=tokenizer,
        embeddings=embeddings,
        low_rank=concatenate(*adapters),
        parallel=read_parallel(layout.cla) if "cla" in present else {},
    )


def quantize_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """A table [rows, width] as int8 [rows, width] from -127 to 127 and scales [rows] in float32, 0 or more.

    A scale times its row is within half a scale of the table's row; a row of zeros has scale 0.
    """
    table = table.detach().float()
    scales = table.abs().amax(dim=1) / MOST_INT8
    # A scale is 0 also where it would be smaller than any number.
    steps = torch.where(scales[:, None] > 0, table / scales[:, None], 0.0)
    return steps.round().clamp(-MOST_INT8, MOST_INT8).to(torch.int8), scales


def dequantize_rows(rows: Tensor, scales: Tensor) -> Tensor:
    """The table [rows, width] in float32 that :func:`quantize_rows` made ``rows`` and ``scales`` of."""
    return rows.float() * scales[:, None]


def _read_embeddings(path: Path) -> Tensor:
    """A language's table [vocabulary, hidden] in float32, of either storage."""
    tensors = _load(path)
    table, scales = tensors.get(EMBEDDINGS_TENSOR), tensors.get(SCALES_TENSOR)
    if table is None or (table.dtype == torch.int8) != (scales is not None):
        found = ", ".join(f"{name} ({tensor.dtype})" for name, tensor in sorted(tensors.items()))
        raise HubError(
            f"{path}: expected {EMBEDDINGS_TENSOR} as floating-point numbers alone, or as int8 with "
            f"{SCALES_TENSOR}; found {found or 'no tensor'}; install the language again"
        )
    return table.float() if scales is None else dequantize_rows(table, scales)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Load a tokenizer folder.

    Raises:
        HubError: it cannot be read.
    """
    config = folder / "tokenizer_config.json"
    options = read_json(config) if config.is_file() else {}
    try:
        with panics_caught():
            backend = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
            backend.no_truncation()
            backend.no_padding()
            # Not from_pretrained, which follows file names that it finds in there.
            return PreTrainedTokenizerFast(
                tokenizer_object=backend,
                **{name: _option(name, options[name]) for name in _TOKENIZER_OPTIONS if options.get(name)},
            )
    except Exception as error:  # the library raises bare Exception
        raise HubError(f"{folder}: not a readable tokenizer ({error}); install the language again") from error


def _option(name: str, value: Any) -> Any:
    """A special token's text where there is more to it; a list of names as it is."""
    if isinstance(value, dict):
        value = value.get("content")
    if not isinstance(value, list if name == "model_input_names" else str):
        raise ValueError(f"{name}: {value!r:.60}")
    return value


def read_lora(folder: Path) -> dict[str, LowRank]:
    """Read a peft LoRA folder as module name → low-rank change.

    Raises:
        HubError: it is not a plain LoRA, or a matrix lacks its partner.
    """
    config = read_json(folder / LORA_CONFIG)
    if config.get("peft_type") != "LORA" or config.get("use_dora") or config.get("bias", "none") != "none":
        raise HubError(
            f"{folder}: expected a plain peft LoRA without bias, found {config.get('peft_type')!r}"
        )
    matrices: dict[str, dict[str, Tensor]] = {}
    for key, tensor in _load(folder / LORA_WEIGHTS).items():
        match = LORA_TENSOR.fullmatch(key)
        if match is None:
            raise HubError(
                f"{folder / LORA_WEIGHTS}: unexpected tensor {key!r}; expected ….lora_A or ….lora_B"
            )
        matrices.setdefault(match["module"], {})[match["matrix"]] = tensor.float()
    adapters = {}
    for module, pair in matrices.items():
        if set(pair) != {"A", "B"}:
            raise HubError(f"{folder / LORA_WEIGHTS}: {module} has lora_{''.join(pair)} but not its partner")
        rank = pair["A"].shape[0]
        scaling = config["lora_alpha"] / (math.sqrt(rank) if config.get("use_rslora") else rank)
        adapters[module] = LowRank(a=pair["A"], b=pair["B"] * scaling)
    return adapters


def concatenate(*adapters: dict[str, LowRank]) -> dict[str, LowRank]:
    """Several adapters active at once, as one of the summed rank.

    Raises:
        HubError: two adapters of a layer differ in width.
    """
    combined: dict[str, LowRank] = {}
    for adapter in adapters:
        for module, change in adapter.items():
            if module in combined:
                before = combined[module]
                if (before.a.shape[1], before.b.shape[0]) != (change.a.shape[1], change.b.shape[0]):
                    raise HubError(
                        f"the adapters of {module} differ in width; they were made for another base each"
                    )
                change = LowRank(torch.cat([before.a, change.a]), torch.cat([before.b, change.b], dim=1))
            combined[module] = change
    return combined


def read_parallel(folder: Path) -> dict[int, ParallelLayer]:
    """Read an AdapterHub folder with a parallel adapter (He et al., 2022) as layer → weights.

    Raises:
        HubError: the configuration is not that of a parallel adapter with relu, or a tensor is missing.
    """
    config = read_json(folder / CLA_CONFIG).get("config", {})
    wanted = {"is_parallel": True, "output_adapter": True, "mh_adapter": False, "non_linearity": "relu"}
    if found := {key: config.get(key) for key, value in wanted.items() if config.get(key) != value}:
        raise HubError(f"{folder}: expected a parallel adapter with {wanted}, found {found}")
    parts: dict[int, dict[str, Tensor]] = {}
    for key, tensor in _load(folder / CLA_WEIGHTS).items():
        match = PARALLEL_TENSOR.fullmatch(key)
        if match is None:
            raise HubError(f"{folder / CLA_WEIGHTS}: unexpected tensor {key!r}")
        parts.setdefault(int(match["layer"]), {})[f"{match['part']}_{match['kind']}"] = tensor.float()
    try:
        return {
            layer: ParallelLayer(**tensors, scaling=float(config["scaling"]))
            for layer, tensors in sorted(parts.items())
        }
    except TypeError as error:
        raise HubError(f"{folder / CLA_WEIGHTS}: incomplete ({error}); install the language again") from error


def _load(path: Path) -> dict[str, Tensor]:
    try:
        # Not safetensors.torch, whose mapped tensors leave 64 bytes each behind (0.8): a service that
        # evicts and loads again would grow for ever.
        return {name: torch.from_numpy(array) for name, array in load_file(path).items()}
    except (OSError, SafetensorError, TypeError) as error:  # TypeError: bfloat16, which NumPy lacks
        raise HubError(
            f"{path}: not a readable safetensors file ({error}); install the language again"
        ) from error
