"""Run a suite on a system; each kind of task has a method, which calls ``record`` for each metric."""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from modenc.data.formats import Row
from modenc.data.kinds import SearchRow
from modenc.data.sources import Source, check_scores, describe_source, read_rows, resolve_source
from modenc.errors import DataError
from modenc.evaluation.bitext import Score, best_matches, hubness, mining_f1
from modenc.evaluation.geometry import calinski_harabasz, invariance, isotropy, rsim
from modenc.evaluation.results import Result, SystemResults, environment
from modenc.evaluation.retrieval import Vectors, unit
from modenc.evaluation.search import make_search_set, pool_metrics, search_metrics
from modenc.evaluation.significance import METRICS, percentile_interval, resample_metric
from modenc.evaluation.sts import Items, language_bias, pair_cosines, to_ranks
from modenc.evaluation.suite import TASK_COLUMNS, Suite, Task
from modenc.evaluation.systems import System

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
        DataError: a test file cannot be read.
    """
    started = time.perf_counter()
    run = _Run(system, root, seed)
    test_sets: dict[tuple[str, str], list[Task]] = {}
    for task in suite.task:
        test_sets.setdefault((task.name, task.kind), []).append(task)
    for (name, kind), tasks in test_sets.items():
        logger.info("%s: %s (%s)", system.name, name, kind)
        getattr(run, kind)(name, tasks)
    seconds = round(time.perf_counter() - started, 1)
    about = {"system": system.describe(), **environment()}
    return SystemResults(system.name, suite.name, seed, seconds, about, run.results, run.items, run.skipped)


class _Run:
    """Measurements of one system; the methods for tasks of one name are named like :data:`TaskKind`."""

    def __init__(self, system: System, root: Path, seed: int) -> None:
        self.system = system
        self.root = root
        self.seed = seed
        self.results: list[Result] = []
        self.items: dict[str, Items] = {}
        self.skipped: list[str] = []
        self.vectors: dict[str, dict[str, Vectors]] = defaultdict(dict)

    def encode(self, texts: list[str], lang: str) -> Vectors:
        known = self.vectors[lang]
        if new := list(dict.fromkeys(text for text in texts if text not in known)):
            known.update(zip(new, self.system.encode(new, lang), strict=True))
        return np.stack([known[text] for text in texts])

    def column(self, rows: list[Row], name: str, lang: str) -> Vectors:
        return self.encode([row[name] for row in rows], lang)

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

    def rows(self, task: Task, source: Source | None, lang: str, pivot: str) -> list[Row]:
        """Read the rows of a test set; none if it is optional and not there."""
        assert source is not None
        resolved = resolve_source(source, lang, pivot)
        path = self.root / os.path.expanduser(resolved.path or "")
        if task.optional and resolved.path and not path.is_file():
            self.skipped.append(describe_source(resolved))
            logger.info("  not found, skipped: %s", describe_source(resolved))
            return []
        roles = TASK_COLUMNS[task.kind]
        read = read_rows(resolved, self.root, roles)
        rows = list(check_scores(resolved, read) if "score" in roles else read)
        if not rows:
            raise DataError(f"{describe_source(resolved)}: expected rows to evaluate on, found none")
        return rows

    def sets(self, tasks: list[Task]) -> Iterator[tuple[str, str, list[Row]]]:
        """Yield pivot, language and rows of each test set that is there."""
        for task in tasks:
            for pivot, lang in task.sets():
                if rows := self.rows(task, task.data, lang, pivot):
                    yield pivot, lang, rows

    def sts(self, name: str, tasks: list[Task]) -> None:
        across = []
        for left, right, rows in self.sets(tasks):
            cosines = pair_cosines(
                self.column(rows, "sentence1", left), self.column(rows, "sentence2", right)
            )
            gold = _gold(rows)
            languages = (left,) if left == right else (left, right)
            self.record(name, "spearman", languages, np.column_stack([cosines, gold]))
            if left != right:
                across.append((cosines, gold))
        self.record_bias(name, across)

    def multiway_sts(self, name: str, tasks: list[Task]) -> None:
        sides: dict[str, list[Vectors]] = {}
        gold: list[float] = []
        for _, lang, rows in self.sets(tasks):
            sides[lang] = [self.column(rows, side, lang) for side in ("sentence1", "sentence2")]
            own = _gold(rows)
            gold = gold or own
            if own != gold:
                raise DataError(
                    f"{name}: expected the same scores row by row in all languages, found others in {lang!r} "
                    f"than in {next(iter(sides))!r} ({len(own)} and {len(gold)} rows); put the rows in one "
                    "order"
                )
            self.record(name, "spearman", (lang,), to_ranks(pair_cosines(*sides[lang]), gold))
        across = []
        for left, right in combinations(sides, 2):
            ways = [pair_cosines(sides[a][0], sides[b][1]) for a, b in ((left, right), (right, left))]
            self.record(name, "spearman", (left, right), to_ranks(*ways, gold))
            across += [(cosines, gold) for cosines in ways]
        self.record_bias(name, across)

    def record_bias(self, task: str, sets: list[tuple[Vectors, list[float]]]) -> None:
        """Record the language bias of the cosines and gold scores of two or more pairs of languages."""
        if len(sets) > 1:
            count = sum(len(gold) for _, gold in sets)
            self.record_value(task, "language_bias", (), language_bias(sets), count)

    def bitext(self, name: str, tasks: list[Task]) -> None:
        for left, right, rows in self.sets(tasks):
            a, b = unit(self.column(rows, "left", left)), unit(self.column(rows, "right", right))
            self.record_retrieval(name, (left, right), a, b)
            mean = (hubness(a, b) + hubness(b, a)) / 2
            self.record_value(name, "hubness", (left, right), mean, len(rows))
            if len(rows) < _MINING_ROWS:
                continue
            third = len(rows) // 3
            gold = {(third + i, i) for i in range(third)}
            for score, suffix in _SCORES:
                f1 = mining_f1(a[: 2 * third], b[third:], gold, score)
                self.record_value(name, f"mining_f1{suffix}", (left, right), f1, third)

    def record_retrieval(self, task: str, languages: tuple[str, str], left: Vectors, right: Vectors) -> None:
        """Record in what share of both directions unit row i [n, d] of one side misses row i of the other."""
        own = np.arange(len(left))
        for score, suffix in _SCORES:
            hits = np.column_stack([rows == own for _, rows in best_matches(left, right, score)])
            self.record(task, f"xsim_error{suffix}", languages, hits.mean(axis=1, keepdims=True))

    def multiway_bitext(self, name: str, tasks: list[Task]) -> None:
        vectors = self.parallel(name, tasks)
        for left, right in combinations(vectors, 2):
            self.record_retrieval(name, (left, right), unit(vectors[left]), unit(vectors[right]))

    def parallel(self, name: str, tasks: list[Task]) -> dict[str, Vectors]:
        """Encode the texts of the ids that all languages have, in one order; none for a single language.

        Raises:
            DataError: an id has two texts in one language, or fewer than two ids are in all languages.
        """
        texts: dict[str, dict[str, str]] = defaultdict(dict)
        for task in tasks:
            for lang in task.languages:
                for row in self.rows(task, task.data, lang, lang):
                    if texts[lang].setdefault(row["id"], row["text"]) != row["text"]:
                        raise DataError(
                            f"{describe_source(resolve_source(task.data, lang, lang))}: expected one text "
                            f"for each id of {name} in {lang!r}, found {row['id']!r} with another text; "
                            "give ids that differ between files"
                        )
        if len(texts) < 2:
            return {}
        first = next(iter(texts.values()))
        common = [number for number in first if all(number in by_id for by_id in texts.values())]
        if len(common) < 2:
            raise DataError(
                f"{name}: expected the same ids in {', '.join(texts)}, found {len(common)} in common"
            )
        return {lang: self.encode([own[number] for number in common], lang) for lang, own in texts.items()}

    def search(self, name: str, tasks: list[Task]) -> None:
        rows: dict[str, list[SearchRow]] = defaultdict(list)
        for _, lang, read in self.sets(tasks):
            rows[lang] += [SearchRow(*(row[role] for role in TASK_COLUMNS["search"])) for row in read]
        sets = {lang: make_search_set(read) for lang, read in rows.items()}
        encoded = {
            lang: (self.encode(one.queries, lang), self.encode(one.passages, lang))
            for lang, one in sets.items()
        }
        for left, right in [*zip(sets, sets, strict=True), *permutations(sets, 2)]:
            own = sets[left].answers if left == right else sets[left].answers_in(sets[right])
            if answered := [row for row, answers in enumerate(own) if answers]:
                queries, passages = encoded[left][0][answered], encoded[right][1]
                scores = search_metrics(queries, passages, [own[row] for row in answered])
                for metric, items in scores.items():
                    self.record(name, metric, (left,) if left == right else (left, right), items)
        if len(sets) > 1:
            for metric, items in pool_metrics([*sets.values()], [*encoded.values()]).items():
                self.record(name, metric, tuple(sets), items)

    def classification(self, name: str, tasks: list[Task]) -> None:
        classifiers = {}
        for task in tasks:
            for lang in task.languages:
                fit, choose = (self.rows(task, source, lang, lang) for source in (task.train, task.dev))
                if fit and choose:
                    classifiers[lang] = _fit_classifier(
                        *self._labeled(fit, lang), *self._labeled(choose, lang), seed=self.seed
                    )
        for _, lang, rows in self.sets(tasks):
            vectors, labels = self._labeled(rows, lang)
            for metric, fitted_on in (("accuracy", lang), ("zero_shot_accuracy", _TRAINED_ON)):
                if fitted_on in classifiers and not (metric == "zero_shot_accuracy" and lang == _TRAINED_ON):
                    languages = (lang,) if fitted_on == lang else (fitted_on, lang)
                    hits = classifiers[fitted_on].predict(unit(vectors)) == np.asarray(labels)
                    self.record(name, metric, languages, hits[:, None].astype(np.float64))

    def _labeled(self, rows: list[Row], lang: str) -> tuple[Vectors, list[str]]:
        return self.column(rows, "text", lang), [row["label"] for row in rows]

    def geometry(self, name: str, tasks: list[Task]) -> None:
        vectors = self.parallel(name, tasks)
        if not vectors:
            return
        languages, spaces = tuple(vectors), list(vectors.values())
        count = len(spaces[0])
        for left, right in combinations(vectors, 2):
            self.record_value(name, "rsim", (left, right), rsim(vectors[left], vectors[right]), count)
        self.record_value(name, "invariance", languages, invariance(spaces), count)
        self.record_value(name, "calinski_harabasz", languages, calinski_harabasz(spaces), count)
        self.record_value(name, "isotropy", languages, isotropy(np.concatenate(spaces)), count)


def _gold(rows: list[Row]) -> list[float]:
    return [float(row["score"]) for row in rows]


def _fit_classifier(
    train: Vectors, labels: Sequence[str], dev: Vectors, dev_labels: Sequence[str], *, seed: int
) -> LogisticRegression:
    """Fit a classifier of unit vectors on ``train`` [n, d]; ``dev`` [m, d] chooses its regularization."""
    fits = [
        LogisticRegression(C=value, max_iter=_ITERATIONS, random_state=seed).fit(unit(train), labels)
        for value in _INVERSE_REGULARIZATIONS
    ]
    return max(fits, key=lambda fit: float(fit.score(unit(dev), dev_labels)))
