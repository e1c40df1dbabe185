"""Test sets that are parallel in many languages: every pair of languages, each text encoded once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from modenc.errors import DataError
from modenc.evaluation.bitext import Score, is_top1
from modenc.evaluation.retrieval import Vectors
from modenc.evaluation.significance import Items
from modenc.evaluation.sts import pair_cosines


class PairVectors(NamedTuple):
    """Vectors and gold scores of sentence pairs in one language."""

    first: Vectors
    """Vectors of ``sentence1`` [n, d]."""
    second: Vectors
    """Vectors of ``sentence2`` [n, d]."""
    gold: Sequence[float]
    """Gold scores [n], the same in all languages."""


def check_same_scores(task: str, languages: Mapping[str, PairVectors]) -> None:
    """Check that all languages have the same scores row by row, as translations of the same pairs have.

    Raises:
        DataError: two languages differ; the message names them and the row.
    """
    code, (_, _, gold) = next(iter(languages.items()))
    for lang, pairs in languages.items():
        if len(pairs.gold) != len(gold):
            raise DataError(
                f"{task}: expected the same rows in all languages, found {len(gold)} in {code!r} and "
                f"{len(pairs.gold)} in {lang!r}"
            )
        for number, (ours, theirs) in enumerate(zip(pairs.gold, gold, strict=True), start=1):
            if ours != theirs:
                raise DataError(
                    f"{task}: expected the same scores in all languages, found {theirs} in {code!r} and "
                    f"{ours} in {lang!r} in row {number}; put the rows in one order"
                )


def cross_lingual_cosines(languages: Mapping[str, PairVectors]) -> Iterator[tuple[tuple[str, str], Items]]:
    """Compare each two languages, in the order of ``languages``.

    Yields:
        Two codes, and rows [n, 3]: the cosine of the first language's ``sentence1`` with the second's
        ``sentence2``, that of the second's ``sentence1`` with the first's ``sentence2``, and the gold score.
    """
    for (code, left), (other, right) in combinations(languages.items(), 2):
        both = (pair_cosines(left.first, right.second), pair_cosines(right.first, left.second))
        yield (code, other), np.column_stack([*both, np.asarray(left.gold)]).astype(np.float64)


def to_ranks(items: Items) -> Items:
    """Replace the values of each column [n, k] by their ranks: equal for Spearman, a third to store."""
    return np.column_stack([rankdata(column, method="dense") for column in items.T]).astype(np.float64)


def top1_both_ways(left: Vectors, right: Vectors, score: Score) -> Items:
    """Return in what share of both directions [n, 1] row i of one side [n, d] finds row i of the other."""
    hits = np.column_stack([is_top1(left, right, score), is_top1(right, left, score)])
    return np.asarray(hits.mean(axis=1, keepdims=True), np.float64)


def common_ids(task: str, texts: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the ids that all languages' ``texts`` (language → id → text) have, in the first one's order.

    Raises:
        DataError: fewer than two ids are in all of them.
    """
    common = [number for number in next(iter(texts.values())) if all(number in t for t in texts.values())]
    if len(common) < 2:
        raise DataError(f"{task}: expected the same ids in {', '.join(texts)}, found {len(common)} in common")
    return common
