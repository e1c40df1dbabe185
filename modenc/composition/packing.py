"""Rows of about the same length side by side, so that hardly anything is computed for padding.

With oneDNN each number of tokens costs kernels for it, milliseconds and megabytes: buckets have few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

# A further bucket costs about as much time as this many tokens.
_TOKENS_A_BUCKET = 100
# 2 ** this sizes between a number of tokens and its double, and none closer than the step.
_SIZE_BITS = 3
_LEAST_STEP = 8


@dataclass(frozen=True)
class Bucket:
    """Rows of a batch, those of one group together, padded to the longest."""

    rows: Tensor | None
    """[rows]: where each was in the batch; ``None``: all of them, in order."""
    ids: Tensor
    """[rows, width]"""
    mask: Tensor | None
    """[rows, 1, 1, width] to add to scores, -inf where there is no token; ``None``: tokens everywhere."""
    groups: Tensor
    """[rows], ascending."""
    tokens: int
    """Real ones."""

    @property
    def size(self) -> int:
        """Tokens to compute with in oneDNN: those of all rows, filled up to one of few numbers."""
        return round_up_tokens(self.ids.numel())

    def in_rows(self, x: Tensor) -> Tensor:
        """A view of x [tokens, ·], the rows one after another and then what fills up, as [rows, width, ·]."""
        rows, width = self.ids.shape
        return x[: rows * width].view(rows, width, -1)

    def spans(self) -> list[tuple[int, int, int]]:
        """Group, first row, end row of each stretch of rows."""
        groups, counts = torch.unique_consecutive(self.groups, return_counts=True)
        ends = counts.cumsum(0).tolist()
        return list(zip(groups.tolist(), [0, *ends], ends, strict=False))


def round_up_tokens(tokens: int) -> int:
    """The least of a few numbers that is no smaller: a multiple of 8, above 64 at most an eighth more."""
    step = max(_LEAST_STEP, 1 << max(0, tokens.bit_length() - 1 - _SIZE_BITS))
    return -(-tokens // step) * step


def buckets(ids: Tensor, mask: Tensor, groups: Sequence[int]) -> list[Bucket]:
    """Split a padded batch.

    Args:
        ids: [rows, length], padded on the right.
        mask: [rows, length], 1 where there is a token; at least one in every row.
        groups: one a row; rows of one come together.
    """
    lengths = mask.sum(dim=1).tolist()
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    ends = _cut([lengths[row] for row in order])
    return [
        _bucket(ids, lengths, groups, order[start:end]) for start, end in zip([0, *ends], ends, strict=False)
    ]


def _cut(lengths: list[int]) -> list[int]:
    """Where to end each bucket of ascending lengths, for the least cost of sizes and buckets in all."""
    starts = [row for row, length in enumerate(lengths) if row == 0 or length != lengths[row - 1]]
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for end in [*starts[1:], len(lengths)]:
        width = lengths[end - 1]
        cost, start = min((best[start][0] + round_up_tokens((end - start) * width), start) for start in best)
        best[end] = (cost + _TOKENS_A_BUCKET, [*best[start][1], end])
    return best[len(lengths)][1]


def _bucket(ids: Tensor, lengths: list[int], groups: Sequence[int], members: list[int]) -> Bucket:
    members = sorted(members, key=lambda row: (groups[row], row))
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
        groups=torch.tensor([groups[row] for row in members], device=ids.device),
        tokens=int(own.sum()),
    )
