"""Several languages' adapters side by side, so that one product serves rows of all of them.

Each language has a slot. For a row of language l, ``y += B_l A_l x``, LA and SE as one adapter of the summed
rank, and ``y += scaling * Up_l(relu(Down_l(x)))`` beside the feed-forward block: batched products over rows,
each with its own slot's matrices. One slot is all zeros, for the base alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from modenc.composition.modules import LanguageModules, LowRank

# Widths round up to multiples of this, so that a slightly wider language seldom moves all slots.
_WIDTH_STEP = 8
_LEAST_GROWTH = 3
NO_LANGUAGE = 0
"""The slot of zeros."""

Site = tuple[int, str]
"""Layer number and the linear layer's name in it."""


@dataclass(frozen=True)
class BankTensors:
    """The matrices of all slots; what a batch holds stays as it is while others come and go."""

    low_rank: dict[Site, tuple[Tensor, Tensor]]
    """A [slots, rank, in] and B [slots, rank, out] of each adapted linear layer."""
    parallel: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]]
    """By layer: down [slots, bottleneck, hidden], its bias, up [slots, bottleneck, hidden], its bias."""


class ModuleBank:
    """The slots of all languages.

    Args:
        sites: inputs and outputs of each linear layer, by layer number and name.
        hidden: the body's width.
        layers: how many layers it has.
        dtype: type of the matrices.
        device: where they are.
    """

    def __init__(
        self,
        sites: Mapping[Site, tuple[int, int]],
        hidden: int,
        layers: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._sites = dict(sites)
        self._hidden = hidden
        self._layers = layers
        self._dtype, self._device = dtype, device
        self._capacity, self._rank, self._bottleneck = 1, 0, 0
        # Rank and bottleneck of the language in each slot, and how many slots were ever written to.
        self._used: dict[int, tuple[int, int]] = {NO_LANGUAGE: (0, 0)}
        self._touched = 1
        self.tensors = BankTensors({}, {})
        """As they are now."""

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
        low_rank = rank * sum(width + out for width, out in self._sites.values())
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
        by_site = sites_of(modules)
        for site, (a, b) in self.tensors.low_rank.items():
            a[slot].zero_()
            b[slot].zero_()
            if change := by_site.get(site):
                rank = change.a.shape[0]
                a[slot, :rank] = change.a
                b[slot, :rank] = change.b.T
        for number, parts in self.tensors.parallel.items():
            for part in parts:
                part[slot].zero_()
            if adapter := modules.parallel.get(number):
                width = adapter.down_bias.shape[0]
                down, down_bias, up, up_bias = parts
                down[slot, :width] = adapter.down_weight
                down_bias[slot, :width] = adapter.down_bias
                up[slot, :width] = adapter.up_weight.T * adapter.scaling
                up_bias[slot] = adapter.up_bias * adapter.scaling
        self._used[slot] = widths
        self._touched = max(self._touched, slot + 1)
        return slot

    def free(self, slot: int) -> None:
        """Give a slot back; nothing may be computing with it."""
        del self._used[slot]

    def compact(self) -> dict[int, int]:
        """Move the languages together into new tensors that have no spare slot.

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

    def low_rank(self, slot: int) -> dict[Site, LowRank]:
        """A slot's low-rank changes, for merging."""
        return {site: LowRank(a[slot], b[slot].T) for site, (a, b) in self.tensors.low_rank.items()}

    def parallel(self, slot: int) -> dict[int, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """A slot's parallel adapters, up with the scaling in it."""
        return {
            number: (down[slot], down_bias[slot], up[slot], up_bias[slot])
            for number, (down, down_bias, up, up_bias) in self.tensors.parallel.items()
        }

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
        """New tensors that begin with the given slots; what is not written costs no memory."""

        def resized(before: Tensor | None, *shape: int) -> Tensor:
            after = torch.empty(capacity, *shape, dtype=self._dtype, device=self._device)
            after[: len(slots)].zero_()
            if before is not None:
                for new, old in enumerate(slots):
                    target, source = after[new], before[old]
                    for dim, size in enumerate(map(min, target.shape, source.shape)):
                        target, source = target.narrow(dim, 0, size), source.narrow(dim, 0, size)
                    target.copy_(source)
            return after

        hidden = self._hidden
        low_rank, parallel = {}, {}
        for site, (width, out) in self._sites.items() if rank else ():
            a, b = self.tensors.low_rank.get(site, (None, None))
            low_rank[site] = (resized(a, rank, width), resized(b, rank, out))
        for number in range(self._layers) if bottleneck else ():
            down, down_bias, up, up_bias = self.tensors.parallel.get(number, (None,) * 4)
            parallel[number] = (
                resized(down, bottleneck, hidden),
                resized(down_bias, bottleneck),
                resized(up, bottleneck, hidden),
                resized(up_bias, hidden),
            )
        self.tensors = BankTensors(low_rank, parallel)
        self._capacity, self._rank, self._bottleneck = capacity, rank, bottleneck


class BankRows:
    """The bank as one bucket of rows sees it.

    Args:
        tensors: the bank's.
        slots: [rows]: the slot of each row.
        low_rank: whether the low-rank changes act.
        align: whether the parallel adapters do.
    """

    def __init__(self, tensors: BankTensors, slots: Tensor, *, low_rank: bool, align: bool) -> None:
        self._low_rank = tensors.low_rank if low_rank else {}
        self._parallel = tensors.parallel if align else {}
        self._slots = slots

    def changes(self, site: Site) -> bool:
        """Whether :meth:`add` does anything there."""
        return site in self._low_rank

    def add(self, site: Site, y: Tensor, x: Tensor) -> None:
        """Add ``B A x`` to y in place, each row with its own matrices: [rows, length, ·]."""
        if site not in self._low_rank:
            return
        a, b = (matrices.index_select(0, self._slots) for matrices in self._low_rank[site])
        y.baddbmm_(torch.bmm(x, a.transpose(1, 2)), b)

    def add_beside(self, number: int, y: Tensor, x: Tensor) -> None:
        """Add ``scaling * Up(relu(Down(x)))`` of a layer to y in place."""
        if number not in self._parallel:
            return
        down, down_bias, up, up_bias = (part.index_select(0, self._slots) for part in self._parallel[number])
        inner = torch.baddbmm(down_bias[:, None], x, down.transpose(1, 2)).relu_()
        y.baddbmm_(inner, up).add_(up_bias[:, None])


def _widths(modules: LanguageModules) -> tuple[int, int]:
    """Rank and bottleneck that a slot needs."""
    ranks = [change.a.shape[0] for change in modules.low_rank.values()]
    bottlenecks = [layer.down_bias.shape[0] for layer in modules.parallel.values()]
    rank, bottleneck = (
        -(-max(part, default=0) // _WIDTH_STEP) * _WIDTH_STEP for part in (ranks, bottlenecks)
    )
    return rank, bottleneck


def sites_of(modules: LanguageModules) -> dict[Site, LowRank]:
    """A language's low-rank changes by layer number and the rest of the module's name."""
    sites = {}
    for name, change in modules.low_rank.items():
        parts = name.removeprefix("encoder.layer.").split(".", 1)
        if len(parts) == 2 and parts[0].isdigit():
            sites[int(parts[0]), parts[1]] = change
    return sites
