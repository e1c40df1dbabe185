"""Languages in memory, and inference in batches of many of them, or with one merged into the weights.

Each language has a slot in the :class:`AdapterBank`; one slot is all zeros, for the base without modules.
A row of language l gets ``y += B_l A_l x`` (LA and SE, concatenated) in linear layers, by one batched product
over all rows, and ``y += Up_l(relu(Down_l(x)))`` in feed-forward blocks.

*Batched*: all rows share the body's weights, and each row's own adapters are added to their products.
*Merged*: a language's adapters are added to the weights once, so that its texts cost what the base's do.
A batch of several languages is batched. One language is merged as soon as it has had enough tokens for that
to pay. Languages with the same LA and SE (equal LoRA fingerprints) share merged weights that contain these
alone; their alignment is then added as in a batch.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock, RLock
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel
from modenc.composition.bert import (
    LINEAR_LAYERS,
    BankMatrices,
    Bert,
    Bucket,
    Layer,
    Matrices,
    Precision,
    choose_precision,
    split_batch,
)
from modenc.composition.body import check_fit
from modenc.composition.modules import LanguageModules, dequantize_rows, to_modules
from modenc.hub.store import Hub
from modenc.languages import BASE

logger = logging.getLogger(__name__)

# Merging costs about as much as adding the adapters for this many tokens.
_TOKENS_BEFORE_MERGING = 4096
_MOST_MERGED = 4
# Widths round up to multiples of this, so that a slightly wider language seldom resizes all slots.
_WIDTH_STEP = 8
# Slots that are added at least. In main memory a slot that was never written to takes no room.
_LEAST_GROWTH = 3
_LEAST_GROWTH_ON_CPU = 31
BASE_SLOT = 0
"""Slot of zeros, for the base without modules."""


@dataclass(frozen=True)
class LoadedLanguage:
    """A language in memory; by default the base without modules. The engine has its adapters."""

    tokenizer: PreTrainedTokenizerFast | None = None
    """``None``: the language keeps the base's vocabulary."""
    slot: int = BASE_SLOT
    embeddings: Tensor | None = None
    scales: Tensor | None = None
    lora_fingerprint: str = ""
    has_alignment: bool = False


class LanguageCache:
    """A hub's languages in memory, each read on its first use, with their engine. Threads may share it.

    Args:
        hub: the hub folder.
        base: the hub's base, for its tokenizer.
        body: the base's body, used in place.
        compute: ``fp32``, ``bf16`` or ``auto``.
    """

    def __init__(self, hub: Hub, base: BaseModel, body: PreTrainedModel, compute: str) -> None:
        self._hub, self._base, self._body, self.compute = hub, base, body, compute
        self.restart()

    def __reduce__(self) -> tuple[type[LanguageCache], tuple[Any, ...]]:
        # Locks and engine stay here; another process reads the languages it needs from the hub.
        return LanguageCache, (self._hub, self._base, self._body, self.compute)

    def restart(self) -> None:
        """Start with no language and a new engine, because the body has moved or changed type."""
        engine = Engine(self._body, choose_precision(self.compute, self._body.device))
        # With the locks of languages that are being read.
        self._loaded = engine, {BASE: LoadedLanguage()}, dict[str, Lock]()

    def loaded(self) -> list[str]:
        """Return the codes of the languages in memory, sorted."""
        return sorted(self._loaded[1].keys() - {BASE})

    @cached_property
    def base_tokenizer(self) -> PreTrainedTokenizerFast:
        """The base's own tokenizer."""
        return self._base.load_tokenizer()

    def load(self, codes: Iterable[str]) -> tuple[Engine, dict[str, LoadedLanguage]]:
        """Read and check the modules of languages that are not in memory.

        Returns:
            The engine that holds them, and code → loaded language, also for :data:`~modenc.languages.BASE`.

        Raises:
            HubError: the hub lacks a language, or one cannot be used.
        """
        # Taken once: the engine holds these languages, even after a restart.
        engine, languages, reading = self._loaded
        for code in dict.fromkeys(codes):
            if code not in languages:
                # Threads that use other languages do not wait while this one is read, or even downloaded.
                with reading.setdefault(code, Lock()):
                    if code not in languages:
                        languages[code] = self._read(code, engine)
        return engine, languages

    def _read(self, code: str, engine: Engine) -> LoadedLanguage:
        logger.debug("loading the modules of %s from %s", code, self._hub.path)
        # Weights made in inference mode could not be trained or moved to another device.
        with torch.inference_mode(False), torch.no_grad():
            return engine.put(to_modules(self._hub.read(code)))


