"""Several data sets in one training: groups take turns; sets of a group are read in proportion to their rows.

A pass over the data ends when every row of the largest group was read once; smaller groups start again in
another order. Rows that do not fill a set's last batch are skipped; they differ from pass to pass.

sentence-transformers' samplers do only a part of this: ``ROUND_ROBIN`` stops at the smallest set,
``PROPORTIONAL`` takes no turns, and both leave out a set of fewer rows than a batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np
from datasets import Dataset
from sentence_transformers.base.sampler import MultiDatasetDefaultBatchSampler

from modenc.errors import RecipeError
from modenc.recipe.settings import OptimizerSettings

logger = logging.getLogger(__name__)

SetGroups = Mapping[str, Mapping[str, Dataset]]
"""Group → name → data set; no two sets have the same name."""


@dataclass(frozen=True)
class DataSchedule:
    """The rows that a training reads, how often, and in which order."""

    rows: dict[str, int]
    """Set → number of its rows in this training."""
    groups: tuple[tuple[int, ...], ...]
    """Group → set → number of batches in a pass over the set."""
    optimizer: OptimizerSettings
    """Settings with a batch size of at most the number of rows."""

    def batches(self) -> int:
        """Count the batches in a pass over the data."""
        return max(map(sum, self.groups)) * len(self.groups)

    def sets(self) -> Iterator[int]:
        """Yield the set of each batch in a pass; sets are numbered through all groups."""
        endless, first = [], 0
        for counts in self.groups:
            # A group's sets are spread evenly over a pass of the group.
            places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
            spread = np.repeat(np.arange(first, first + len(counts)), counts)
            endless.append(cycle(spread[np.argsort(places, kind="stable")].tolist()))
            first += len(counts)
        for place in range(self.batches()):
            yield next(endless[place % len(endless)])

    def steps(self) -> int:
        """Count the optimizer steps as the trainers do."""
        steps_a_pass = math.ceil(self.batches() / self.optimizer.gradient_accumulation)
        return self.optimizer.steps or max(math.ceil(self.optimizer.epochs * steps_a_pass), 1)

    def log(self) -> None:
        """Log the steps and the rows of each set."""
        rows = ", ".join(f"{name} {count}" for name, count in self.rows.items())
        logger.info("  %d steps; rows: %s", self.steps(), rows)


class ScheduleSampler(MultiDatasetDefaultBatchSampler):  # type: ignore[misc]
    """Sampler of a schedule's batches; ``ROUND_ROBIN`` if each group has one set, all equal."""

    def __init__(self, dataset: Any, schedule: DataSchedule, **settings: Any) -> None:
        super().__init__(dataset, **settings)
        self.schedule = schedule
        for sampler, rows in zip(self.batch_samplers, dataset.datasets, strict=True):
            if len(rows) < sampler.batch_size:
                sampler.drop_last = False  # it is the set's only batch

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of a pass, as row numbers in the concatenation of all sets."""
        if self.generator is not None and self.seed is not None:
            self.generator.manual_seed(self.seed + self.epoch)
        batches = [self._endless(number) for number in range(len(self.batch_samplers))]
        for number in self.schedule.sets():
            yield next(batches[number])

    def _endless(self, number: int) -> Iterator[list[int]]:
        """Yield the batches of a set, pass after pass."""
        start = sum(len(rows) for rows in self.dataset.datasets[:number])
        while True:
            for rows in self.batch_samplers[number]:
                yield [start + row for row in rows]

    def __len__(self) -> int:
        """Count the batches in a pass."""
        return self.schedule.batches()


def schedule_data(train: Dataset | SetGroups, optimizer: OptimizerSettings) -> DataSchedule:
    """Plan how ``train`` is read; a single set has the name ``rows``.

    Raises:
        RecipeError: a set has no rows.
    """
    sets = {"rows": {"rows": train}} if isinstance(train, Dataset) else train
    rows = {name: len(data) for group in sets.values() for name, data in group.items()}
    for name, count in rows.items():
        if not count:
            raise RecipeError(
                f"{name}: expected 1 row of training data or more, found 0; add data or use another objective"
            )
    if isinstance(train, Dataset):
        # The library's sampler leaves out a set of fewer rows than a batch.
        optimizer = replace(optimizer, batch_size=min(optimizer.batch_size, len(train)))
    batch = optimizer.batch_size
    groups = tuple(tuple(max(rows[name] // batch, 1) for name in group) for group in sets.values())
    return DataSchedule(rows, groups, optimizer)
