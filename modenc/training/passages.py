"""Batches of passages of one document, each with a query: its own, or a part of its text."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

from datasets import Dataset

from modenc.data.kinds import PassageRow
from modenc.recipe.settings import OptimizerSettings
from modenc.training.data_access import sample

Row = TypeVar("Row")

# Most characters of a query that is cut out of a passage.
_SPAN = 150


def draw_passages(rows: Sequence[PassageRow], optimizer: OptimizerSettings, turns: int, seed: int) -> Dataset:
    """Make a data set of as many passages as the steps read, with ``turns`` kinds of batches in turn."""
    needed = math.ceil(optimizer.steps * optimizer.rows_a_step() / turns)
    return passage_set(draw_neighbors(rows, optimizer.batch_size, needed, seed), seed)


def draw_neighbors(rows: Sequence[Row], batch: int, count: int, seed: int) -> list[Row]:
    """Draw ``count`` rows in batches of neighbors, in a seeded random order of the batches."""
    batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    whole = [found for found in batches if len(found) == batch] or batches
    return [row for found in sample(whole, math.ceil(count / batch), seed) for row in found]


def passage_set(rows: Sequence[PassageRow], seed: int) -> Dataset:
    """Make a data set of passages with their queries; those without one are asked for by a span of theirs.

    Such a query is the inverse cloze task's (Lee et al., 2019), with the passage left whole.
    """
    draw = random.Random(seed)
    queries = [row.query or random_span(row.passage, draw) for row in rows]
    passages = [row.passage for row in rows]
    return Dataset.from_dict({"query": queries, "passage": passages, "label": list(range(len(rows)))})


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