class Engine:
    """Engine for the languages that were put into it; threads may share it.

    Args:
        body: the base's body, used in place.
        precision: type to compute in.
    """

    def __init__(self, body: PreTrainedModel, precision: Precision) -> None:
        self._body = body
        self._bert = Bert(body, precision)
        self._bank = AdapterBank(body, self._bert.dtype)
        # Fingerprint of the merged LoRA, and the slot whose alignment is merged, too, if any's is → layers;
        # least recently used first.
        self._merged: dict[tuple[str, int | None], list[Layer]] = {}
        # Tokens computed that each merge would have served.
        self._tokens: Counter[tuple[str, int | None]] = Counter()
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> LoadedLanguage:
        """Add a language; HubError if its modules do not fit the body."""
        check_fit(self._body, modules)
        embeddings, scales = (
            None if table is None else table.to(self._body.device)
            for table in (modules.embeddings, modules.scales)
        )
        with self._lock:
            slot = self._bank.put(modules)
        return LoadedLanguage(
            modules.tokenizer,
            slot,
            embeddings,
            scales,
            modules.lora_fingerprint,
            has_alignment=bool(modules.parallel_adapters),
        )

    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[LoadedLanguage], *, align: bool) -> Tensor:
        """Compute the token vectors of a batch.

        Args:
            ids: [rows, length], padded on the right.
            mask: [rows, length], 1 where there is a token.
            languages: the language of each row, put in before, or ``LoadedLanguage()``, the base.
            align: apply the cross-lingual alignment adapters.

        Returns:
            [rows, length, hidden], zero at padding.
        """
        matrices = self._bank.matrices
        present = {language.slot: language for language in languages}
        output: Tensor | None = None
        for bucket in split_batch(ids, mask, [language.slot for language in languages]):
            layers, add_lora, add_alignment = self._choose_layers(present, align, bucket.tokens)
            adapters = matrices.parallel_adapters if add_alignment else {}
            added = BankMatrices(matrices.lora if add_lora else {}, adapters)
            words = self._word_embeddings(bucket, present)
            hidden = self._bert.run(words, bucket, layers, added)
            if bucket.mask is not None:
                hidden = hidden.masked_fill(bucket.mask.view(*hidden.shape[:2], 1) < 0, 0.0)
            if bucket.rows is None and hidden.shape[1] == ids.shape[1]:
                return hidden
            if output is None:
                output = hidden.new_zeros((*ids.shape, hidden.shape[-1]))
            members = slice(None) if bucket.rows is None else bucket.rows
            output[members, : hidden.shape[1]] = hidden
        assert output is not None
        return output

    def _choose_layers(
        self, present: dict[int, LoadedLanguage], align: bool, tokens: int
    ) -> tuple[list[Layer], bool, bool]:
        """Choose layers for a batch of ``tokens``, and merge adapters into new ones as soon as that pays.

        Returns the layers, and whether LoRAs and alignment are still to be added.
        """
        slot, *others = present
        align = align and any(language.has_alignment for language in present.values())
        fingerprints = {language.lora_fingerprint for language in present.values()}
        keys: list[tuple[str, int | None]] = []
        if len(fingerprints) == 1:
            (fingerprint,) = fingerprints
            # One language: everything in the weights.
            keys += [(fingerprint, slot)] if align and not others else []
            # Languages with the same LoRA: their alignment differs and is added.
            keys += [(fingerprint, None)] if fingerprint else []
        for key in keys:
            with self._lock:
                self._tokens[key] += tokens
                if key not in self._merged and self._tokens[key] >= _TOKENS_BEFORE_MERGING:
                    adapters = self._bank.slot_matrices(slot)
                    self._merged[key] = self._bert.merged_layers(
                        BankMatrices(adapters.lora, {}) if key[1] is None else adapters
                    )
                    for oldest in list(self._merged)[:-_MOST_MERGED]:
                        del self._merged[oldest], self._tokens[oldest]
                if key in self._merged:
                    layers = self._merged[key] = self._merged.pop(key)
                    return layers, False, align and key[1] is None
        return self._base_layers, fingerprints != {""}, align

    def _word_embeddings(self, bucket: Bucket, present: dict[int, LoadedLanguage]) -> Tensor:
        """Look up the tokens in their languages' embeddings, or in the base's."""
        base: Tensor = self._body.get_input_embeddings().weight
        if all(language.embeddings is None for language in present.values()):
            return functional.embedding(bucket.ids, base)
        words = base.new_empty(*bucket.ids.shape, base.shape[1])
        for slot, start, end in bucket.spans:
            language, ids = present[slot], bucket.ids[start:end]
            if language.embeddings is None:
                words[start:end] = functional.embedding(ids, base)
            else:
                # Whole tables in float32 would take four times the memory.
                scales = None if language.scales is None else language.scales[ids]
                words[start:end] = dequantize_rows(functional.embedding(ids, language.embeddings), scales)
        return words

    @cached_property
    def _base_layers(self) -> list[Layer]:
        return self._bert.merged_layers(BankMatrices({}, {}))


