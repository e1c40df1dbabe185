"""Test sets in many languages at once, item i meaning the same in all: every pair, each text encoded once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from modenc.errors import DataError
from modenc.evaluation.bitext import Score, is_top1
from modenc.evaluation.significance import Items
from modenc.evaluation.sts import pair_cosines

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ScoredSides:
    """One language's translation of scored pairs."""

    first: Vectors
    """Of ``sentence1``, [n, d]."""
    second: Vectors
    """Of ``sentence2``, [n, d]."""
    gold: Sequence[float]
    """Scores [n], the same in all languages."""


def check_rows(task: str, languages: Mapping[str, ScoredSides]) -> None:
    """See that all languages have the same scores row by row, as translations of the same pairs have.

    Raises:
        DataError: two do not; it says which and where.
    """
    known: tuple[str, Sequence[float]] | None = None
    for lang, sides in languages.items():
        known = known or (lang, sides.gold)
        code, gold = known
        if len(sides.gold) != len(gold):
            raise DataError(
                f"{task}: expected the same rows in all languages, found {len(gold)} in {code!r} and "
                f"{len(sides.gold)} in {lang!r}"
            )
        for number, (ours, theirs) in enumerate(zip(sides.gold, gold, strict=True), start=1):
            if ours != theirs:
                raise DataError(
                    f"{task}: expected the same scores in all languages, found {theirs} in {code!r} and "
                    f"{ours} in {lang!r} in row {number}; put the rows in one order"
                )


def cosines_of_pair(left: ScoredSides, right: ScoredSides) -> Items:
    """Rows [n, 3]: left's first sentences with right's second, right's first with left's second, gold."""
    both = (pair_cosines(left.first, right.second), pair_cosines(right.first, left.second))
    return np.column_stack([*both, np.asarray(left.gold)]).astype(np.float64)


def all_pairs(languages: Mapping[str, ScoredSides]) -> Iterator[tuple[tuple[str, str], Items]]:
    """Each two languages with :func:`cosines_of_pair`, in the order of ``languages``."""
    for left, right in combinations(languages, 2):
        yield (left, right), cosines_of_pair(languages[left], languages[right])


def ranked(items: Items) -> Items:
    """Columns [n, k] as whole numbers in the same order, ties too: equal for Spearman, a third to store."""
    return np.column_stack([rankdata(column, method="dense") for column in items.T]).astype(np.float64)


def top1_both_ways(left: Vectors, right: Vectors, score: Score) -> Items:
    """Share of the two directions, [n, 1], in which row i of one side [n, d] finds row i of the other."""
    hits = np.column_stack([is_top1(left, right, score), is_top1(right, left, score)])
    return np.asarray(hits.mean(axis=1, keepdims=True), np.float64)


def in_common(task: str, texts: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Ids that all languages' ``texts`` (language → id → text) have, in the first one's order.

    Raises:
        DataError: fewer than two are in all of them.
    """
    common = [number for number in next(iter(texts.values())) if all(number in t for t in texts.values())]
    if len(common) < 2:
        raise DataError(f"{task}: expected the same ids in {', '.join(texts)}, found {len(common)} in common")
    return common
