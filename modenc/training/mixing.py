"""Several data sets in one training: groups take turns; sets of a group are read in proportion to their rows.

A pass over the data ends when every row of the largest group was read once; smaller groups start again in
another order. Rows that do not fill a set's last batch are skipped; they differ from pass to pass.

sentence-transformers' samplers do only a part of this: ``ROUND_ROBIN`` stops at the smallest set,
``PROPORTIONAL`` takes no turns, and both leave out a set of fewer rows than a batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset
from sentence_transformers.base.sampler import MultiDatasetDefaultBatchSampler

from modenc.errors import RecipeError
from modenc.recipe.settings import OptimizerSettings
from modenc.training.processes import process_state

logger = logging.getLogger(__name__)

SetGroups = Mapping[str, Mapping[str, Dataset]]
"""Group → name → data set; no two sets have the same name."""


@dataclass(frozen=True)
class BatchOrder:
    """Order of the batches in a pass over the data: the group and the set of each."""

    groups: tuple[tuple[int, ...], ...]
    """Group → set → number of batches in a pass over the set."""
    processes: int = 1
    """Number of processes; all read from the same group at a time, a batch each."""

    def __len__(self) -> int:
        """Count the batches in a pass, in all processes."""
        rounds = math.ceil(max(map(sum, self.groups)) / self.processes)
        return rounds * self.processes * len(self.groups)

    def order(self, group: int) -> npt.NDArray[np.intp]:
        """Spread a group's sets evenly: for each batch of a pass over the group, the number of its set."""
        counts = self.groups[group]
        places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        spread: npt.NDArray[np.intp] = np.repeat(np.arange(len(counts)), counts)
        return spread[np.argsort(places, kind="stable")]

    def batches_of(self, count: int) -> list[list[int]]:
        """Count, for each set of each group, its batches among a pass's first ``count``."""
        cycles, rest = divmod(count, self.processes * len(self.groups))
        given = []
        for group, sizes in enumerate(self.groups):
            own = cycles * self.processes + min(max(rest - group * self.processes, 0), self.processes)
            passes, rest_of_group = divmod(own, sum(sizes))
            more = np.bincount(self.order(group)[:rest_of_group], minlength=len(sizes))
            given.append([passes * size + int(extra) for size, extra in zip(sizes, more, strict=True)])
        return given


class BatchOrderSampler(MultiDatasetDefaultBatchSampler):  # type: ignore[misc]
    """Sampler of batches in a :class:`BatchOrder`; ``ROUND_ROBIN`` if each group has one set, all equal."""

    def __init__(self, dataset: Any, batch_order: BatchOrder, **settings: Any) -> None:
        super().__init__(dataset, **settings)
        self.batch_order = batch_order
        for sampler, rows in zip(self.batch_samplers, dataset.datasets, strict=True):
            if len(rows) < sampler.batch_size:
                sampler.drop_last = False  # it is the set's only batch

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of a pass, as row numbers in the concatenation of all sets."""
        if self.generator is not None and self.seed is not None:
            self.generator.manual_seed(self.seed + self.epoch)
        numbers = iter(range(len(self.batch_samplers)))
        batches = [
            self._endless(group, [next(numbers) for _ in sizes])
            for group, sizes in enumerate(self.batch_order.groups)
        ]
        for place in range(len(self)):
            yield next(batches[place // self.batch_order.processes % len(batches)])

    def _endless(self, group: int, sets: Sequence[int]) -> Iterator[list[int]]:
        ends = np.cumsum([len(rows) for rows in self.dataset.datasets])
        order = self.batch_order.order(group)
        while True:
            readers = [iter(self.batch_samplers[number]) for number in sets]
            for place in order:
                number = sets[place]
                start = int(ends[number]) - len(self.dataset.datasets[number])
                yield [start + row for row in next(readers[place])]

    def __len__(self) -> int:
        """Count the batches in a pass."""
        return len(self.batch_order)


def forward_set_epoch(loader: Any) -> Any:
    """Let the ``set_epoch`` of a loader that accelerate prepared reach the sampler in all processes.

    accelerate divides a sampler among processes by a ``BatchSamplerShard``, which has no ``set_epoch``: every
    epoch would have the same order and leave out the same rows.
    """
    shard = loader.batch_sampler
    whole: Any = getattr(shard, "batch_sampler", None)
    if hasattr(whole, "set_epoch") and not hasattr(shard, "set_epoch"):
        shard.set_epoch = whole.set_epoch
    return loader


@dataclass(frozen=True)
class DataSchedule:
    """The rows that a training reads, how often, and in which order."""

    rows: dict[str, int]
    """Set → number of its rows in this training."""
    batch_order: BatchOrder
    optimizer: OptimizerSettings
    """Settings with a batch size of at most the number of rows."""
    drawn_from: Mapping[str, int] = field(default_factory=dict)
    """Set → number of all its rows, where ``rows`` are a sample."""

    def steps(self) -> int:
        """Count the optimizer steps as the trainers do."""
        return self.optimizer.steps or max(math.ceil(self.optimizer.epochs * self._steps_a_pass()), 1)

    def rows_read(self, steps: int) -> dict[str, dict[str, int]]:
        """Count each set's ``rows``, and the ``rows_seen`` in ``steps``, where repeated rows count again."""
        processes, accumulation = self.batch_order.processes, self.optimizer.gradient_accumulation
        passes, rest = divmod(steps, self._steps_a_pass())
        # The last step of a pass may have fewer batches.
        more = min(rest * accumulation * processes, len(self.batch_order))
        in_pass, in_rest = (self.batch_order.batches_of(count) for count in (len(self.batch_order), more))
        batches = [
            passes * each + extra
            for group in range(len(in_pass))
            for each, extra in zip(in_pass[group], in_rest[group], strict=True)
        ]
        size = self.optimizer.batch_size
        return {
            name: {"rows": self.drawn_from.get(name, rows), "rows_seen": count * min(size, rows)}
            for (name, rows), count in zip(self.rows.items(), batches, strict=True)
        }

    def log(self, section: str) -> None:
        """Log how often each set is read, with a warning if it is less than once."""
        steps = self.steps()
        whole = dict(zip(self.rows, chain(*self.batch_order.groups), strict=True))
        for name, counts in self.rows_read(steps).items():
            rows, seen, drawn = counts["rows"], counts["rows_seen"], self.rows[name]
            logger.info("  %s: %d rows read of %d (%.1f passes)", name, seen, rows, seen / rows)
            # Rows that do not fill a batch are left out of a pass without a warning.
            if seen < rows and (drawn < rows or seen < whole[name] * min(self.optimizer.batch_size, drawn)):
                logger.warning(
                    "  %s: %s: %d of %d rows are never read in %d steps; raise %s.optimizer.steps, or set it "
                    "to 0 and %s.optimizer.epochs to 1 or more",
                    section, name, rows - seen, rows, steps, section, section,
                )  # fmt: skip

    def _steps_a_pass(self) -> int:
        batches = len(self.batch_order) // self.batch_order.processes
        return max(math.ceil(batches / self.optimizer.gradient_accumulation), 1)


