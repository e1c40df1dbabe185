"""Run a suite on a system; each kind of task has a method, which calls ``record`` for each metric."""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from modenc.data.formats import Row
from modenc.data.kinds import SearchRow
from modenc.data.sources import describe_source, read_rows, read_score, resolve_source
from modenc.errors import DataError
from modenc.evaluation.bitext import Score, hubness, is_top1, mining_scores
from modenc.evaluation.geometry import calinski_harabasz, invariance, isotropy, rsim
from modenc.evaluation.results import Result, SystemResults, environment
from modenc.evaluation.retrieval import Vectors, unit
from modenc.evaluation.search import make_search_set, pool_metrics, search_metrics
from modenc.evaluation.significance import METRICS, Floats, percentile_interval, resample_metric
from modenc.evaluation.sts import (
    Items,
    PairVectors,
    check_same_scores,
    cross_lingual_cosines,
    language_bias,
    pair_cosines,
    to_ranks,
)
from modenc.evaluation.suite import TASK_COLUMNS, Suite, Task, check_files
from modenc.evaluation.systems import System
from modenc.recipe.settings import Source

logger = logging.getLogger(__name__)

# The first third of the left side and the last third of the right side have no translation.
_MINING_ROWS = 3
_SCORES: tuple[tuple[Score, str], ...] = (("margin", ""), ("cosine", "_cosine"))

# Of topic classifiers, by logistic regression; the zero-shot one is trained on English.
_TRAINED_ON = "en"
_INVERSE_REGULARIZATIONS = (0.1, 1.0, 10.0, 100.0)
_ITERATIONS = 2000


def run_suite(system: System, suite: Suite, root: Path, *, seed: int) -> SystemResults:
    """Measure a system on all of a suite's tasks, whose paths start from the folder ``root``.

    Raises:
        DataError: test files that are not optional are missing (all are named), or one cannot be read.
    """
    check_files(suite, root)
    started = time.perf_counter()
    run = _Run(system, root, seed)
    for task in suite.task:
        logger.info("%s: %s (%s)", system.name, task.name, task.kind)
        getattr(run, task.kind)(task)
    run.cross_lingual_sts()
    run.cross_lingual_bitext()
    run.searches()
    run.language_biases()
    seconds = round(time.perf_counter() - started, 1)
    about = {"system": system.describe(), **environment()}
    return SystemResults(system.name, suite.name, seed, seconds, about, run.results, run.items, run.skipped)


