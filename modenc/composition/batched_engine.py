"""Inference in batches of many languages, or with one language merged into the weights.

*Batched*: all rows share the body's weights, and each row's own adapters are added to their products.
*Merged*: a language's adapters are added to the weights once, so that its texts cost what the base's do.
A batch of several languages is batched. One language is merged as soon as it has had enough tokens for that
to pay. Languages with the same LA and SE (equal LoRA fingerprints) share merged weights that contain these
alone; their alignment is then added as in a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from modenc.composition.adapter_bank import BASE_SLOT, AdapterBank, BankMatrices, RowAdapters
from modenc.composition.bert import Bert, Layer
from modenc.composition.body import check_fit
from modenc.composition.buckets import Bucket, split_batch
from modenc.composition.kernels import Precision
from modenc.composition.modules import LanguageModules
from modenc.languages import BASE

# Merging costs about as much as adding the adapters for this many tokens.
_TOKENS_BEFORE_MERGING = 4096
_MOST_MERGED = 4


class _MergeKey(NamedTuple):
    """Content of merged weights."""

    lora_fingerprint: str
    """Fingerprint of the merged LA and SE."""
    alignment_of: str | None
    """Language whose alignment adapter is included."""


@dataclass(frozen=True)
class _EngineLanguage:
    """A language in the engine."""

    slot: int = BASE_SLOT
    embeddings: Tensor | None = None
    lora_fingerprint: str = ""
    has_alignment: bool = False


class BatchedEngine:
    """Engine for the languages that were put into it; threads may share it.

    Args:
        body: the base's body, used in place.
        precision: type to compute in.
    """

    def __init__(self, body: PreTrainedModel, precision: Precision) -> None:
        self._body = body
        self._bert = Bert(body, precision)
        self._bank = AdapterBank(body, self._bert.dtype)
        self._languages = {BASE: _EngineLanguage()}
        # Least recently used first.
        self._merged: dict[_MergeKey, list[Layer]] = {}
        # Tokens computed that each merge would have served.
        self._tokens: Counter[_MergeKey] = Counter()
        self._lock = RLock()

    def put(self, modules: LanguageModules) -> None:
        """Add a language.

        Raises:
            HubError: its modules do not fit the body.
        """
        check_fit(self._body, modules)
        fingerprint, has_alignment = modules.lora_fingerprint, bool(modules.parallel_adapters)
        embeddings = None if modules.embeddings is None else modules.embeddings.to(self._body.device)
        with self._lock:
            slot = self._bank.put(modules)
            self._languages[modules.lang] = _EngineLanguage(slot, embeddings, fingerprint, has_alignment)

    def run(self, ids: Tensor, mask: Tensor, languages: Sequence[str], *, align: bool) -> Tensor:
        """Compute the token vectors of a batch.

        Args:
            ids: [rows, length], padded on the right.
            mask: [rows, length], 1 where there is a token.
            languages: a code for each row, put in before, or :data:`~modenc.languages.BASE`.
            align: apply the cross-lingual alignment adapters.

        Returns:
            [rows, length, hidden], zero at padding.
        """
        with self._lock:
            matrices = self._bank.matrices
            present = {code: self._languages[code] for code in dict.fromkeys(languages)}
        tables = {language.slot: language.embeddings for language in present.values()}
        output: Tensor | None = None
        for bucket in split_batch(ids, mask, [present[code].slot for code in languages]):
            layers, add_lora, add_alignment = self._choose_layers(present, align, bucket.tokens)
            adapters = matrices.parallel_adapters if add_alignment else {}
            added = BankMatrices(matrices.lora if add_lora else {}, adapters)
            words = self._word_embeddings(bucket, tables)
            hidden = self._bert.run(words, bucket, layers, RowAdapters(added, bucket))
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
        self, present: Mapping[str, _EngineLanguage], align: bool, tokens: int
    ) -> tuple[list[Layer], bool, bool]:
        """Choose layers for a batch; returns them, and whether LoRAs and alignment are still to be added."""
        lang, *others = present
        align = align and any(language.has_alignment for language in present.values())
        fingerprints = {language.lora_fingerprint for language in present.values()}
        if len(fingerprints) == 1:
            (fingerprint,) = fingerprints
            # One language: everything in the weights.
            if (
                align
                and not others
                and (layers := self._merged_if_worth(_MergeKey(fingerprint, lang), lang, tokens))
            ):
                return layers, False, False
            # Languages with the same LoRA: their alignment differs and is added.
            if fingerprint and (layers := self._merged_if_worth(_MergeKey(fingerprint, None), lang, tokens)):
                return layers, False, align
        return self._base_layers, fingerprints != {""}, align

    def _merged_if_worth(self, key: _MergeKey, lang: str, tokens: int) -> list[Layer] | None:
        """Return merged weights; ``None`` until enough tokens were computed without them.

        ``lang`` is the language in the bank that they are made from, ``tokens`` the size of this batch.
        """
        with self._lock:
            self._tokens[key] += tokens
            enough = self._tokens[key] >= _TOKENS_BEFORE_MERGING
            if key not in self._merged and enough:
                adapters = self._bank.slot_matrices(self._languages[lang].slot)
                if key.alignment_of is None:
                    adapters = BankMatrices(adapters.lora, {})
                self._merged[key] = self._bert.merged_layers(adapters)
                for oldest in list(self._merged)[:-_MOST_MERGED]:
                    del self._merged[oldest], self._tokens[oldest]
            if key in self._merged:
                self._merged[key] = self._merged.pop(key)
            return self._merged.get(key)

    def _word_embeddings(self, bucket: Bucket, tables: Mapping[int, Tensor | None]) -> Tensor:
        """Look up the tokens in their languages' embeddings, or in the base's."""
        base: Tensor = self._body.get_input_embeddings().weight
        if all(table is None for table in tables.values()):
            return functional.embedding(bucket.ids, base)
        words = base.new_empty(*bucket.ids.shape, base.shape[1])
        for slot, start, end in bucket.spans():
            table = tables[slot]
            words[start:end] = functional.embedding(bucket.ids[start:end], base if table is None else table)
        return words

    @cached_property
    def _base_layers(self) -> list[Layer]:
        return self._bert.merged_layers(BankMatrices({}, {}))