class AdapterBank:
    """Slots with the adapters of all loaded languages, in shared tensors.

    Args:
        body: the body, for its sizes and device.
        dtype: type of the matrices.
    """

    def __init__(self, body: PreTrainedModel, dtype: torch.dtype) -> None:
        self._sizes: dict[tuple[int, str], tuple[int, int]] = {
            (number, name): (layer.get_submodule(name).in_features, layer.get_submodule(name).out_features)
            for number, layer in enumerate(body.encoder.layer)
            for name in LINEAR_LAYERS
        }
        self._hidden: int = body.config.hidden_size
        self._layers: int = body.config.num_hidden_layers
        self._dtype, self._device = dtype, body.device
        self._capacity, self._rank, self._bottleneck = 1, 0, 0
        # Slots in use; the others were never written to and take no memory yet.
        self._used = 1
        self.matrices = BankMatrices({}, {})
        """Current matrices. A batch may keep using these while languages are added."""

    def put(self, modules: LanguageModules) -> int:
        """Copy a language's adapters, which must fit the body, into a slot; returns the slot."""
        self._make_room(*_widths(modules))
        slot = self._used
        for own, given in zip(self.matrices, _as_bank_matrices(modules), strict=True):
            for key, matrices in own.items():
                values = given.get(key) or [matrix[slot, :0] for matrix in matrices]
                for matrix, value in zip(matrices, values, strict=True):
                    matrix[slot, : len(value)] = value
                    matrix[slot, len(value) :] = 0
        self._used += 1
        return slot

    def slot_matrices(self, slot: int) -> BankMatrices:
        """Return a view of one slot's matrices."""
        return BankMatrices(
            *({key: tuple(m[slot] for m in matrices) for key, matrices in of.items()} for of in self.matrices)
        )

    def _make_room(self, rank: int, bottleneck: int) -> None:
        rank, bottleneck = max(rank, self._rank), max(bottleneck, self._bottleneck)
        capacity = self._capacity
        if self._used == capacity:
            least = _LEAST_GROWTH_ON_CPU if self._device.type == "cpu" else _LEAST_GROWTH
            capacity += max(least, capacity // 2)
        if (capacity, rank, bottleneck) != (self._capacity, self._rank, self._bottleneck):
            self._resize(capacity, rank, bottleneck)

    # In inference mode, tensors would be made that no later call could write to.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _resize(self, capacity: int, rank: int, bottleneck: int) -> None:
        """Copy the slots in use into new matrices; others are not written, and take no memory."""

        def resized(before: tuple[Tensor, ...], *shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
            made = tuple(
                torch.empty(capacity, *shape, dtype=self._dtype, device=self._device) for shape in shapes
            )
            for number, (matrix, shape) in enumerate(zip(made, shapes, strict=True)):
                source = before[number][: self._used] if before else None
                if source is None or source.shape[1:] != shape:
                    matrix[: self._used].zero_()
                if source is not None:
                    matrix[(slice(self._used), *map(slice, source.shape[1:]))] = source
            return made

        lora, parallel_adapters = self.matrices
        wide = (bottleneck, self._hidden)
        self.matrices = BankMatrices(
            {
                site: resized(lora.get(site, ()), (rank, width), (rank, out))
                for site, (width, out) in self._sizes.items()
                if rank
            },
            {
                number: resized(parallel_adapters.get(number, ()), wide, (bottleneck,), wide, (self._hidden,))
                for number in range(self._layers)
                if bottleneck
            },
        )
        self._capacity, self._rank, self._bottleneck = capacity, rank, bottleneck


def _widths(modules: LanguageModules) -> tuple[int, int]:
    """Return the rank and bottleneck that a slot needs."""
    rank = max((len(layer.a) for layer in modules.lora.values()), default=0)
    bottleneck = max((len(layer.down_bias) for layer in modules.parallel_adapters.values()), default=0)
    return -(-rank // _WIDTH_STEP) * _WIDTH_STEP, -(-bottleneck // _WIDTH_STEP) * _WIDTH_STEP


def _as_bank_matrices(modules: LanguageModules) -> BankMatrices:
    """Arrange a language's adapters as in a slot, with their own rank and bottleneck."""
    lora: Matrices = {}
    for path, change in modules.lora.items():
        _encoder, _layer, number, name = path.split(".", 3)
        lora[int(number), name] = (change.a, change.b.T)
    return BankMatrices(
        lora,
        {
            number: (layer.down_weight, layer.down_bias, layer.up_weight.T, layer.up_bias)
            for number, layer in modules.parallel_adapters.items()
        },
    )
