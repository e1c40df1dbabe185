"""A language's training texts, each kind read once and only when a stage asks for it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from modenc.data import training_sets as kinds
from modenc.data.language_check import Filters
from modenc.data.pairs import CrossRow, CrossScoredRow, ParallelRow, ParaphraseRow, ScoredRow, load_sts
from modenc.data.training_sets import Kind, TrainingSet, load
from modenc.langid import get_identifier
from modenc.recipe.settings import LanguagePlan

Row = TypeVar("Row")


@dataclass(frozen=True)
class DevSets:
    """Sentence pairs with gold similarities; in ``cross_sts`` the first sentence is the pivot's."""

    sts: list[ScoredRow]
    cross_sts: list[ScoredRow]


class TrainingData:
    """Lazy views on the data of one language's plan.

    Args:
        plan: the language's.
        plans: the other languages', for what a stage reads of them.
    """

    def __init__(self, plan: LanguagePlan, plans: Mapping[str, LanguagePlan] | None = None) -> None:
        self.plan = plan
        self.plans = plans or {}
        self.identifier = get_identifier(None)

    @cached_property
    def text(self) -> TrainingSet[str]:
        """Running text."""
        return self._load(kinds.TEXT, self.plan.data.dev.text_held_out)

    @cached_property
    def paraphrases(self) -> TrainingSet[ParaphraseRow]:
        """Paraphrases of stage 3."""
        return self._load(kinds.PARAPHRASES)

    @cached_property
    def scored_pairs(self) -> TrainingSet[ScoredRow]:
        """Graded pairs of stage 3."""
        return self._load(kinds.SCORED_PAIRS)

    @cached_property
    def parallel(self) -> TrainingSet[ParallelRow]:
        """Parallel pairs of stage 4."""
        return self._load(kinds.PARALLEL, self.plan.data.dev.parallel_held_out)

    @cached_property
    def cross_paraphrases(self) -> TrainingSet[CrossRow]:
        """Cross-lingual paraphrases of stage 4."""
        return self._load(kinds.CROSS_PARAPHRASES)

    @cached_property
    def cross_scored_pairs(self) -> TrainingSet[CrossScoredRow]:
        """Graded pairs of stage 4, in the language and in the pivot."""
        return self._load(kinds.CROSS_SCORED_PAIRS)

    def _load(self, kind: Kind[Row], held_out: int = 0) -> TrainingSet[Row]:
        plan, data = self.plan, self.plan.data
        return load(
            kind,
            getattr(data, kind.name),
            plan.lang,
            plan.pivot,
            root=data.root,
            filters=Filters.of(data),
            identifier=self.identifier,
            held_out=held_out,
        )

    @cached_property
    def of_others(self) -> dict[str, TrainingData]:
        """EMMA-X: the data of the languages that its classifier learns from, and of the pivot."""
        if self.plan.alignment.objective != "emma_x" or self.plan.lang == self.plan.pivot:
            return {}
        languages = (self.plan.pivot, *self.plan.emma_x.warmup_languages)
        return {lang: TrainingData(self.plans[lang]) for lang in languages if lang in self.plans}

    @cached_property
    def dev(self) -> DevSets:
        """Development sets."""
        plan, data = self.plan, self.plan.data
        sts, cross_sts = (
            load_sts(getattr(data.dev, name), plan.lang, plan.pivot, root=data.root, name=name)
            for name in ("sts", "cross_sts")
        )
        return DevSets(sts, cross_sts)

    def held_out_translations(self) -> list[ParallelRow]:
        """Those set aside; none of a language whose translations are not to be used, in evaluation either."""
        plan = self.plan
        spared = plan.alignment.objective == "emma_x" and plan.emma_x.warmup_languages
        return self.parallel.held_out if plan.data.parallel and not spared else []

    def used_by(self, stage: str) -> list[TrainingSet[Any]]:
        """The sets that a stage trains on, in a fixed order; none where the recipe leaves it out."""
        reads = self.plan.reads(stage)
        sets = [getattr(self, name) for name in reads]
        for lang, data in self.of_others.items() if stage == "alignment" else ():
            sets += [data.parallel] if lang != self.plan.pivot else [data.text] if "text" in reads else []
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
