"""A language's modules as tensors, converted from the checked arrays that the hub's reader returns.

LA and SE act on the same input, so
``s_la B_la A_la x + s_se B_se A_se x = [s_la B_la, s_se B_se] [A_la; A_se] x``:
they become one adapter of the summed rank.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from modenc.errors import HubError
from modenc.hub.checks import Array, LoraLayer, ParallelAdapter
from modenc.hub.layout import MOST_INT8, PART_FILES
from modenc.hub.reading import StoredLanguage, read_parts


@dataclass(frozen=True)
class LanguageModules:
    """Everything that a language adds to the shared body; all but its embeddings are in float32."""

    lang: str
    tokenizer: PreTrainedTokenizerFast | None
    """``None``: the language keeps the base's vocabulary."""
    embeddings: Tensor | None
    """[vocabulary, hidden], in floating point, or in int8 with :attr:`scales`, see :func:`dequantize_rows`;
    ``None`` if the language keeps the base's vocabulary."""
    lora: dict[str, LoraLayer[Tensor]]
    """Module name in the body → LA and SE, concatenated."""
    parallel_adapters: dict[int, ParallelAdapter[Tensor]]
    """Layer number → CLA; empty if the language has none (the pivot)."""
    scales: Tensor | None = None
    """[vocabulary], of embeddings in int8."""

    @property
    def lora_fingerprint(self) -> str:
        """Hash of LA and SE together, equal for languages that share both; empty without either."""
        hasher = hashlib.blake2b(digest_size=16)
        for name, layer in sorted(self.lora.items()):
            hasher.update(name.encode())
            for tensor in (layer.a, layer.b):
                hasher.update(tensor.contiguous().numpy().tobytes())
        return hasher.hexdigest() if self.lora else ""


def read_modules(folder: Path, hidden_size: int, parts: Iterable[str] = PART_FILES) -> LanguageModules:
    """Read a language's folder, which needs no card.

    Args:
        folder: the folder.
        hidden_size: width of the base.
        parts: parts to read, of ``tokenizer embeddings la se cla``; by default all that are there.

    Raises:
        HubError: a part cannot be used.
    """
    return to_modules(read_parts(folder, hidden_size, parts))


def to_modules(language: StoredLanguage) -> LanguageModules:
    """Convert a stored language to tensors.

    Raises:
        HubError: transformers does not take its tokenizer, or LA and SE of a layer differ in width.
    """
    return LanguageModules(
        lang=language.lang,
        tokenizer=None if language.tokenizer is None else _fast_tokenizer(language),
        embeddings=None if language.embeddings is None else torch.from_numpy(language.embeddings),
        lora=concatenate(_lora(language.la), _lora(language.se)),
        parallel_adapters={number: ParallelAdapter(*_tensors(own)) for number, own in language.cla.items()},
        scales=None if language.scales is None else torch.from_numpy(language.scales),
    )


class _Uncopied:
    """A tokenizer that ``copy.deepcopy`` returns as it is; transformers would read all of it once more."""

    def __init__(self, backend: Tokenizer) -> None:
        self._backend = backend

    def __deepcopy__(self, memo: dict[int, object]) -> Tokenizer:
        return self._backend


def _fast_tokenizer(language: StoredLanguage) -> PreTrainedTokenizerFast:
    assert language.tokenizer is not None
    try:
        # from_pretrained would follow file names that it finds in the folder.
        return PreTrainedTokenizerFast(
            tokenizer_object=_Uncopied(language.tokenizer.backend), **language.tokenizer.options
        )
    except Exception as error:  # the library raises many types
        raise HubError(
            f"{language.lang}: expected a tokenizer that transformers takes, found: {error}; install the "
            "language again"
        ) from error


def _lora(adapter: Mapping[str, LoraLayer[Array]]) -> dict[str, LoraLayer[Tensor]]:
    return {module: LoraLayer(*_tensors(layer)) for module, layer in adapter.items()}


def _tensors(arrays: Iterable[Array]) -> list[Tensor]:
    return [torch.from_numpy(array).float() for array in arrays]


def quantize_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """Quantize a table [rows, width] to int8 from -127 to 127, with float32 scales [rows], 0 or more.

    A scale times its int8 row is within half a scale of the table's row; a row of zeros has scale 0.
    """
    table = table.detach().float()
    scales = table.abs().amax(dim=1) / MOST_INT8
    # A scale that underflows is 0, too.
    levels = torch.where(scales[:, None] > 0, table / scales[:, None], 0.0)
    return levels.round().clamp(-MOST_INT8, MOST_INT8).to(torch.int8), scales


def dequantize_rows(rows: Tensor, scales: Tensor | None) -> Tensor:
    """Return rows [..., width] in float32, where :func:`quantize_rows` made them with their scales [...]."""
    return rows.float() if scales is None else rows * scales[..., None]


def concatenate(*adapters: dict[str, LoraLayer[Tensor]]) -> dict[str, LoraLayer[Tensor]]:
    """Concatenate LoRAs that are active at once into one with the summed rank.

    Raises:
        HubError: two adapters of a layer differ in width.
    """
    combined: dict[str, LoraLayer[Tensor]] = {}
    for adapter in adapters:
        for module, layer in adapter.items():
            if module in combined:
                before = combined[module]
                if (before.a.shape[1], before.b.shape[0]) != (layer.a.shape[1], layer.b.shape[0]):
                    raise HubError(
                        f"the adapters of {module} differ in width; they were made for different bases"
                    )
                layer = LoraLayer(torch.cat([before.a, layer.a]), torch.cat([before.b, layer.b], dim=1))
            combined[module] = layer
    return combined
