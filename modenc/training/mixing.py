"""Several data sets in one training: groups take turns; sets of a group are read in proportion to their rows.

A pass over the data ends when every row of the largest group was read once; smaller groups start again in
another order. Rows that do not fill a set's last batch are skipped; they differ from pass to pass.

sentence-transformers' samplers do only a part of this: ``ROUND_ROBIN`` stops at the smallest set,
``PROPORTIONAL`` takes no turns, and both leave out a set of fewer rows than a batch.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, cycle, islice
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
    drawn_from: Mapping[str, int] = field(default_factory=dict)
    """Set → number of all its rows, where ``rows`` are a sample."""

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
        return self.optimizer.steps or max(math.ceil(self.optimizer.epochs * self._steps_a_pass()), 1)

    def rows_read(self, steps: int) -> dict[str, dict[str, int]]:
        """Count each set's ``rows``, and the ``rows_seen`` in ``steps``, where repeated rows count again."""
        passes, rest = divmod(steps, self._steps_a_pass())
        # The last step of a pass may have fewer batches.
        more = min(rest * self.optimizer.gradient_accumulation, self.batches())
        in_pass, in_rest = (Counter(islice(self.sets(), count)) for count in (self.batches(), more))
        read = {}
        for number, (name, rows) in enumerate(self.rows.items()):
            seen = (passes * in_pass[number] + in_rest[number]) * min(self.optimizer.batch_size, rows)
            read[name] = {"rows": self.drawn_from.get(name, rows), "rows_seen": seen}
        return read

    def log(self, section: str) -> None:
        """Log how often each set is read, with a warning if it is less than once."""
        steps = self.steps()
        whole = dict(zip(self.rows, chain(*self.groups), strict=True))
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
        return math.ceil(self.batches() / self.optimizer.gradient_accumulation)


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


def schedule_data(
    train: Dataset | SetGroups, optimizer: OptimizerSettings, drawn_from: Mapping[str, int] | None = None
) -> DataSchedule:
    """Plan how ``train`` is read; a single set has the name ``rows``.

    Args:
        train: the data.
        optimizer: steps, epochs and batch size.
        drawn_from: set → number of all its rows, where ``train`` has only a sample that the steps can read.

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
    return DataSchedule(rows, groups, optimizer, drawn_from or {})


def log_drawn_rows(
    languages: Sequence[str], drawn: Sequence[int], rows_of: Mapping[str, Sequence[object]]
) -> None:
    """Log how many rows of each language were drawn, with a warning if one of several was not read whole.

    ``drawn`` holds the language of each drawn row, as a position in ``languages``.
    """
    for name, count in zip(languages, np.bincount(drawn, minlength=len(languages)), strict=True):
        rows = len(rows_of[name])
        logger.info("  %s: %d rows read of %d", name, count, rows)
        if count < rows and len(languages) > 1:
            left = rows - count
            logger.warning("  %s: %d of %d rows are never read; more steps read more", name, left, rows)
