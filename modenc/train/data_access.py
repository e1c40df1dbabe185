"""A language's training texts, each kind read once and only when a stage asks for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from modenc.data.corpus import Corpus, load_text
from modenc.data.pairs import (
    CrossSet,
    DevSets,
    PairSet,
    ParallelSet,
    ScoredSet,
    load_cross_paraphrases,
    load_dev,
    load_parallel,
    load_paraphrases,
    load_scored_pairs,
)
from modenc.langid import get_identifier
from modenc.recipe.settings import LanguagePlan

Row = TypeVar("Row")
TrainingSet = Corpus | PairSet | ScoredSet | ParallelSet | CrossSet


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
    def scored_pairs(self) -> ScoredSet:
        """Graded pairs of stage 3."""
        return load_scored_pairs(self.plan, self.identifier)

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

    def used_by(self, stage: str) -> list[TrainingSet]:
        """The sets that a stage trains on, in a fixed order; none where the recipe leaves it out."""
        plan = self.plan
        if stage == "vocabulary":
            return [self.text] if plan.vocabulary.method != "base" else []
        if stage == "language_adaptation":
            return [self.text] if plan.language_adaptation.objective != "none" else []
        sets: list[TrainingSet] = []
        if stage == "sentence_encoding":
            objective: str = plan.sentence_encoding.objective
            sets += [self.paraphrases] if "mnrl" in objective else []
            sets += [self.text] if "simcse" in objective else []
            sets += [self.scored_pairs] if plan.sentence_encoding.scored_steps else []
        else:
            objective = plan.alignment.objective
            paraphrases, learns = objective in ("joint", "paraphrase"), plan.lang != plan.pivot
            sets += [self.paraphrases] if paraphrases and plan.alignment.partners == "all" else []
            sets += [self.cross_paraphrases] if paraphrases and learns else []
            sets += [self.parallel] if objective in ("joint", "parallel") and learns else []
        return sets


def sample(rows: Sequence[Row], count: int, seed: int) -> list[Row]:
    """``count`` rows (0: all) in a seeded random order."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    return order[:count] if count else order
