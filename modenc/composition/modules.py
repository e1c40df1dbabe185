"""A language's modules as tensors to compute with, made from what the hub's reader hands out.

LA and SE act on the same input, so
``s_la B_la A_la x + s_se B_se A_se x = [s_la B_la, s_se B_se] [A_la; A_se] x``:
they become one adapter of the summed rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from modenc.errors import HubError
from modenc.hub.checks.adapters import LoraWeights, ParallelWeights
from modenc.hub.layout import MOST_INT8, LanguageLayout
from modenc.hub.reader import Language, read_parts

# Of a piece, measured: 624 with 16,000 in a Unigram model, 680 with 50,000.
_TOKENIZER_BYTES = 680


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
        layers = [*self.low_rank.values(), *self.parallel.values()]
        parts = [part for layer in layers for part in vars(layer).values() if isinstance(part, Tensor)]
        return sum(part.nbytes for part in parts) + vocabulary_nbytes(self.embeddings)


def vocabulary_nbytes(embeddings: Tensor | None) -> int:
    """Bytes of a language's own table and, about, of its tokenizer; 0 where it has the base's."""
    return 0 if embeddings is None else embeddings.nbytes + len(embeddings) * _TOKENIZER_BYTES


def read_modules(layout: LanguageLayout, hidden_size: int) -> LanguageModules:
    """Every part that a language's folder holds; it needs no card.

    Args:
        layout: the folder.
        hidden_size: the base's.

    Raises:
        HubError: a part cannot be used.
    """
    return modules_of(read_parts(layout, hidden_size))


def read_lora(folder: Path, hidden_size: int) -> dict[str, LowRank]:
    """The peft LoRA in a language's folder ``la`` or ``se``, as module name → low-rank change.

    Raises:
        HubError: it cannot be used.
    """
    language = read_parts(LanguageLayout(folder.parent), hidden_size, [folder.name])
    return low_rank(language.la or language.se)


def modules_of(language: Language) -> LanguageModules:
    """A language as it is computed with.

    Raises:
        HubError: transformers does not take its tokenizer, or LA and SE of a layer differ in width.
    """
    embeddings = None
    if language.embeddings is not None:
        rows, scales = torch.from_numpy(language.embeddings), language.scales
        embeddings = rows.float() if scales is None else dequantize_rows(rows, torch.from_numpy(scales))
    return LanguageModules(
        lang=language.lang,
        tokenizer=None if language.tokenizer is None else _fast_tokenizer(language),
        embeddings=embeddings,
        low_rank=concatenate(low_rank(language.la), low_rank(language.se)),
        parallel={layer: _parallel_layer(adapter) for layer, adapter in language.cla.items()},
    )


def _fast_tokenizer(language: Language) -> PreTrainedTokenizerFast:
    assert language.tokenizer is not None
    try:
        # Not from_pretrained, which follows file names that it finds in the folder.
        return PreTrainedTokenizerFast(
            tokenizer_object=language.tokenizer.backend, **language.tokenizer.options
        )
    except Exception as error:  # of the library, whatever it is
        raise HubError(
            f"{language.lang}: expected a tokenizer that transformers takes, found: {error}; install the "
            "language again"
        ) from error


def low_rank(adapter: Mapping[str, LoraWeights]) -> dict[str, LowRank]:
    """A LoRA with its scaling folded in, in float32."""
    return {
        module: LowRank(
            a=torch.from_numpy(weights.a).float(), b=torch.from_numpy(weights.b).float() * weights.scaling
        )
        for module, weights in adapter.items()
    }


def _parallel_layer(adapter: ParallelWeights) -> ParallelLayer:
    tensors = {key: torch.from_numpy(part).float() for key, part in vars(adapter).items() if key != "scaling"}
    return ParallelLayer(**tensors, scaling=adapter.scaling)


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
