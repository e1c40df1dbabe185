"""Several short rows of a padded batch side by side in one, so that little padding is computed.

A batch of captions and news, padded to its longest sentence, is a third to a half padding, which costs as
much as words. Here rows stand one after another in bins of equal length, each with positions of its own and
attention to itself alone, so that every token gets the vector that it has in the padded batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PackedRows:
    """Rows in bins; made by :func:`pack_rows`."""

    ids: Tensor
    """Token ids [bins, length]."""
    positions: Tensor
    """Position of each token within its row, as given; 0 for padding [bins, length]."""
    mask: Tensor
    """Whether a token attends to another: those of one row do, and padding does to itself
    [bins, length, length]."""
    place: Tensor
    """Place of each token of the batch, row by row, among those of all bins [tokens]."""

    def unpack(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Put token vectors [bins, length, hidden] back into rows [rows, longest, hidden], zeros as padding.

        Args:
            vectors: as computed for ``ids``.
            mask: the padded batch's attention mask [rows, longest].
        """
        unpacked = vectors.new_zeros(*mask.shape, vectors.shape[-1])
        unpacked[mask.bool()] = vectors.flatten(0, 1).index_select(0, self.place)
        return unpacked


def pack_rows(ids: Tensor, positions: Tensor, mask: Tensor, most: int, *, pad: int) -> PackedRows:
    """Put the rows of a batch that is padded on the right into bins, of the length with the fewest tokens.

    Args:
        ids: token ids [rows, longest].
        positions: positions of the tokens [longest] or [rows, longest].
        mask: 1 for tokens and 0 for padding [rows, longest].
        most: length of a bin at most, if no row is longer.
        pad: id of padding.
    """
    lengths = mask.sum(dim=1).tolist()
    longest = max(1, *lengths)
    # Bins as long as the longest row are never more than the padded batch.
    fits = ((*_first_fit(lengths, length), length) for length in range(longest, max(most, longest) + 1))
    start, bins, length = min(fits, key=lambda fit: fit[1] * fit[2])
    tokens = mask.bool()
    row, column = tokens.nonzero(as_tuple=True)
    place = torch.tensor(start, device=ids.device)[row] + column
    packed = ids.new_full((bins * length,), pad)
    binned_positions = ids.new_zeros(bins * length)
    # Padding is a row of its own.
    rows = ids.new_full((bins * length,), -1)
    packed[place], rows[place] = ids[tokens], row
    binned_positions[place] = positions.expand_as(ids)[tokens]
    rows = rows.view(bins, length)
    return PackedRows(
        packed.view(bins, length),
        binned_positions.view(bins, length),
        rows[:, :, None] == rows[:, None, :],
        place,
    )


def _first_fit(lengths: list[int], capacity: int) -> tuple[list[int], int]:
    """Put rows into bins by first-fit decreasing: each row's first place, and the number of bins."""
    used: list[int] = []
    start = [0] * len(lengths)
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        size = lengths[row]
        chosen = next((number for number, full in enumerate(used) if full + size <= capacity), len(used))
        if chosen == len(used):
            used.append(0)
        start[row] = chosen * capacity + used[chosen]
        used[chosen] += size
    return start, max(len(used), 1)
