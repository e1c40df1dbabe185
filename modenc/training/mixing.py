"""Several data sets in one training: tasks in turn, and within a task its sets in proportion to their rows.

A pass over the data ends when every row of the largest task was read once; smaller tasks start again in
another order. Rows after a set's last full batch are left out of a pass, in each pass others.

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
from datasets import Dataset, DatasetDict
from sentence_transformers.base.sampler import MultiDatasetDefaultBatchSampler

from modenc.errors import RecipeError
from modenc.recipe.settings import OptimizerSettings
from modenc.training.processes import process_state

logger = logging.getLogger(__name__)

Mix = Mapping[str, Mapping[str, Dataset]]
"""Task → name → data set; no two sets have the same name."""


@dataclass(frozen=True)
class Turns:
    """Which set each batch of a pass comes from."""

    tasks: tuple[tuple[int, ...], ...]
    """For each task the number of batches in a pass over each of its sets."""
    processes: int = 1
    """All processes read from the same task at a time, a batch each."""

    def __len__(self) -> int:
        """Batches in a pass, in all processes together."""
        rounds = math.ceil(max(map(sum, self.tasks)) / self.processes)
        return rounds * self.processes * len(self.tasks)

    def task_at(self, batch: int) -> int:
        """The task of a pass's batch."""
        return batch // self.processes % len(self.tasks)

    def order(self, task: int) -> npt.NDArray[np.intp]:
        """For each batch of a pass over a task the number of its set within the task, evenly spread."""
        counts = self.tasks[task]
        places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        spread: npt.NDArray[np.intp] = np.repeat(np.arange(len(counts)), counts)
        return spread[np.argsort(places, kind="stable")]

    def batches_of(self, count: int) -> list[list[int]]:
        """How many of a pass's first ``count`` batches are from each set of each task."""
        cycles, rest = divmod(count, self.processes * len(self.tasks))
        given = []
        for task, sizes in enumerate(self.tasks):
            own = cycles * self.processes + min(max(rest - task * self.processes, 0), self.processes)
            whole, part = divmod(own, sum(sizes))
            more = np.bincount(self.order(task)[:part], minlength=len(sizes))
            given.append([whole * size + int(extra) for size, extra in zip(sizes, more, strict=True)])
        return given


class TurnsSampler(MultiDatasetDefaultBatchSampler):  # type: ignore[misc]
    """Batches in the order of :class:`Turns`, which for tasks of one equal set each is ``ROUND_ROBIN``'s."""

    def __init__(self, dataset: Any, turns: Turns, **settings: Any) -> None:
        super().__init__(dataset, **settings)
        self.turns = turns
        for sampler, rows in zip(self.batch_samplers, dataset.datasets, strict=True):
            if len(rows) < sampler.batch_size:
                sampler.drop_last = False  # it is the set's only batch

    def __iter__(self) -> Iterator[list[int]]:
        """A pass over the data, as row numbers in the concatenation of all sets."""
        if self.generator is not None and self.seed is not None:
            self.generator.manual_seed(self.seed + self.epoch)
        numbers = iter(range(len(self.batch_samplers)))
        feeds = [
            self._endless(task, [next(numbers) for _ in sizes]) for task, sizes in enumerate(self.turns.tasks)
        ]
        for batch in range(len(self)):
            yield next(feeds[self.turns.task_at(batch)])

    def _endless(self, task: int, sets: Sequence[int]) -> Iterator[list[int]]:
        ends = np.cumsum([len(rows) for rows in self.dataset.datasets])
        order = self.turns.order(task)
        while True:
            readers = [iter(self.batch_samplers[number]) for number in sets]
            for place in order:
                number = sets[place]
                start = int(ends[number]) - len(self.dataset.datasets[number])
                yield [start + row for row in next(readers[place])]

    def __len__(self) -> int:
        """Batches in a pass."""
        return len(self.turns)


def pass_epochs_on(loader: Any) -> Any:
    """Give ``loader``, as accelerate prepared it, a ``set_epoch`` that reaches the sampler of all processes.

    accelerate divides a sampler among processes by a ``BatchSamplerShard``, which has no ``set_epoch``: every
    epoch would have the same order and leave out the same rows.
    """
    shard = loader.batch_sampler
    whole: Any = getattr(shard, "batch_sampler", None)
    if hasattr(whole, "set_epoch") and not hasattr(shard, "set_epoch"):
        shard.set_epoch = whole.set_epoch
    return loader


