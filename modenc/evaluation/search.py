"""Search: how high a query's answers are ranked, within a language, across, and in one pool."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modenc.data.kinds import SearchRow
from modenc.evaluation.retrieval import Vectors, unit
from modenc.evaluation.sts import Items

DEPTH = 10
"""Passages that are looked at, from the first on."""

_QUERIES_AT_ONCE = 256


@dataclass(frozen=True)
class SearchSet:
    """Queries and passages of one language, each text once."""

    queries: list[str]
    passages: list[str]
    answers: list[set[int]]
    """Query → the passages that stand beside it in the data."""
    query_groups: list[set[str]]
    """Query → its groups, which name the same content in all languages."""
    passage_groups: list[set[str]]

    def answers_in(self, other: SearchSet) -> list[set[int]]:
        """Return query → the passages of another language with the same content."""
        rows_of: dict[str, set[int]] = {}
        for row, groups in enumerate(other.passage_groups):
            for group in groups:
                rows_of.setdefault(group, set()).add(row)
        return [set().union(*(rows_of.get(group, set()) for group in own)) for own in self.query_groups]


def make_search_set(rows: Iterable[SearchRow]) -> SearchSet:
    """Collect the distinct queries and passages of rows."""
    answers: dict[str, set[str]] = {}
    query_groups: dict[str, set[str]] = {}
    passage_groups: dict[str, set[str]] = {}
    for row in rows:
        answers.setdefault(row.query, set()).add(row.passage)
        for text, groups in ((row.query, query_groups), (row.passage, passage_groups)):
            groups.setdefault(text, set()).update([row.group] if row.group else [])
    place = {text: number for number, text in enumerate(passage_groups)}
    return SearchSet(
        [*answers],
        [*passage_groups],
        [{place[text] for text in own} for own in answers.values()],
        [*query_groups.values()],
        [*passage_groups.values()],
    )


def _ranked(queries: Vectors, passages: Vectors, depth: int) -> npt.NDArray[np.int64]:
    """Return the rows of the ``depth`` nearest passages [n, depth] of each query, the nearest first."""
    targets = unit(passages).T
    ranked = []
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        scores = unit(queries[start : start + _QUERIES_AT_ONCE]) @ targets
        ranked.append(np.argsort(-scores, axis=1, kind="stable")[:, :depth])
    return np.concatenate(ranked)


def search_metrics(
    queries: Vectors, passages: Vectors, answers: Sequence[Collection[int]]
) -> dict[str, Items]:
    """Rank passages by cosine, and score the ranking of each query.

    Args:
        queries: vectors [n, d].
        passages: vectors [m, d].
        answers: rows of ``passages`` that answer each query, at least one.

    Returns:
        Metric → a value from 0 to 1 for each query [n, 1]: ``ndcg_at_10`` (Järvelin and Kekäläinen, 2002,
        with gains of 1), ``accuracy_at_1``, and ``mrr_at_10``, one over the rank of the first answer.
    """
    found = _ranked(queries, passages, DEPTH)
    hits = np.array([[row in own for row in ranked] for ranked, own in zip(found, answers, strict=True)])
    ranks = np.arange(1, found.shape[1] + 1)
    discounts = 1 / np.log2(ranks + 1)
    best = np.cumsum(discounts)[[min(len(own), len(ranks)) - 1 for own in answers]]
    scores = {
        "ndcg_at_10": (hits * discounts).sum(axis=1) / best,
        "accuracy_at_1": hits[:, 0].astype(np.float64),
        "mrr_at_10": (hits / ranks).max(axis=1),
    }
    return {metric: values[:, None] for metric, values in scores.items()}


def pool_metrics(sets: Sequence[SearchSet], encoded: Sequence[tuple[Vectors, Vectors]]) -> dict[str, Items]:
    """Search all languages' passages at once.

    Args:
        sets: the languages' sets.
        encoded: vectors of each set's queries [n, d] and passages [m, d].

    Returns:
        Metric → 0 or 1 for each query that has an answer in another language [n, 1], empty if none has:
        ``pool_accuracy_at_1``, whether the first passage answers it, in whatever language;
        ``pool_own_language``, whether that passage is in the query's language.
    """
    passages = np.concatenate([vectors for _, vectors in encoded])
    starts = np.cumsum([0, *(len(one.passages) for one in sets)])
    hits, own_language = list[bool](), list[bool]()
    for place, (own, (queries, _)) in enumerate(zip(sets, encoded, strict=True)):
        across = {other: own.answers_in(one) for other, one in enumerate(sets) if other != place}
        first = _ranked(queries, passages, 1)[:, 0].tolist()
        for query, row in enumerate(first):
            if any(answers[query] for answers in across.values()):
                found = int(np.searchsorted(starts, row, side="right")) - 1
                answers = own.answers[query] if found == place else across[found][query]
                hits.append(row - int(starts[found]) in answers)
                own_language.append(found == place)
    if not hits:
        return {}
    metrics = {"pool_accuracy_at_1": hits, "pool_own_language": own_language}
    return {metric: np.array(values, dtype=np.float64)[:, None] for metric, values in metrics.items()}
