"""A language's training data; each kind is read once, when a stage first needs it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from datasets import Dataset

from modenc.data import kinds
from modenc.data.kinds import DataKind, PassageRow
from modenc.data.text import sentence_key
from modenc.data.training_sets import TrainingSet, load, load_dev
from modenc.recipe.plan import LanguagePlan
from modenc.recipe.settings import OptimizerSettings

Row = TypeVar("Row")

# Most characters of a query that is cut out of a passage.
_SPAN = 150


def _rows(kind: DataKind[Row]) -> cached_property[TrainingSet[Row]]:
    """Make a property that reads the data of a kind when it is first used."""

    def read(self: TrainingData) -> TrainingSet[Row]:
        data = self.plan.data
        return load(
            kind,
            getattr(data, kind.name),
            self.plan.lang,
            self.plan.pivot,
            root=data.root,
            filters=data,
            held_out=getattr(data.dev, f"{kind.name}_held_out", 0),
            not_in=frozenset() if kind is kinds.TEXT else self.evaluated_on(across=kind.across),
        )

    return cached_property(read)


def _dev_rows(kind: DataKind[Row]) -> cached_property[list[Row]]:
    """Make a property that reads a development set when it is first used."""

    def read(self: TrainingData) -> list[Row]:
        data = self.plan.data
        return load_dev(kind, getattr(data.dev, kind.name), self.plan.lang, self.plan.pivot, root=data.root)

    return cached_property(read)


class TrainingData:
    """Data of one language's ``plan``, read on demand; EMMA-X also reads the text of the pivot's plan."""

    def __init__(self, plan: LanguagePlan, pivot_plan: LanguagePlan | None = None) -> None:
        self.plan = plan
        self.pivot_plan = pivot_plan

    text = _rows(kinds.TEXT)
    paraphrases = _rows(kinds.PARAPHRASES)
    scored_pairs = _rows(kinds.SCORED_PAIRS)
    passages = _rows(kinds.PASSAGES)
    parallel = _rows(kinds.PARALLEL)
    cross_paraphrases = _rows(kinds.CROSS_PARAPHRASES)
    cross_scored_pairs = _rows(kinds.CROSS_SCORED_PAIRS)
    sts = _dev_rows(kinds.STS)
    cross_sts = _dev_rows(kinds.CROSS_STS)
    """The first sentence is in the pivot language."""
    search = _dev_rows(kinds.SEARCH)
    cross_search = _dev_rows(kinds.CROSS_SEARCH)
    """The queries are in the pivot language."""

    @cached_property
    def pivot_text(self) -> TrainingSet[str] | None:
        """The pivot's running text, if EMMA-X aligns the language with it."""
        if self.pivot_plan is None or "text" not in self.plan.reads("alignment"):
            return None
        return TrainingData(self.pivot_plan).text

    def dev_sets(self) -> dict[str, list[Any]]:
        """Return the development sets: the name of each kind → its rows."""
        return {name: getattr(self, name) for name, kind in kinds.KINDS.items() if kind.dev}

    def evaluated_on(self, *, across: bool) -> frozenset[str]:
        """Return the sentences that pairs and translations must not have, as ``sentence_key`` writes them.

        Args:
            across: include the held-out translations, not only the development sets.
        """
        texts = [text for rows in self.dev_sets().values() for row in rows for text in row[:2]]
        if across:
            texts += [text for row in self.parallel.held_out for text in row[:2]]
        # Which side of a pair is in the language is not told apart here.
        return frozenset(sentence_key(text, lang) for text in texts for lang in (self.plan.lang, None))

    def used_by(self, stage: str) -> list[TrainingSet[Any]]:
        """List the data that a stage trains on, in a fixed order; none if the recipe leaves it out."""
        sets = [getattr(self, name) for name in self.plan.reads(stage)]
        if stage == "alignment" and self.pivot_text is not None:
            sets.append(self.pivot_text)
        return sets


def draw_rows(groups: Mapping[str, Sequence[Row]], count: int, exponent: float, seed: int) -> list[Row]:
    """Draw ``count`` rows of several languages, mixed, by temperature sampling with ``exponent`` a.

    A language with the share p_i of all rows gets the share ``p_i^a / Σ_j p_j^a`` of the drawn rows
    (Arivazhagan et al., 2019; MuSR, equation 5): with 0 every language is drawn equally often, with 1 every
    row. A language with too few rows is drawn again, in another order.
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
    """Return ``count`` rows (0: all) in a seeded random order."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    return order[:count] if count else order


def draw_passages(rows: Sequence[PassageRow], optimizer: OptimizerSettings, turns: int, seed: int) -> Dataset:
    """Draw as many passages as the steps read, with ``turns`` kinds of batches in turn, and their queries.

    A batch is of neighbors; the batches are in a seeded random order. A passage without a query is asked for
    by a span of it, as in the inverse cloze task (Lee et al., 2019), and left whole.
    """
    batch, needed = optimizer.batch_size, math.ceil(optimizer.steps * optimizer.rows_a_step() / turns)
    batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    whole = [found for found in batches if len(found) == batch] or batches
    drawn = [row for found in sample(whole, math.ceil(needed / batch), seed) for row in found]
    draw = random.Random(seed)
    queries = [row.query or random_span(row.passage, draw) for row in drawn]
    passages = [row.passage for row in drawn]
    return Dataset.from_dict({"query": queries, "passage": passages, "label": list(range(len(drawn)))})


def random_span(text: str, draw: random.Random) -> str:
    """Cut a random part of at most half a text and 150 characters, between words where there are blanks."""
    length = min(len(text) // 2, _SPAN)
    start = draw.randint(0, len(text) - length)
    end = start + length
    uncut = text[start:end]
    if start and (blank := text.find(" ", start, end)) >= 0:
        start = blank + 1
    if end < len(text) and (blank := text.rfind(" ", start + 1, end)) >= 0:
        end = blank
    # Blanks are no ends of words where a text has hardly any.
    return text[start:end] if end - start >= length / 4 else uncut