@dataclass(frozen=True)
class Reading:
    """How a training reads its data."""

    rows: dict[str, int]
    """Set → its rows in this training."""
    turns: Turns
    optimizer: OptimizerSettings
    """With a batch size that is no more than the rows."""
    drawn_from: Mapping[str, int] = field(default_factory=dict)
    """Set → all of its rows, where those above are a sample."""

    def steps(self) -> int:
        """Optimizer steps, as the trainers count them."""
        return self.optimizer.steps or max(math.ceil(self.optimizer.epochs * self._steps_a_pass()), 1)

    def seen(self, steps: int) -> dict[str, dict[str, int]]:
        """Set → all its ``rows``, and the ``rows_seen`` in ``steps``, where repeated ones count again."""
        processes, accumulation = self.turns.processes, self.optimizer.gradient_accumulation
        passes, rest = divmod(steps, self._steps_a_pass())
        # The last step of a pass may have fewer batches.
        more = min(rest * accumulation * processes, len(self.turns))
        whole, part = (self.turns.batches_of(count) for count in (len(self.turns), more))
        batches = [
            passes * each + extra
            for task in range(len(whole))
            for each, extra in zip(whole[task], part[task], strict=True)
        ]
        size = self.optimizer.batch_size
        return {
            name: {"rows": self.drawn_from.get(name, rows), "rows_seen": count * min(size, rows)}
            for (name, rows), count in zip(self.rows.items(), batches, strict=True)
        }

    def announce(self, section: str) -> None:
        """Log how often each set is read, with a warning where that is less than once."""
        steps = self.steps()
        whole = dict(zip(self.rows, chain(*self.turns.tasks), strict=True))
        for name, counts in self.seen(steps).items():
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
        batches = len(self.turns) // self.turns.processes
        return max(math.ceil(batches / self.optimizer.gradient_accumulation), 1)


def reading(
    train: Dataset | Mix, optimizer: OptimizerSettings, drawn_from: Mapping[str, int] | None = None
) -> Reading:
    """How ``train`` is read with these settings; a single set's name is ``rows``.

    ``drawn_from`` gives all rows of a set of which ``train`` has only a sample that suffices for the steps.

    Raises:
        RecipeError: a set has no rows, or in several processes fewer than one batch.
    """
    processes, batch = process_state().num_processes, optimizer.batch_size
    if isinstance(train, Dataset):
        _check_rows("rows", len(train), processes, processes)
        size = min(batch, len(train) // processes)
        _warn_if_smaller("rows", size, batch)
        # The library's own sampler leaves out the rest.
        tasks: tuple[tuple[int, ...], ...] = ((len(train) // size // processes * processes,),)
        rows, optimizer = {"rows": len(train)}, replace(optimizer, batch_size=size)
    else:
        rows = {name: len(data) for sets in train.values() for name, data in sets.items()}
        for name, count in rows.items():
            _check_rows(name, count, 1 if processes == 1 else batch, processes)
            _warn_if_smaller(name, count, batch)
        tasks = tuple(tuple(max(rows[name] // batch, 1) for name in sets) for sets in train.values())
    return Reading(rows, Turns(tasks, processes), optimizer, drawn_from or {})


def announce_drawn(
    names: Sequence[str], drawn: Sequence[int], groups: Mapping[str, Sequence[object]]
) -> None:
    """Log how many rows of each group were drawn, with a warning where that is not all.

    ``drawn`` has for each row that was drawn the position of its group in ``names``.
    """
    for name, count in zip(names, np.bincount(drawn, minlength=len(names)), strict=True):
        rows = len(groups[name])
        logger.info("  %s: %d rows read of %d", name, count, rows)
        if count < rows and len(names) > 1:
            left = rows - count
            logger.warning("  %s: %d of %d rows are never read; more steps read more", name, left, rows)


def as_dataset(train: Dataset | Mix) -> Dataset | DatasetDict:
    """``train`` as the trainers take it."""
    if isinstance(train, Dataset):
        return train
    return DatasetDict({name: data for sets in train.values() for name, data in sets.items()})


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