class _Run:
    """Measurements of one system; the methods for tasks are named like :data:`TaskKind`."""

    def __init__(self, system: System, root: Path, seed: int) -> None:
        self.system = system
        self.root = root
        self.seed = seed
        self.results: list[Result] = []
        self.items: dict[str, Items] = {}
        self.skipped: list[str] = []
        self.vectors: dict[str, dict[str, Vectors]] = defaultdict(dict)
        self.cross_lingual: dict[str, list[tuple[Floats | Vectors, Floats | list[float]]]] = defaultdict(list)
        self.multiway_pairs: dict[str, dict[str, PairVectors]] = defaultdict(dict)
        self.search_rows: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        self.multiway_texts: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)

    def encode(self, texts: list[str], lang: str) -> Vectors:
        known = self.vectors[lang]
        if new := list(dict.fromkeys(text for text in texts if text not in known)):
            known.update(zip(new, self.system.encode(new, lang), strict=True))
        return np.stack([known[text] for text in texts])

    def column(self, rows: list[Row], name: str, lang: str) -> Vectors:
        return self.encode([row[name] for row in rows], lang)

    def encode_common(self, task: str, texts: Mapping[str, Mapping[str, str]]) -> dict[str, Vectors]:
        """Encode the texts (language → id → text) of the ids that all languages have, in one order.

        Raises:
            DataError: fewer than two ids are in all of them.
        """
        first = next(iter(texts.values()))
        common = [number for number in first if all(number in by_id for by_id in texts.values())]
        if len(common) < 2:
            raise DataError(
                f"{task}: expected the same ids in {', '.join(texts)}, found {len(common)} in common"
            )
        return {lang: self.encode([t[number] for number in common], lang) for lang, t in texts.items()}

    def record(self, task: str, metric: str, languages: tuple[str, ...], items: Items) -> None:
        """Add a metric of items [n, k], as :data:`METRICS` computes it, with its interval."""
        low, high = percentile_interval(resample_metric(metric, items, self.seed))
        result = Result(task, metric, languages, METRICS[metric](items), len(items), low, high)
        self.results.append(result)
        self.items[result.key] = items
        logger.info("  %s %.2f [%.2f, %.2f]", result.key, result.value, low, high)

    def record_value(self, task: str, metric: str, languages: tuple[str, ...], value: float, n: int) -> None:
        """Add a metric without an interval, measured on ``n`` items."""
        self.results.append(Result(task, metric, languages, value, n))
        logger.info("  %s %.3f", self.results[-1].key, value)

    def rows(self, task: Task, source: Source, lang: str, pivot: str) -> list[Row]:
        """Read the rows of a test set; none if it is optional and not there."""
        resolved = resolve_source(source, lang, pivot)
        path = self.root / os.path.expanduser(resolved.path or "")
        if task.optional and resolved.path and not path.is_file():
            self.skipped.append(describe_source(resolved))
            logger.info("  not found, skipped: %s", describe_source(resolved))
            return []
        rows = list(read_rows(source, self.root, lang, pivot, roles=TASK_COLUMNS[task.kind]))
        if not rows:
            raise DataError(f"{describe_source(resolved)}: expected rows to evaluate on, found none")
        return rows

    def sts(self, task: Task) -> None:
        sets = [(lang, lang) for lang in task.languages] + task.language_pairs()
        for left, right in sets:
            rows = self.rows(task, task.data, right, left)
            if not rows:
                continue
            gold = self.gold(task, rows, right, left)
            first, second = self.column(rows, "sentence1", left), self.column(rows, "sentence2", right)
            cosines = pair_cosines(first, second)
            languages = (left,) if left == right else (left, right)
            self.record(task.name, "spearman", languages, np.column_stack([cosines, gold]))
            if left != right:
                self.cross_lingual[task.name].append((cosines, gold))

    def gold(self, task: Task, rows: list[Row], lang: str, pivot: str) -> list[float]:
        source = resolve_source(task.data, lang, pivot)
        return [read_score(source, number, row["score"]) for number, row in enumerate(rows, start=1)]

    def multiway_sts(self, task: Task) -> None:
        for lang in task.languages:
            rows = self.rows(task, task.data, lang, lang)
            if not rows:
                continue
            first, second = (self.column(rows, side, lang) for side in ("sentence1", "sentence2"))
            gold = self.gold(task, rows, lang, lang)
            self.multiway_pairs[task.name][lang] = PairVectors(first, second, gold)
            check_same_scores(task.name, self.multiway_pairs[task.name])
            items = np.column_stack([pair_cosines(first, second), gold])
            self.record(task.name, "spearman", (lang,), to_ranks(items))

    def cross_lingual_sts(self) -> None:
        for task, languages in self.multiway_pairs.items():
            for codes, items in cross_lingual_cosines(languages):
                self.record(task, "spearman", codes, to_ranks(items))
                self.cross_lingual[task] += [(cosines, items[:, -1]) for cosines in items[:, :-1].T]

    def language_biases(self) -> None:
        for task, sets in self.cross_lingual.items():
            if len(sets) > 1:
                count = sum(len(gold) for _, gold in sets)
                self.record_value(task, "language_bias", (), language_bias(sets), count)

    def bitext(self, task: Task) -> None:
        for left, right in task.language_pairs():
            rows = self.rows(task, task.data, right, left)
            if not rows:
                continue
            a, b = self.column(rows, "left", left), self.column(rows, "right", right)
            self.record_retrieval(task.name, (left, right), a, b)
            mean = (hubness(a, b) + hubness(b, a)) / 2
            self.record_value(task.name, "hubness", (left, right), mean, len(rows))
            if len(rows) < _MINING_ROWS:
                continue
            third = len(rows) // 3
            gold = {(third + i, i) for i in range(third)}
            for score, suffix in _SCORES:
                f1 = mining_scores(a[: 2 * third], b[third:], gold, score).f1
                self.record_value(task.name, f"mining_f1{suffix}", (left, right), f1, third)

    def record_retrieval(self, task: str, languages: tuple[str, str], left: Vectors, right: Vectors) -> None:
        """Record in what share of both directions row i of one side [n, d] misses row i of the other."""
        for score, suffix in _SCORES:
            both_ways = np.column_stack([is_top1(left, right, score), is_top1(right, left, score)])
            self.record(task, f"xsim_error{suffix}", languages, both_ways.mean(axis=1, keepdims=True))

    def multiway_bitext(self, task: Task) -> None:
        for lang in task.languages:
            texts = self.multiway_texts[task.name].setdefault(lang, {})
            for row in self.rows(task, task.data, lang, lang):
                if texts.setdefault(row["id"], row["text"]) != row["text"]:
                    raise DataError(
                        f"{describe_source(resolve_source(task.data, lang, lang))}: expected one text for "
                        f"each id of {task.name} in {lang!r}, found {row['id']!r} with another text; give "
                        "ids that differ between files"
                    )

    def cross_lingual_bitext(self) -> None:
        for task, languages in self.multiway_texts.items():
            texts = {lang: by_id for lang, by_id in languages.items() if by_id}
            if len(texts) < 2:
                continue
            vectors = self.encode_common(task, texts)
            for left, right in combinations(vectors, 2):
                self.record_retrieval(task, (left, right), vectors[left], vectors[right])

    def search(self, task: Task) -> None:
        for lang in task.languages:
            self.search_rows[task.name][lang] += self.rows(task, task.data, lang, lang)

    def searches(self) -> None:
        for task, rows in self.search_rows.items():
            sets = {
                lang: make_search_set(
                    SearchRow(*(row[role] for role in TASK_COLUMNS["search"])) for row in found
                )
                for lang, found in rows.items()
                if found
            }
            encoded = {
                lang: (self.encode(one.queries, lang), self.encode(one.passages, lang))
                for lang, one in sets.items()
            }
            for lang, one in sets.items():
                self.record_search(task, (lang,), *encoded[lang], one.answers)
            for left, right in permutations(sets, 2):
                answers = sets[left].answers_in(sets[right])
                self.record_search(task, (left, right), encoded[left][0], encoded[right][1], answers)
            if pool := pool_metrics([*sets.values()], [*encoded.values()]):
                for metric, items in pool.items():
                    self.record(task, metric, tuple(sets), items)

    def record_search(
        self,
        task: str,
        languages: tuple[str, ...],
        queries: Vectors,
        passages: Vectors,
        answers: list[set[int]],
    ) -> None:
        """Record the metrics of the queries that have an answer."""
        if rows := [row for row, own in enumerate(answers) if own]:
            scores = search_metrics(queries[rows], passages, [answers[row] for row in rows])
            for metric, items in scores.items():
                self.record(task, metric, languages, items)

    def classification(self, task: Task) -> None:
        assert task.train is not None
        assert task.dev is not None
        classifiers = {}
        for lang in task.languages:
            fit, choose = (self.rows(task, source, lang, lang) for source in (task.train, task.dev))
            if fit and choose:
                classifiers[lang] = _fit_classifier(
                    *self._labeled(fit, lang), *self._labeled(choose, lang), seed=self.seed
                )
        for lang in task.languages:
            rows = self.rows(task, task.data, lang, lang)
            if not rows:
                continue
            vectors, labels = self._labeled(rows, lang)
            for metric, fitted_on in (("accuracy", lang), ("zero_shot_accuracy", _TRAINED_ON)):
                if fitted_on in classifiers and not (metric == "zero_shot_accuracy" and lang == _TRAINED_ON):
                    languages = (lang,) if fitted_on == lang else (fitted_on, lang)
                    hits = classifiers[fitted_on].predict(unit(vectors)) == np.asarray(labels)
                    self.record(task.name, metric, languages, hits[:, None].astype(np.float64))

    def _labeled(self, rows: list[Row], lang: str) -> tuple[Vectors, list[str]]:
        return self.column(rows, "text", lang), [row["label"] for row in rows]

    def geometry(self, task: Task) -> None:
        texts: dict[str, dict[str, str]] = {}
        for lang in task.languages:
            if rows := self.rows(task, task.data, lang, lang):
                texts[lang] = {row["id"]: row["text"] for row in rows}
        if len(texts) < 2:
            return
        vectors = self.encode_common(task.name, texts)
        count = len(next(iter(vectors.values())))
        for left, right in combinations(vectors, 2):
            value = rsim(vectors[left], vectors[right])
            self.record_value(task.name, "rsim", (left, right), value, count)
        languages, spaces = tuple(vectors), list(vectors.values())
        record = partial(self.record_value, task.name, languages=languages, n=count)
        record("invariance", value=invariance(spaces))
        record("calinski_harabasz", value=calinski_harabasz(spaces))
        record("isotropy", value=isotropy(np.concatenate(spaces)))


def _fit_classifier(
    train: Vectors, labels: Sequence[str], dev: Vectors, dev_labels: Sequence[str], *, seed: int
) -> LogisticRegression:
    """Fit a classifier of unit vectors on ``train`` [n, d]; ``dev`` [m, d] chooses its regularization."""
    fits = [
        LogisticRegression(C=value, max_iter=_ITERATIONS, random_state=seed).fit(unit(train), labels)
        for value in _INVERSE_REGULARIZATIONS
    ]
    return max(fits, key=lambda fit: float(fit.score(unit(dev), dev_labels)))
