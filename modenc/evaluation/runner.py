"""Run a suite on a system: from test files to results with intervals."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modenc.data.files import Row
from modenc.data.pairs import read_score
from modenc.data.readers import describe_source, read_rows, resolve_source
from modenc.errors import DataError
from modenc.evaluation.bitext import Score, hubness, mine
from modenc.evaluation.classification import TopicClassifier
from modenc.evaluation.geometry import (
    calinski_harabasz,
    invariance,
    isotropy,
    rsim,
    translation_map,
)
from modenc.evaluation.multiway import ScoredSides, all_pairs, check_rows, in_common, ranked, top1_both_ways
from modenc.evaluation.significance import Floats, Items, bootstrap_samples, interval_of, spearman_samples
from modenc.evaluation.sts import language_bias, mean_spearman, pair_cosines
from modenc.evaluation.suite import ROLES, Kind, Suite, Task, check_files
from modenc.evaluation.systems import System
from modenc.recipe.settings import Source

logger = logging.getLogger(__name__)

Vectors = npt.NDArray[np.float32]

STATISTICS: dict[str, Callable[[Items], float]] = {
    "spearman": mean_spearman,
    "accuracy": lambda items: float(items.mean() * 100),
    "retrieval_accuracy": lambda items: float(items.mean() * 100),
    "zero_shot_accuracy": lambda items: float(items.mean() * 100),
    "xsim_error": lambda items: float(100 - items.mean() * 100),
    "xsim_error_cosine": lambda items: float(100 - items.mean() * 100),
}
"""Metrics that are statistics of a test set's items, and so have intervals and paired tests."""


def metric_samples(metric: str, items: Items, seed: int) -> Floats:
    """What a metric of :data:`STATISTICS` is on resampled ``items`` [n, ...]: values [samples]."""
    if metric == "spearman":
        return spearman_samples(items, seed=seed)
    return bootstrap_samples(items, STATISTICS[metric], seed=seed)


MAP = "map"
"""Names the items that are no metric's: translations on a plane, see ``translation_map``."""

# More points hide each other.
_MAP_MEANINGS = 100

# With fewer there is no third to find and no noise around it.
_MINING_ROWS = 3
_SCORES: tuple[tuple[Score, str], ...] = (("margin", ""), ("cosine", "_cosine"))


@dataclass(frozen=True)
class Result:
    """One metric's value."""

    task: str
    metric: str
    languages: tuple[str, ...]
    """One language, the two of a pair, or all that a shape was measured on."""
    value: float
    n: int
    """Items that it rests on."""
    low: float | None = None
    """Lower end of the bootstrap 95 % interval; ``None`` where the metric has none."""
    high: float | None = None

    @property
    def key(self) -> str:
        """Names the value in files: ``task.metric.en-kk``."""
        return f"{self.task}.{self.metric}.{'-'.join(self.languages)}"


@dataclass
class Outcome:
    """All results of a run, the items that they rest on, and test sets that were not found."""

    results: list[Result] = field(default_factory=list)
    items: dict[str, Items] = field(default_factory=dict)
    """:attr:`Result.key` → rows [n, ...], for paired tests; and ``task.map.languages``, for its picture."""
    skipped: list[str] = field(default_factory=list)


def run_suite(system: System, suite: Suite, root: Path, *, seed: int) -> Outcome:
    """Measure a system on all of a suite's tasks.

    Args:
        system: what to evaluate.
        suite: what to evaluate it on.
        root: folder that the suite's paths start from.
        seed: of resampling and of the classifier.

    Raises:
        DataError: test files that are not optional are missing (all are named), or one cannot be read.
    """
    check_files(suite, root)
    run = _Run(system, root, seed)
    measure: dict[Kind, Callable[[Task], None]] = {
        "sts": run.sts,
        "bitext": run.bitext,
        "classification": run.classification,
        "geometry": run.geometry,
        "multiway_sts": run.multiway_sts,
        "multiway_bitext": run.multiway_bitext,
    }
    for task in suite.task:
        logger.info("%s: %s (%s)", system.name, task.name, task.kind)
        measure[task.kind](task)
    run.pairs_of_sts()
    run.pairs_of_bitext()
    run.language_biases()
    return run.outcome


