"""Many languages in one pass, or one language merged into the weights.

*Batched*: the base's weights serve all rows, and each language's adapters act beside them on its own rows.
*Merged*: a language's adapters are added to the base's weights once, and its texts cost what the base's do.
A batch of several languages is batched; one language is merged as soon as it has had enough tokens for that
to pay; languages whose LA and SE are the same share the merged weights, and only their alignment acts beside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import RLock

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from modenc.composition.adapter_bank import NO_LANGUAGE, AdapterBank, Matrices, RowAdapters
from modenc.composition.bert import Bert, Layer
from modenc.composition.body import check_fit
from modenc.composition.kernels import Precision
from modenc.composition.modules import LanguageModules, vocabulary_nbytes
from modenc.composition.packing import Bucket, buckets
from modenc.languages import BASE

# Merging costs about as much as this many tokens' adapters beside the base do.
_TOKENS_BEFORE_MERGING = 4096
_MOST_MERGED = 4

_Merged = tuple[str, str | None]
"""What is in merged weights: the low-rank change of this digest, and this language's alignment or none."""


@dataclass(frozen=True)
class _Language:
    """Where a language's adapters are, and what it changes."""

    slot: int = NO_LANGUAGE
    embeddings: Tensor | None = None
    low_rank: str = ""
    aligned: bool = False


class BatchedEngine:
    """Runs batches with the languages that were put into it; threads may share it.

    Args:
        body: the base, used in place.
        precision: see :class:`~modenc.composition.bert.Bert`.
        max_bytes: weights are merged only as long as all languages take no more than this.
    """

    def __init__(self, body: PreTrainedModel, precision: Precision, max_bytes: int | None = None) -> None:
        self._base = body
        self._max_bytes = max_bytes
        self._body = Bert(body, precision)
        self._bank = AdapterBank(body, self._body.dtype)
        self._languages = {BASE: _Language()}
        # The longest unused first.
        self._merged: dict[_Merged, list[Layer]] = {}
        self._tokens: Counter[_Merged] = Counter()
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> None:
        """Add a language.

        Raises:
            HubError: its modules do not fit the body.
        """
        check_fit(self._base, modules)
        digest = modules.low_rank_digest
        embeddings = None if modules.embeddings is None else modules.embeddings.to(self._base.device)
        with self._lock:
            slot = self._bank.put(modules)
            self._languages[modules.lang] = _Language(slot, embeddings, digest, bool(modules.parallel))

    def cost(self, modules: LanguageModules) -> int:
        """Bytes that :meth:`put` would add."""
        with self._lock:
            return self._bank.cost(modules) + vocabulary_nbytes(modules.embeddings)

    def remove(self, code: str) -> None:
        """Remove a language that no batch is using; its slot in the bank is left for another."""
        with self._lock:
            self._bank.free(self._languages.pop(code).slot)
            digests = {language.low_rank for language in self._languages.values()}
            for key in list(self._tokens):
                if key[1] == code or key[0] not in digests:
                    self._drop(key)

    def shrink(self, excess: int = 0) -> None:
        """Free the slots of removed languages, and merged weights until ``excess`` bytes are free in all."""
        with self._lock:
            most = self.nbytes - excess
            if self._bank.spare:
                moved = self._bank.compact()
                self._languages = {
                    code: replace(language, slot=moved[language.slot])
                    for code, language in self._languages.items()
                }
            for key in list(self._merged):
                if self.nbytes > most:
                    self._drop(key)

    def reset(self) -> None:
        """Compute from now on as if no batch had been run; languages stay."""
        with self._lock:
            for key in list(self._tokens):
                self._drop(key)

    def _drop(self, key: _Merged) -> None:
        del self._tokens[key]
        self._merged.pop(key, None)

    @property
    def nbytes(self) -> int:
        """Bytes that all languages take, the body's own weights not counted."""
        with self._lock:
            tables = [vocabulary_nbytes(language.embeddings) for language in self._languages.values()]
            return self._bank.nbytes + sum(tables) + sum(map(_nbytes, self._merged.values()))

    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Token vectors [rows, length, hidden], zero where there is no token.

        Args:
            ids: [rows, length], padded on the right.
            mask: [rows, length], 1 where there is a token.
            languages: a code a row, each put in before, or :data:`~modenc.languages.BASE`.
            align: apply the cross-lingual alignment adapters.
        """
        with self._lock:
            bank = self._bank.matrices
            present = {code: self._languages[code] for code in dict.fromkeys(languages)}
        tables = {language.slot: language.embeddings for language in present.values()}
        output: Tensor | None = None
        for bucket in buckets(ids, mask, [present[code].slot for code in languages]):
            layers, low_rank, parallel = self._weights(present, align, bucket.tokens)
            adapters = RowAdapters(bank, bucket, low_rank=low_rank, parallel=parallel)
            hidden = self._body.run(self._words(bucket, tables), bucket, layers, adapters)
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

    def _weights(
        self, present: Mapping[str, _Language], align: bool, tokens: int
    ) -> tuple[list[Layer], bool, bool]:
        """Weights for a batch of these languages; whether low-rank changes and alignment act beside them."""
        lang, *others = present
        align = align and any(language.aligned for language in present.values())
        digests = {language.low_rank for language in present.values()}
        if len(digests) == 1:
            (digest,) = digests
            if align and not others and (layers := self._merge((digest, lang), lang, tokens)):
                return layers, False, False
            if digest and (layers := self._merge((digest, None), lang, tokens)):
                return layers, False, align
        return self._own_layers, digests != {""}, align

    def _merge(self, key: _Merged, lang: str, tokens: int) -> list[Layer] | None:
        """Merged weights, made of a language's adapters as soon as they were wanted for enough tokens."""
        with self._lock:
            self._tokens[key] += tokens
            enough = self._tokens[key] >= _TOKENS_BEFORE_MERGING
            if key not in self._merged and enough and self._has_room():
                low_rank, parallel = self._bank.of_slot(self._languages[lang].slot)
                self._merged[key] = self._make_layers(low_rank, parallel if key[1] else {})
                for oldest in list(self._merged)[:-_MOST_MERGED]:
                    self._drop(oldest)
            if key in self._merged:
                self._merged[key] = self._merged.pop(key)
            return self._merged.get(key)

    def _has_room(self) -> bool:
        return self._max_bytes is None or self.nbytes + _nbytes(self._own_layers) <= self._max_bytes

    def _words(self, bucket: Bucket, tables: Mapping[int, Tensor | None]) -> Tensor:
        """Each token's row of its language's embeddings, or of the base's."""
        base: Tensor = self._base.get_input_embeddings().weight
        if all(table is None for table in tables.values()):
            return functional.embedding(bucket.ids, base)
        words = base.new_empty(*bucket.ids.shape, base.shape[1])
        for slot, start, end in bucket.spans():
            table = tables[slot]
            words[start:end] = functional.embedding(bucket.ids[start:end], base if table is None else table)
        return words

    @cached_property
    def _own_layers(self) -> list[Layer]:
        return self._make_layers({}, {})

    def _make_layers(self, low_rank: Matrices, parallel: Matrices) -> list[Layer]:
        # Weights made in inference mode could never be moved by others.
        with torch.inference_mode(False), torch.no_grad():
            return self._body.layers(low_rank, parallel)


def _nbytes(layers: list[Layer]) -> int:
    return sum(layer.nbytes for layer in layers)
