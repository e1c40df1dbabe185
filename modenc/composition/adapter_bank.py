"""Adapters of many languages in shared tensors, for batches with rows of any of them.

Each language has a slot. A row of language l gets ``y += B_l A_l x`` (LA and SE, concatenated) in linear
layers, by one batched product over all rows, and ``y += scaling * Up_l(relu(Down_l(x)))`` in feed-forward
blocks. One slot is all zeros, for the base without modules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from modenc.composition.buckets import Bucket
from modenc.composition.modules import LanguageModules

QUERY, KEY, VALUE = (f"attention.self.{part}" for part in ("query", "key", "value"))
ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT = "attention.output.dense", "intermediate.dense", "output.dense"
LINEAR_LAYERS = (QUERY, KEY, VALUE, ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT)
"""Linear layers in a layer of the body that a LoRA can change."""
# Widths round up to multiples of this, so that a slightly wider language seldom resizes all slots.
_WIDTH_STEP = 8
_LEAST_GROWTH = 3
BASE_SLOT = 0
"""Slot of zeros, for the base without modules."""

Matrices = dict[Any, tuple[Tensor, ...]]


class BankMatrices(NamedTuple):
    """Stacked matrices of all slots; those of one slot lack the first dimension. Never resized in place."""

    lora: Matrices
    """(Layer number, name of the linear layer) → A [slots, rank, in] and B [slots, rank, out]."""
    parallel_adapters: Matrices
    """Layer number → down [slots, bottleneck, hidden], its bias, up [slots, bottleneck, hidden], its bias.
    Up and its bias are multiplied by the scaling."""


class AdapterBank:
    """Slots with the adapters of all loaded languages.

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
                for matrix in matrices:
                    matrix[slot].zero_()
                for matrix, value in zip(matrices, given.get(key, ()), strict=False):
                    matrix[slot, : len(value)] = value
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
            capacity += max(_LEAST_GROWTH, capacity // 2)
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
            for matrix in made:
                matrix[: self._used].zero_()
            for target, source in zip(made, before, strict=False):
                sizes = map(min, target.shape[1:], source.shape[1:])
                shared = tuple(slice(size) for size in sizes)
                for slot in range(self._used):
                    target[slot][shared] = source[slot][shared]
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


class RowAdapters:
    """Adapters to apply to the rows of a bucket, each row with those of its slot.

    Args:
        matrices: matrices of the bank; empty kinds are not applied.
        bucket: the rows.
    """

    def __init__(self, matrices: BankMatrices, bucket: Bucket) -> None:
        self.lora, self._parallel_adapters = matrices
        self._bucket = bucket
        width = bucket.ids.shape[1]
        spans = bucket.spans() if self._parallel_adapters else []
        self._tokens = {slot: slice(first * width, end * width) for slot, first, end in spans}

    def add_lora(self, number: int, name: str, y: Tensor, x: Tensor) -> Tensor:
        """Add ``B A x`` of a linear layer's LoRA, if any, to y [tokens, ·] in place."""
        if (number, name) in self.lora:
            a, b = (matrix.index_select(0, self._bucket.slots) for matrix in self.lora[number, name])
            rows = self._bucket.in_rows(x)
            self._bucket.in_rows(y).baddbmm_(torch.bmm(rows, a.transpose(1, 2)), b)
        return y

    def add_parallel_adapter(self, number: int, y: Tensor, x: Tensor) -> Tensor:
        """Add ``scaling * Up(relu(Down(x)))`` of a layer's adapter, if any, to y [tokens, ·] in place.

        One language after another: a copy of these matrices for each row takes longer than their products.
        """
        if number in self._parallel_adapters:
            for slot, tokens in self._tokens.items():
                down, down_bias, up, up_bias = (m[slot] for m in self._parallel_adapters[number])
                inner = torch.addmm(down_bias, x[tokens], down.T).relu_()
                y[tokens].addmm_(inner, up).add_(up_bias)
        return y


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
            number: (
                layer.down_weight,
                layer.down_bias,
                layer.up_weight.T * layer.scaling,
                layer.up_bias * layer.scaling,
            )
            for number, layer in modules.parallel_adapters.items()
        },
    )
