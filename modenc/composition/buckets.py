"""Splitting of a batch into buckets of rows of similar length, so that little is computed for padding.

oneDNN compiles kernels for each new number of tokens, which costs milliseconds and megabytes: bucket sizes
are rounded up to few different numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

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
    return [
        _bucket(ids, lengths, slots, order[start:end]) for start, end in zip([0, *ends], ends, strict=False)
    ]


def _cut(lengths: list[int]) -> list[int]:
    """Return the end row of each bucket, for ascending lengths and the least total cost."""
    starts = [row for row, length in enumerate(lengths) if row == 0 or length != lengths[row - 1]]
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for end in [*starts[1:], len(lengths)]:
        width = lengths[end - 1]
        cost, start = min((best[start][0] + round_up_tokens((end - start) * width), start) for start in best)
        best[end] = (cost + _TOKENS_A_BUCKET, [*best[start][1], end])
    return best[len(lengths)][1]


def _bucket(ids: Tensor, lengths: list[int], slots: Sequence[int], members: list[int]) -> Bucket:
    members = sorted(members, key=lambda row: (slots[row], row))
    width = max(lengths[row] for row in members)
    everything = members == list(range(len(lengths)))
    rows = None if everything else torch.tensor(members, device=ids.device)
    own = torch.tensor([lengths[row] for row in members])
    empty = torch.arange(width) >= own[:, None]
    scores = torch.zeros(empty.shape).masked_fill_(empty, -inf)[:, None, None]
    return Bucket(
        rows=rows,
        ids=(ids if rows is None else ids[rows])[:, :width],
        mask=scores.to(ids.device) if empty.any() else None,
        slots=torch.tensor([slots[row] for row in members], device=ids.device),
        tokens=int(own.sum()),
    )