class _Run:
    def __init__(self, system: System, root: Path, seed: int) -> None:
        self.system = system
        self.root = root
        self.seed = seed
        self.outcome = Outcome()
        self.vectors: dict[str, dict[str, Vectors]] = defaultdict(dict)
        self.cross: dict[str, list[tuple[Floats | Vectors, Floats | list[float]]]] = defaultdict(list)
        self.sides: dict[str, dict[str, ScoredSides]] = defaultdict(dict)
        self.parallel: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)

    def encode(self, texts: list[str], lang: str) -> Vectors:
        known = self.vectors[lang]
        if new := list(dict.fromkeys(text for text in texts if text not in known)):
            known.update(zip(new, self.system.encode(new, lang), strict=True))
        return np.stack([known[text] for text in texts])

    def record(self, task: str, metric: str, languages: tuple[str, ...], items: Items) -> None:
        interval = interval_of(metric_samples(metric, items, self.seed))
        value = STATISTICS[metric](items)
        result = Result(task, metric, languages, value, len(items), interval.low, interval.high)
        self.outcome.results.append(result)
        self.outcome.items[result.key] = items
        logger.info("  %s %.2f [%.2f, %.2f]", result.key, result.value, interval.low, interval.high)

    def record_value(self, task: str, metric: str, languages: tuple[str, ...], value: float, n: int) -> None:
        self.outcome.results.append(Result(task, metric, languages, value, n))
        logger.info("  %s %.3f", self.outcome.results[-1].key, value)

    def record_no_pairs(self, task: str, languages: Collection[str]) -> None:
        found = f"in {', '.join(languages)} alone" if languages else "in no language"
        self.outcome.skipped.append(f"pairs of {task} ({found})")
        logger.info("  no pairs of languages: %s %s", task, found)

    def rows(self, task: Task, source: Source, lang: str, pivot: str) -> list[Row] | None:
        """The rows of a test set; ``None`` where it is optional and not there."""
        resolved = resolve_source(source, lang, pivot)
        path = self.root / (resolved.path or "")
        if task.optional and resolved.path and not path.is_file():
            self.outcome.skipped.append(describe_source(resolved))
            logger.info("  not found, skipped: %s", describe_source(resolved))
            return None
        rows = list(read_rows(source, self.root, lang, pivot, roles=ROLES[task.kind]))
        if not rows:
            raise DataError(f"{describe_source(resolved)}: expected rows to evaluate on, found none")
        return rows

    def sts(self, task: Task) -> None:
        sets = [(lang, lang) for lang in task.languages] + task.language_pairs()
        for left, right in sets:
            rows = self.rows(task, task.data, right, left)
            if rows is None:
                continue
            gold = self.gold(task, rows, right, left)
            cosines = pair_cosines(
                self.encode([row["sentence1"] for row in rows], left),
                self.encode([row["sentence2"] for row in rows], right),
            )
            languages = (left,) if left == right else (left, right)
            self.record(task.name, "spearman", languages, np.column_stack([cosines, gold]))
            if left != right:
                self.cross[task.name].append((cosines, gold))

    def gold(self, task: Task, rows: list[Row], lang: str, pivot: str) -> list[float]:
        source = resolve_source(task.data, lang, pivot)
        return [read_score(source, number, row["score"]) for number, row in enumerate(rows, start=1)]

    def multiway_sts(self, task: Task) -> None:
        for lang in task.languages:
            rows = self.rows(task, task.data, lang, lang)
            if rows is None:
                continue
            first, second = (
                self.encode([row[side] for row in rows], lang) for side in ("sentence1", "sentence2")
            )
            sides = ScoredSides(first, second, self.gold(task, rows, lang, lang))
            self.sides[task.name][lang] = sides
            check_rows(task.name, self.sides[task.name])
            items = np.column_stack([pair_cosines(first, second), sides.gold])
            self.record(task.name, "spearman", (lang,), ranked(items))

    def pairs_of_sts(self) -> None:
        for task, languages in self.sides.items():
            if len(languages) < 2:
                self.record_no_pairs(task, languages)
            for codes, items in all_pairs(languages):
                self.record(task, "spearman", codes, ranked(items))
                self.cross[task] += [(cosines, items[:, -1]) for cosines in items[:, :-1].T]

    def language_biases(self) -> None:
        for task, sets in self.cross.items():
            if len(sets) > 1:
                count = sum(len(gold) for _, gold in sets)
                self.record_value(task, "language_bias", (), language_bias(sets), count)

    def bitext(self, task: Task) -> None:
        for left, right in task.language_pairs():
            rows = self.rows(task, task.data, right, left)
            if rows is None:
                continue
            a = self.encode([row["left"] for row in rows], left)
            b = self.encode([row["right"] for row in rows], right)
            self.record_retrieval(task.name, (left, right), a, b)
            both = (hubness(a, b) + hubness(b, a)) / 2
            self.record_value(task.name, "hubness", (left, right), both, len(rows))
            if len(rows) < _MINING_ROWS:
                continue
            # A third of each side has its translation on the other side, the rest is noise.
            third = len(rows) // 3
            gold = {(third + i, i) for i in range(third)}
            for score, suffix in _SCORES:
                mining = mine(a[: 2 * third], b[third:], gold, score)
                self.record_value(task.name, f"mining_f1{suffix}", (left, right), mining.f1, third)

    def record_retrieval(self, task: str, languages: tuple[str, str], left: Vectors, right: Vectors) -> None:
        hits = {score: top1_both_ways(left, right, score) for score, _ in _SCORES}
        self.record(task, "retrieval_accuracy", languages, hits["cosine"])
        for score, suffix in _SCORES:
            self.record(task, f"xsim_error{suffix}", languages, hits[score])

    def multiway_bitext(self, task: Task) -> None:
        for lang in task.languages:
            rows = self.rows(task, task.data, lang, lang)
            texts = self.parallel[task.name].setdefault(lang, {})
            for row in rows or ():
                if texts.setdefault(row["id"], row["text"]) != row["text"]:
                    raise DataError(
                        f"{describe_source(resolve_source(task.data, lang, lang))}: expected one text for "
                        f"each id of {task.name} in {lang!r}, found {row['id']!r} with another text; give "
                        "ids that differ between files"
                    )

    def pairs_of_bitext(self) -> None:
        for task, measured in self.parallel.items():
            texts = {lang: found for lang, found in measured.items() if found}
            if len(texts) < 2:
                self.record_no_pairs(task, texts)
                continue
            common = in_common(task, texts)
            vectors = {lang: self.encode([t[number] for number in common], lang) for lang, t in texts.items()}
            for left, right in combinations(vectors, 2):
                self.record_retrieval(task, (left, right), vectors[left], vectors[right])

    def classification(self, task: Task) -> None:
        assert task.train is not None
        assert task.dev is not None
        classifiers = {}
        for lang in task.languages:
            fit, choose = (self.rows(task, source, lang, task.pivot) for source in (task.train, task.dev))
            if fit is not None and choose is not None:
                classifiers[lang] = TopicClassifier(
                    *self._labelled(fit, lang), *self._labelled(choose, lang), seed=self.seed
                )
        for lang in task.languages:
            rows = self.rows(task, task.data, lang, task.pivot)
            if rows is None:
                continue
            test = self._labelled(rows, lang)
            for metric, fitted_on in (("accuracy", lang), ("zero_shot_accuracy", task.pivot)):
                if fitted_on in classifiers and not (metric == "zero_shot_accuracy" and lang == task.pivot):
                    languages = (lang,) if fitted_on == lang else (fitted_on, lang)
                    hits = classifiers[fitted_on].is_correct(*test).astype(np.float64)
                    self.record(task.name, metric, languages, hits[:, None])

    def _labelled(self, rows: list[Row], lang: str) -> tuple[Vectors, list[str]]:
        return self.encode([row["text"] for row in rows], lang), [row["label"] for row in rows]

    def geometry(self, task: Task) -> None:
        texts: dict[str, dict[str, str]] = {}
        for lang in task.languages:
            rows = self.rows(task, task.data, lang, task.pivot)
            if rows is not None:
                texts[lang] = {row["id"]: row["text"] for row in rows}
        if len(texts) < 2:
            return
        common = in_common(task.name, texts)
        vectors = {lang: self.encode([t[number] for number in common], lang) for lang, t in texts.items()}
        for left, right in combinations(vectors, 2):
            value = rsim(vectors[left], vectors[right])
            self.record_value(task.name, "rsim", (left, right), value, len(common))
        languages, sides = tuple(vectors), list(vectors.values())
        note = partial(self.record_value, task.name, languages=languages, n=len(common))
        note("invariance", value=invariance(sides))
        note("calinski_harabasz", value=calinski_harabasz(sides))
        note("isotropy", value=isotropy(np.concatenate(sides)))
        chosen = [side[:_MAP_MEANINGS] for side in sides]
        self.outcome.items[f"{task.name}.{MAP}.{'-'.join(languages)}"] = translation_map(chosen, self.seed)
