"""What the other papers' objectives are made from, for modules and for one whole model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast

from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.data.pairs import ParallelRow
from modenc.recipe.paper_settings import data_for_alignment
from modenc.recipe.settings import AlignmentSettings, LanguagePlan, MonolithicSettings
from modenc.training.data_access import TrainingData
from modenc.training.processes import rows_a_step
from modenc.training.stage import StageRun

Options = TypeVar("Options")


@dataclass(frozen=True)
class FrozenPivot:
    """The pivot's side, where it does not learn."""

    encode: Callable[[list[str]], Tensor]
    """Gives texts' unit vectors [texts, hidden]."""
    texts: list[str]
    """Its text without translations."""
    others: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Unit vectors of other languages' translations and their counterparts, for EMMA-X's classifier."""


@dataclass(frozen=True)
class ObjectiveInputs:
    """What an objective's phases are made from; see :func:`objective_inputs`."""

    run: StageRun
    settings: AlignmentSettings | MonolithicSettings
    model: SentenceTransformer
    embeddings: nn.Embedding
    """The base's table; a monolithic model's own."""
    pairs: Mapping[str, list[ParallelRow]]
    """Language → translations."""
    texts: Mapping[str, list[str]]
    """Language → text without translations."""
    pivot: FrozenPivot | None = None
    """None where the model encodes the pivot too."""

    @property
    def plan(self) -> LanguagePlan:
        """The language's, or one model's first."""
        return self.run.plan

    def steps(self, exponent: float = 0.0) -> int:
        """Optimizer steps of all phases together, of languages that are :func:`drawn` with ``exponent``."""
        optimizer = self.settings.optimizer
        if optimizer.steps:
            return optimizer.steps
        sizes = [len(rows) for rows in (self.pairs or self.texts).values() if rows]
        # Until the language with the most rows for its share was read whole.
        rows: float = max(size ** (1 - exponent) for size in sizes) * sum(size**exponent for size in sizes)
        return max(math.ceil(optimizer.epochs * round(rows) / self.rows_a_step()), 1)

    def rows_a_step(self) -> int:
        """Rows that one optimizer step reads, in all processes."""
        return rows_a_step(self.settings.optimizer)

    def embed(self, ids: Tensor) -> Tensor:
        """The table's rows of pieces [batch, length], wherever the table is: [batch, length, hidden]."""
        table = self.embeddings
        embedded: Tensor = table(ids.to(table.weight.device))
        return embedded

    def vectors(self, texts: list[str]) -> Tensor | None:
        """The frozen pivot's unit vectors of texts [texts, hidden]."""
        return None if self.pivot is None else self.pivot.encode(texts)


def objective_inputs(
    run: StageRun,
    settings: AlignmentSettings | MonolithicSettings,
    model: SentenceTransformer,
    data: Mapping[str, TrainingData],
    pivot: FrozenPivot | None = None,
) -> ObjectiveInputs:
    """The inputs of an objective, with the translations and texts that it reads.

    Args:
        run: the training.
        settings: its section.
        model: what learns.
        data: of the languages that learn.
        pivot: the frozen pivot, if it is.

    """
    reads = data_for_alignment(settings.objective, run.plan.emma_x)
    pairs, texts = {}, {}
    for lang, part in data.items():
        if "parallel" in reads and lang != part.plan.pivot and part.plan.data.parallel:
            pairs[lang] = part.parallel.train
        if "text" in reads and part.plan.data.text:
            texts[lang] = part.text.train
    body = model[0].body if pivot is None else run.base.load_body().requires_grad_(False)
    return ObjectiveInputs(run, settings, model, body.get_input_embeddings(), pairs, texts, pivot)


def options(kind: type[Options], settings: Any) -> Options:
    """An objective's options, a dataclass, from the settings of the same names."""
    return kind(**{option.name: getattr(settings, option.name) for option in fields(cast(Any, kind))})
