"""Several languages' adapters side by side, so that one product serves rows of all of them.

Each language has a slot. For a row of language l, ``y += B_l A_l x``, LA and SE as one adapter of the summed
rank, and ``y += scaling * Up_l(relu(Down_l(x)))`` beside the feed-forward block: batched products over rows,
each with its own slot's matrices. One slot is all zeros, for the base alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from modenc.composition.modules import LanguageModules
from modenc.composition.packing import Bucket

QUERY, KEY, VALUE = (f"attention.self.{part}" for part in ("query", "key", "value"))
ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT = "attention.output.dense", "intermediate.dense", "output.dense"
LINEAR_LAYERS = (QUERY, KEY, VALUE, ATTENTION_OUTPUT, INTERMEDIATE, OUTPUT)
"""The linear layers of a layer of the body, each of which an adapter can change."""
# Widths round up to multiples of this, so that a slightly wider language seldom moves all slots.
_WIDTH_STEP = 8
_LEAST_GROWTH = 3
NO_LANGUAGE = 0
"""The slot of zeros."""

Matrices = dict[Any, tuple[Tensor, ...]]


class BankMatrices(NamedTuple):
    """The matrices of all slots, or of one without the first dimension; never resized in place."""

    low_rank: Matrices
    """By (layer number, name of the linear layer): A [slots, rank, in] and B [slots, rank, out]."""
    parallel: Matrices
    """By layer number: down [slots, bottleneck, hidden], its bias, up [slots, bottleneck, hidden], its bias.
    The scaling is in the latter two."""


class AdapterBank:
    """The slots of all languages.

    Args:
        body: the base, for its sizes and its device.
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
        # Rank and bottleneck of the language in each slot, and how many slots were ever written to.
        self._used: dict[int, tuple[int, int]] = {NO_LANGUAGE: (0, 0)}
        self._touched = 1
        self.matrices = BankMatrices({}, {})
        """As they are now; what a batch holds stays as it is while languages come and go."""

    @property
    def nbytes(self) -> int:
        """Bytes that slots take, the one of zeros not counted; those never used take none."""
        return self._slot_nbytes(self._rank, self._bottleneck) * (self._touched - 1)

    @property
    def spare(self) -> int:
        """Slots that take memory and hold no language."""
        return self._touched - len(self._used)

    def cost(self, modules: LanguageModules) -> int:
        """Bytes that :meth:`put` would add: a wider language widens every slot."""
        rank, bottleneck = _widths(modules)
        slots = self._touched - (1 if self.spare else 0)
        wide = self._slot_nbytes(max(rank, self._rank), max(bottleneck, self._bottleneck))
        return wide * slots - self.nbytes

    def _slot_nbytes(self, rank: int, bottleneck: int) -> int:
        low_rank = rank * sum(width + out for width, out in self._sizes.values())
        parallel = self._layers * (bottleneck * (2 * self._hidden + 1) + self._hidden) if bottleneck else 0
        return (low_rank + parallel) * self._dtype.itemsize

    def put(self, modules: LanguageModules) -> int:
        """Copy a language's adapters in; they must fit the body.

        Returns:
            Its slot.
        """
        widths = _widths(modules)
        self._make_room(*widths)
        slot = min(set(range(self._capacity)) - set(self._used))
        for own, given in zip(self.matrices, _in_slots_layout(modules), strict=True):
            for key, parts in own.items():
                for part in parts:
                    part[slot].zero_()
                for part, value in zip(parts, given.get(key, ()), strict=False):
                    part[slot, : len(value)] = value
        self._used[slot] = widths
        self._touched = max(self._touched, slot + 1)
        return slot

    def free(self, slot: int) -> None:
        """Give a slot back; nothing may be computing with it."""
        del self._used[slot]

    def compact(self) -> dict[int, int]:
        """Move the languages together into new matrices that have no spare slot.

        Returns:
            Old slot → new slot.
        """
        slots = sorted(self._used)
        kept = [self._used[slot] for slot in slots]
        rank, bottleneck = (max(widths[part] for widths in kept) for part in (0, 1))
        self._resize(len(slots), rank, bottleneck, slots)
        self._used = dict(enumerate(kept))
        self._touched = len(slots)
        return {old: new for new, old in enumerate(slots)}

    def of_slot(self, slot: int) -> BankMatrices:
        """A view of one slot's matrices."""
        return BankMatrices(
            *({key: tuple(part[slot] for part in parts) for key, parts in of.items()} for of in self.matrices)
        )

    def _make_room(self, rank: int, bottleneck: int) -> None:
        rank, bottleneck = max(rank, self._rank), max(bottleneck, self._bottleneck)
        capacity = self._capacity
        if len(self._used) == capacity:
            capacity += max(_LEAST_GROWTH, capacity // 2)
        if (capacity, rank, bottleneck) != (self._capacity, self._rank, self._bottleneck):
            self._resize(capacity, rank, bottleneck, list(range(self._touched)))

    # Called in inference mode too, whose tensors no later call could write to.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _resize(self, capacity: int, rank: int, bottleneck: int, slots: list[int]) -> None:
        """New matrices that begin with the given slots; what is not written costs no memory."""

        def resized(before: tuple[Tensor, ...], *shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
            made = tuple(
                torch.empty(capacity, *shape, dtype=self._dtype, device=self._device) for shape in shapes
            )
            for matrix in made:
                matrix[: len(slots)].zero_()
            for target, source in zip(made, before, strict=False):
                sizes = map(min, target.shape[1:], source.shape[1:])
                shared = tuple(slice(size) for size in sizes)
                for new, old in enumerate(slots):
                    target[new][shared] = source[old][shared]
            return made

        low_rank, parallel = self.matrices
        wide = (bottleneck, self._hidden)
        self.matrices = BankMatrices(
            {
                site: resized(low_rank.get(site, ()), (rank, width), (rank, out))
                for site, (width, out) in self._sizes.items()
                if rank
            },
            {
                number: resized(parallel.get(number, ()), wide, (bottleneck,), wide, (self._hidden,))
                for number in range(self._layers)
                if bottleneck
            },
        )
        self._capacity, self._rank, self._bottleneck = capacity, rank, bottleneck


class RowAdapters:
    """The adapters that act beside the weights, on each row of a bucket its own.

    Args:
        matrices: the bank's.
        bucket: the rows; its groups are their slots.
        low_rank: whether the low-rank changes act.
        parallel: whether the parallel adapters do.
    """

    def __init__(self, matrices: BankMatrices, bucket: Bucket, *, low_rank: bool, parallel: bool) -> None:
        self.low_rank = matrices.low_rank if low_rank else {}
        self._parallel = matrices.parallel if parallel else {}
        self._bucket = bucket

    def add_low_rank(self, number: int, name: str, y: Tensor, x: Tensor) -> Tensor:
        """``y + B A x`` of a linear layer, in place, where there is one: [tokens, ·]."""
        if (number, name) in self.low_rank:
            a, b = (part.index_select(0, self._bucket.groups) for part in self.low_rank[number, name])
            rows = self._bucket.in_rows(x)
            self._bucket.in_rows(y).baddbmm_(torch.bmm(rows, a.transpose(1, 2)), b)
        return y

    def add_parallel(self, number: int, y: Tensor, x: Tensor) -> Tensor:
        """``y + scaling * Up(relu(Down(x)))`` of a layer, in place, where there is one: [tokens, ·]."""
        if number in self._parallel:
            parts = (part.index_select(0, self._bucket.groups) for part in self._parallel[number])
            down, down_bias, up, up_bias = parts
            inner = torch.baddbmm(down_bias[:, None], self._bucket.in_rows(x), down.transpose(1, 2)).relu_()
            self._bucket.in_rows(y).baddbmm_(inner, up).add_(up_bias[:, None])
        return y


def _widths(modules: LanguageModules) -> tuple[int, int]:
    """Rank and bottleneck that a slot needs."""
    rank = max((len(change.a) for change in modules.low_rank.values()), default=0)
    bottleneck = max((len(layer.down_bias) for layer in modules.parallel.values()), default=0)
    return -(-rank // _WIDTH_STEP) * _WIDTH_STEP, -(-bottleneck // _WIDTH_STEP) * _WIDTH_STEP


def _in_slots_layout(modules: LanguageModules) -> BankMatrices:
    """A language's adapters as a slot has them, but for its rank and bottleneck."""
    low_rank: Matrices = {}
    for path, change in modules.low_rank.items():
        _encoder, _layer, number, name = path.split(".", 3)
        low_rank[int(number), name] = (change.a, change.b.T)
    return BankMatrices(
        low_rank,
        {
            number: (
                layer.down_weight,
                layer.down_bias,
                layer.up_weight.T * layer.scaling,
                layer.up_bias * layer.scaling,
            )
            for number, layer in modules.parallel.items()
        },
    )
