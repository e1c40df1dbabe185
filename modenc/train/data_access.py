"""A language's training texts, each kind read once and only when a stage asks for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

from modenc.data.corpus import Corpus, load_text
from modenc.data.pairs import (
    CrossSet,
    DevSets,
    PairSet,
    ParallelSet,
    load_cross_paraphrases,
    load_dev,
    load_parallel,
    load_paraphrases,
)
from modenc.langid import get_identifier
from modenc.recipe.settings import LanguagePlan

Row = TypeVar("Row")


class TrainingData:
    """Lazy views on the data of one language's plan."""

    def __init__(self, plan: LanguagePlan) -> None:
        self.plan = plan
        self.identifier = get_identifier(None)

    @cached_property
    def text(self) -> Corpus:
        """Running text."""
        return load_text(self.plan, self.identifier)

    @cached_property
    def paraphrases(self) -> PairSet:
        """Paraphrases of stage 3."""
        return load_paraphrases(self.plan, self.identifier)

    @cached_property
    def parallel(self) -> ParallelSet:
        """Parallel pairs of stage 4."""
        return load_parallel(self.plan, self.identifier)

    @cached_property
    def cross_paraphrases(self) -> CrossSet:
        """Cross-lingual paraphrases of stage 4."""
        return load_cross_paraphrases(self.plan, self.identifier)

    @cached_property
    def dev(self) -> DevSets:
        """Development sets."""
        return load_dev(self.plan)

    def used_by(self, stage: str) -> list[Any]:
        """The sets that a stage trains on, in a fixed order."""
        plan = self.plan
        if stage in ("vocabulary", "language_adaptation"):
            needed = plan.vocabulary.method != "base" if stage == "vocabulary" else True
            return [self.text] if needed else []
        if stage == "sentence_encoding":
            objective = plan.sentence_encoding.objective
            sets: list[Any] = [self.paraphrases] if "mnrl" in objective else []
            return [*sets, self.text] if "simcse" in objective else sets
        alignment = plan.alignment.objective
        sets = [self.cross_paraphrases] if alignment in ("joint", "paraphrase") else []
        return [*sets, self.parallel] if alignment in ("joint", "parallel") else sets


def sample(rows: Sequence[Row], count: int, seed: int) -> list[Row]:
    """``count`` rows (0: all) in a seeded random order."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    return order[:count] if count else order
