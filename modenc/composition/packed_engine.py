"""Many languages in one pass, or one language merged: see :mod:`modenc.composition.engine`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from modenc.composition.bank import NO_LANGUAGE, BankRows, ModuleBank
from modenc.composition.body import check_fit
from modenc.composition.engine import BASE
from modenc.composition.kernels import Precision
from modenc.composition.modules import LanguageModules, vocabulary_nbytes
from modenc.composition.packed_body import Layer, PackedBody
from modenc.composition.packing import Bucket, buckets

# Merging costs about as much as this many tokens' adapters beside the base do.
_TOKENS_BEFORE_MERGING = 4096
_MOST_COPIES = 4
# Languages that are freed leave room for others, up to this part of those in memory.
_SPARE_SHARE = 4

_Copy = tuple[str, str | None]
"""A merged copy of the weights: with this low-rank change, and this language's alignment or none."""


@dataclass(frozen=True)
class _Placed:
    """Where a language is, and what it changes."""

    slot: int = NO_LANGUAGE
    embeddings: Tensor | None = None
    low_rank: str = ""
    aligned: bool = False


class PackedEngine:
    """For bodies of the BERT family; within ``max_bytes`` it makes merged copies."""

    def __init__(self, body: PreTrainedModel, precision: Precision, max_bytes: int | None = None) -> None:
        self._base = body
        self._max_bytes = max_bytes
        self._body = PackedBody(body, precision)
        self._bank = ModuleBank(
            self._body.sites,
            body.config.hidden_size,
            body.config.num_hidden_layers,
            self._body.dtype,
            body.device,
        )
        self._placed = {BASE: _Placed()}
        self._base_layers: list[Layer] | None = None
        # By low-rank change and aligned language; the longest unused first.
        self._copies: dict[_Copy, list[Layer]] = {}
        self._seen: Counter[_Copy] = Counter()
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> None:
        """Take in a language."""
        check_fit(self._base, modules)
        digest = modules.low_rank_digest
        embeddings = None if modules.embeddings is None else modules.embeddings.to(self._base.device)
        with self._lock:
            slot = self._bank.put(modules)
            self._placed[modules.lang] = _Placed(slot, embeddings, digest, aligned=bool(modules.parallel))

    def cost(self, modules: LanguageModules) -> int:
        """Bytes that :meth:`put` would add."""
        table = vocabulary_nbytes(modules.embeddings)
        with self._lock:
            return self._bank.cost(modules) + table

    def remove(self, code: str) -> None:
        """Forget a language that no batch is using."""
        with self._lock:
            gone = self._placed.pop(code)
            self._bank.free(gone.slot)
            alike = any(at.low_rank == gone.low_rank for at in self._placed.values())
            for copy in [*self._copies, *self._seen]:
                if copy == (gone.low_rank, code) or (copy[0] == gone.low_rank and not alike):
                    self._copies.pop(copy, None)
                    del self._seen[copy]
            if self._bank.spare > max(1, len(self._placed) // _SPARE_SHARE):
                self._compact()

    def tidy(self) -> None:
        """Give all memory back that languages have left behind."""
        with self._lock:
            if self._bank.spare:
                self._compact()

    def _compact(self) -> None:
        moved = self._bank.compact()
        self._placed = {code: replace(at, slot=moved[at.slot]) for code, at in self._placed.items()}

    def shrink(self, excess: int) -> None:
        """Free merged copies, the longest unused first."""
        with self._lock:
            for copy in list(self._copies):
                if excess > 0:
                    excess -= self._drop(copy)

    def _drop(self, copy: _Copy) -> int:
        del self._seen[copy]
        return sum(layer.nbytes for layer in self._copies.pop(copy))

    @property
    def nbytes(self) -> int:
        """Bytes that all languages take, the body's own weights not counted."""
        with self._lock:
            tables = [vocabulary_nbytes(at.embeddings) for at in self._placed.values()]
            copies = [layer.nbytes for layers in self._copies.values() for layer in layers]
            return self._bank.nbytes + sum(tables) + sum(copies)

    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Token vectors of a padded batch."""
        with self._lock:
            tensors = self._bank.tensors
            placed = {code: self._placed[code] for code in dict.fromkeys(languages)}
        tables = {at.slot: at.embeddings for at in placed.values()}
        output: Tensor | None = None
        for bucket in buckets(ids, mask, [placed[code].slot for code in languages]):
            layers, open_parts = self._choose(placed, align, bucket.tokens)
            rows = BankRows(tensors, bucket.groups, **open_parts) if any(open_parts.values()) else None
            hidden = self._body.run(self._words(bucket, tables), bucket, layers, rows)
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

    def _choose(
        self, placed: dict[str, _Placed], align: bool, tokens: int
    ) -> tuple[list[Layer], dict[str, bool]]:
        """Weights for these languages, and which of their parts these leave to be done beside them."""
        changes = {at.low_rank for at in placed.values()}
        align = align and any(at.aligned for at in placed.values())
        if len(changes) > 1:
            return self._own_layers(), {"low_rank": True, "align": align}
        shared = changes.pop()
        wanted: list[_Copy] = [(shared, None)] if shared else []
        if align and len(placed) == 1:
            wanted.insert(0, (shared, next(iter(placed))))
        for copy in wanted:
            if layers := self._copy(copy, tokens):
                return layers, {"low_rank": False, "align": align and copy[1] is None}
        return self._own_layers(), {"low_rank": bool(shared), "align": align}

    def _copy(self, copy: _Copy, tokens: int) -> list[Layer] | None:
        """A merged copy of the weights, made as soon as it has been wanted for enough tokens."""
        with self._lock:
            self._seen[copy] += tokens
            wanted = copy not in self._copies and self._seen[copy] >= _TOKENS_BEFORE_MERGING
            if wanted and self._fits_a_copy():
                low_rank, code = copy
                slot = next(
                    at.slot
                    for name, at in self._placed.items()
                    if at.low_rank == low_rank and code in (None, name)
                )
                made = self._made(
                    self._bank.low_rank(slot), {} if code is None else self._bank.parallel(slot)
                )
                self._copies[copy] = made
                for oldest in list(self._copies)[:-_MOST_COPIES]:
                    self._drop(oldest)
            if copy in self._copies:
                self._copies[copy] = self._copies.pop(copy)
            return self._copies.get(copy)

    def _fits_a_copy(self) -> bool:
        if self._max_bytes is None:
            return True
        return self.nbytes + sum(layer.nbytes for layer in self._own_layers()) <= self._max_bytes

    def _words(self, bucket: Bucket, tables: dict[int, Tensor | None]) -> Tensor:
        """Each token's row of its language's embeddings, or of the base's."""
        base: Tensor = self._base.get_input_embeddings().weight
        if all(table is None for table in tables.values()):
            return functional.embedding(bucket.ids, base)
        words = base.new_empty(*bucket.ids.shape, base.shape[1])
        for slot, start, end in bucket.spans():
            table = tables[slot]
            words[start:end] = functional.embedding(bucket.ids[start:end], base if table is None else table)
        return words

    def _own_layers(self) -> list[Layer]:
        with self._lock:
            if self._base_layers is None:
                self._base_layers = self._made()
            return self._base_layers

    def _made(self, *changes: Any) -> list[Layer]:
        # Weights made in inference mode could never be moved by others.
        with torch.inference_mode(False), torch.no_grad():
            return self._body.layers(*changes)
