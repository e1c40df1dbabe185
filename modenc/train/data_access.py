"""A language's training texts, each kind read once and only when a stage asks for it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
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
from modenc.recipe.settings import PAPER_SECTIONS, LanguagePlan

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
            reads_pairs = objective in ("joint", "parallel", *PAPER_SECTIONS) and not (
                objective == "emma_x" and plan.emma_x.warmup_languages
            )
            sets += [self.parallel] if reads_pairs and learns else []
            sets += [self.text] if objective == "emma_x" and learns else []
        return sets


def drawn(groups: Mapping[str, Sequence[Row]], count: int, exponent: float, seed: int) -> list[Row]:
    """``count`` rows of several languages, mixed; a group's share is its own to the power of ``exponent``.

    Temperature sampling (Arivazhagan et al., 2019; MuSR, equation 5): ``q_i = p_i^a / Σ_j p_j^a``; 0 shows
    every language equally often, 1 every row. A group with too few rows is shown again, in another order.
    """
    weights = {name: len(rows) ** exponent for name, rows in groups.items() if rows}
    order: list[Row] = []
    passed, total = 0.0, sum(weights.values())
    for position, (name, weight) in enumerate(weights.items()):
        before, passed = passed, passed + weight
        quota = round(count * passed / total) - round(count * before / total)
        own: list[Row] = []
        while len(own) < quota:
            own += sample(groups[name], 0, seed + position + len(own))
        order += own[:quota]
    return sample(order, 0, seed)


def sample(rows: Sequence[Row], count: int, seed: int) -> list[Row]:
    """``count`` rows (0: all) in a seeded random order."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    return order[:count] if count else order
