"""Semantic textual similarity: Spearman correlation of cosines with gold scores, times 100."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata, spearmanr

from modenc.errors import DataError
from modenc.evaluation.retrieval import Vectors

Items = npt.NDArray[np.float64]
"""Rows [n, k], one for each item of a test set."""

_NEIGHBORS = 8


def pair_cosines(left: Vectors, right: Vectors) -> Vectors:
    """Return the cosines [n] of rows i of ``left`` [n, d] and ``right`` [n, d]."""
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: Vectors = (left * right).sum(axis=1) / np.maximum(norms, 1e-12)
    return cosines


def spearman(left: Vectors, right: Vectors, scores: npt.ArrayLike) -> float:
    """Correlate the rows' cosines with ``scores`` [n]: Spearman times 100."""
    return float(spearmanr(pair_cosines(left, right), np.asarray(scores)).statistic * 100)


def mean_spearman(items: Items) -> float:
    """Correlate each column of ``items`` [n, k] with the last: mean Spearman times 100."""
    ranks = rankdata(items, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # a constant has no correlation
        return float(np.corrcoef(ranks, rowvar=False)[-1, :-1].mean() * 100)


def cross_similarity(vectors: Vectors, pivot: Vectors) -> float:
    """Measure cross-lingual similarity without gold scores: cosines within the pivot take their place.

    Each sentence is compared with its own translation and with the eight nearest to that one. Spearman
    correlation, times 100, of these cosines with the cosines between the translations alone.

    Args:
        vectors: unit rows [n, d] of sentences.
        pivot: unit rows [n, d] of their translations.
    """
    within = pivot @ pivot.T
    near = np.argsort(-within, axis=1)[:, : _NEIGHBORS + 1]
    across = np.take_along_axis(vectors @ pivot.T, near, axis=1)
    return float(spearmanr(across.ravel(), np.take_along_axis(within, near, axis=1).ravel()).statistic * 100)


def language_bias(pairs: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]) -> float:
    """Compute what pooling several languages costs (Roy et al., 2020), on a scale of 100.

    It is the mean Spearman over the language pairs, each with cosines [n] and gold scores [n], minus Spearman
    over all of their items together.
    """
    each = [spearmanr(cosines, gold).statistic for cosines, gold in pairs]
    cosines, gold = (np.concatenate([np.asarray(pair[side]) for pair in pairs]) for side in (0, 1))
    return float((np.mean(each) - spearmanr(cosines, gold).statistic) * 100)


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
        DataError: two languages differ; the message names them.
    """
    code, (_, _, gold) = next(iter(languages.items()))
    for lang, pairs in languages.items():
        if list(pairs.gold) != list(gold):
            raise DataError(
                f"{task}: expected the same scores row by row in all languages, found others in {lang!r} "
                f"than in {code!r} ({len(pairs.gold)} and {len(gold)} rows); put the rows in one order"
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