def schedule_data(
    train: Dataset | SetGroups, optimizer: OptimizerSettings, drawn_from: Mapping[str, int] | None = None
) -> DataSchedule:
    """Plan how ``train`` is read; a single set has the name ``rows``.

    Args:
        train: the data.
        optimizer: steps, epochs and batch size.
        drawn_from: set → number of all its rows, where ``train`` has only a sample that the steps can read.

    Raises:
        RecipeError: a set has no rows, or in several processes fewer than one batch.
    """
    processes, batch = process_state().num_processes, optimizer.batch_size
    if isinstance(train, Dataset):
        _check_rows("rows", len(train), processes, processes)
        size = min(batch, len(train) // processes)
        _warn_if_smaller("rows", size, batch)
        # The library's sampler leaves out the rest.
        groups: tuple[tuple[int, ...], ...] = ((len(train) // size // processes * processes,),)
        rows, optimizer = {"rows": len(train)}, replace(optimizer, batch_size=size)
    else:
        rows = {name: len(data) for sets in train.values() for name, data in sets.items()}
        for name, count in rows.items():
            _check_rows(name, count, 1 if processes == 1 else batch, processes)
            _warn_if_smaller(name, count, batch)
        groups = tuple(tuple(max(rows[name] // batch, 1) for name in sets) for sets in train.values())
    return DataSchedule(rows, BatchOrder(groups, processes), optimizer, drawn_from or {})


def log_drawn_rows(
    languages: Sequence[str], drawn: Sequence[int], rows_of: Mapping[str, Sequence[object]]
) -> None:
    """Log how many rows of each language were drawn, with a warning if that is not all.

    ``drawn`` holds the language of each drawn row, as a position in ``languages``.
    """
    for name, count in zip(languages, np.bincount(drawn, minlength=len(languages)), strict=True):
        rows = len(rows_of[name])
        logger.info("  %s: %d rows read of %d", name, count, rows)
        if count < rows and len(languages) > 1:
            left = rows - count
            logger.warning("  %s: %d of %d rows are never read; more steps read more", name, left, rows)


def _check_rows(name: str, found: int, needed: int, processes: int) -> None:
    if found < needed:
        where = f" in {processes} processes" if processes > 1 else ""
        raise RecipeError(
            f"{name}: expected {needed} rows of training data or more{where}, found {found}; add data, use a "
            "smaller optimizer.batch_size or another objective"
        )


def _warn_if_smaller(name: str, found: int, wanted: int) -> None:
    if found < wanted:
        logger.warning(
            "  %s: only %d rows for a batch of %d; its batches are of %d", name, found, wanted, found
        )
