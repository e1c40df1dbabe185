"""Buckets: rows of a batch of similar length, so that little is computed for padding, and their adapters.

oneDNN compiles kernels for each new number of tokens, which costs milliseconds and megabytes: bucket sizes
are rounded up to few different numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

# One more bucket costs about as much time as this many tokens.
_TOKENS_A_BUCKET = 100
# There are 2 ** this sizes between a number of tokens and its double.
_SIZE_BITS = 3
_LEAST_STEP = 8


@dataclass(frozen=True)
class Bucket:
    """Rows of a batch, sorted by slot and padded to the longest."""

    rows: Tensor | None
    """[rows]: positions in the batch; ``None``: the whole batch, in order."""
    ids: Tensor
    """[rows, width]"""
    mask: Tensor | None
    """[rows, 1, 1, width] to add to attention scores, -inf at padding; ``None`` without padding."""
    slots: Tensor
    """[rows]: slots of the rows' languages in the adapter bank, ascending."""
    tokens: int
    """Number of tokens without padding."""

    @property
    def size(self) -> int:
        """Number of tokens to compute with in oneDNN, padding included, rounded up."""
        return round_up_tokens(self.ids.numel())

    def in_rows(self, x: Tensor) -> Tensor:
        """View x [tokens, ·] as [rows, width, ·], without the tokens that :attr:`size` adds at the end."""
        rows, width = self.ids.shape
        return x[: rows * width].view(rows, width, -1)

    def spans(self) -> list[tuple[int, int, int]]:
        """Return (slot, first row, end row) of each run of rows with the same slot."""
        slots, counts = torch.unique_consecutive(self.slots, return_counts=True)
        ends = counts.cumsum(0).tolist()
        return list(zip(slots.tolist(), [0, *ends], ends, strict=False))


Matrices = dict[Any, tuple[Tensor, ...]]


class BankMatrices(NamedTuple):
    """Stacked matrices of all slots; those of one slot lack the first dimension. Never resized in place."""

    lora: Matrices
    """(Layer number, name of the linear layer) → A [slots, rank, in] and B [slots, rank, out]."""
    parallel_adapters: Matrices
    """Layer number → down [slots, bottleneck, hidden], its bias, up [slots, bottleneck, hidden], its bias.
    Up and its bias are multiplied by the scaling."""


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


def round_up_tokens(tokens: int) -> int:
    """Round up to one of few numbers: a multiple of 8, and above 64 at most an eighth more."""
    step = max(_LEAST_STEP, 1 << max(0, tokens.bit_length() - 1 - _SIZE_BITS))
    return -(-tokens // step) * step


def split_batch(ids: Tensor, mask: Tensor, slots: Sequence[int]) -> list[Bucket]:
    """Split a padded batch into buckets.

    Args:
        ids: [rows, length], padded on the right.
        mask: [rows, length], 1 where there is a token; at least one in every row.
        slots: slot of each row's language in the adapter bank.
    """
    lengths = mask.sum(dim=1).tolist()
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    ends = _cut([lengths[row] for row in order])
    buckets = []
    for start, end in zip([0, *ends], ends, strict=False):
        members = sorted(order[start:end], key=lambda row: (slots[row], row))
        width = lengths[order[end - 1]]
        rows = None if members == list(range(len(lengths))) else torch.tensor(members, device=ids.device)
        own = torch.tensor([lengths[row] for row in members])
        empty = torch.arange(width) >= own[:, None]
        scores = torch.zeros(empty.shape).masked_fill_(empty, -inf)[:, None, None]
        bucket = Bucket(
            rows=rows,
            ids=(ids if rows is None else ids[rows])[:, :width],
            mask=scores.to(ids.device) if empty.any() else None,
            slots=torch.tensor([slots[row] for row in members], device=ids.device),
            tokens=int(own.sum()),
        )
        buckets.append(bucket)
    return buckets


def _cut(lengths: list[int]) -> list[int]:
    """Return the end row of each bucket, for ascending lengths and the least total cost."""
    starts = [row for row, length in enumerate(lengths) if row == 0 or length != lengths[row - 1]]
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for end in [*starts[1:], len(lengths)]:
        width = lengths[end - 1]
        cost, start = min((best[start][0] + round_up_tokens((end - start) * width), start) for start in best)
        best[end] = (cost + _TOKENS_A_BUCKET, [*best[start][1], end])
    return best[len(lengths)][1]
