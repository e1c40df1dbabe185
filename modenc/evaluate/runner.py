"""Run a suite on a system: from test files to results with intervals."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from modenc.data.files import Row
from modenc.data.pairs import read_score
from modenc.data.readers import describe_source, read_rows, resolve_source
from modenc.errors import DataError
from modenc.evaluate.bitext import Score, found, hubness, mine
from modenc.evaluate.classification import TopicClassifier
from modenc.evaluate.geometry import (
    calinski_harabasz,
    invariance,
    isotropy,
    rsim,
    translation_map,
)
from modenc.evaluate.significance import Items, bootstrap_interval
from modenc.evaluate.sts import language_bias, pair_cosines
from modenc.evaluate.suite import ROLES, Kind, Suite, Task, check_files
from modenc.evaluate.systems import System
from modenc.recipe.settings import Source

logger = logging.getLogger(__name__)

Vectors = npt.NDArray[np.float32]

STATISTICS: dict[str, Callable[[Items], float]] = {
    "spearman": lambda items: float(spearmanr(items[:, 0], items[:, 1]).statistic * 100),
    "accuracy": lambda items: float(items.mean() * 100),
    "retrieval_accuracy": lambda items: float(items.mean() * 100),
    "zero_shot_accuracy": lambda items: float(items.mean() * 100),
    "xsim_error": lambda items: float(100 - items.mean() * 100),
    "xsim_error_cosine": lambda items: float(100 - items.mean() * 100),
}
"""Metrics that are statistics of a test set's items, and so have intervals and paired tests."""

MAP = "map"
"""Names the items that are no metric's: translations on a plane, see ``translation_map``."""

# More points hide each other.
_MAP_MEANINGS = 100

# With fewer there is no third to find and no noise around it.
_MINING_ROWS = 3
_SCORES: tuple[tuple[Score, str], ...] = (("margin", ""), ("cosine", "_cosine"))


@dataclass(frozen=True)
class Result:
    """One figure."""

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
        """Names the figure in files: ``task.metric.en-kk``."""
        return f"{self.task}.{self.metric}.{'-'.join(self.languages)}"


@dataclass
class Outcome:
    """All figures of a run, the items under them, and what was not there to measure."""

    results: list[Result] = field(default_factory=list)
    items: dict[str, Items] = field(default_factory=dict)
    """:attr:`Result.key` → rows [n, ...], for paired tests; and ``task.map.languages``, for its picture."""
    skipped: list[str] = field(default_factory=list)


def run_suite(system: System, suite: Suite, root: Path, *, seed: int) -> Outcome:
    """Measure a system on all of a suite's tasks.

    Args:
        system: what to judge.
        suite: what to judge it on.
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
    }
    for task in suite.task:
        logger.info("%s: %s (%s)", system.name, task.name, task.kind)
        measure[task.kind](task)
    run.language_biases()
    return run.outcome


class _Run:
    def __init__(self, system: System, root: Path, seed: int) -> None:
        self.system = system
        self.root = root
        self.seed = seed
        self.outcome = Outcome()
        self.vectors: dict[str, dict[str, Vectors]] = defaultdict(dict)
        self.cross: dict[str, list[tuple[Vectors, list[float]]]] = defaultdict(list)

    def encode(self, texts: list[str], lang: str) -> Vectors:
        known = self.vectors[lang]
        if new := list(dict.fromkeys(text for text in texts if text not in known)):
            known.update(zip(new, self.system.encode(new, lang), strict=True))
        return np.stack([known[text] for text in texts])

    def note(self, task: Task, metric: str, languages: tuple[str, ...], items: Items) -> None:
        statistic = STATISTICS[metric]
        interval = bootstrap_interval(items, statistic, seed=self.seed)
        result = Result(
            task.name, metric, languages, statistic(items), len(items), interval.low, interval.high
        )
        self.outcome.results.append(result)
        self.outcome.items[result.key] = items
        logger.info("  %s %.2f [%.2f, %.2f]", result.key, result.value, interval.low, interval.high)

    def note_plain(self, task: str, metric: str, languages: tuple[str, ...], value: float, n: int) -> None:
        self.outcome.results.append(Result(task, metric, languages, value, n))
        logger.info("  %s %.3f", self.outcome.results[-1].key, value)

    def rows(self, task: Task, source: Source, lang: str, pivot: str) -> list[Row] | None:
        """The rows of a test set; ``None`` where it is optional and not there."""
        resolved = resolve_source(source, lang, pivot)
        path = self.root / (resolved.path or "")
        if task.optional and resolved.path and not path.is_file():
            self.outcome.skipped.append(describe_source(resolved))
            logger.info("  not there, passed over: %s", describe_source(resolved))
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
            gold = [
                read_score(resolve_source(task.data, right, left), number, row["score"])
                for number, row in enumerate(rows, start=1)
            ]
            cosines = pair_cosines(
                self.encode([row["sentence1"] for row in rows], left),
                self.encode([row["sentence2"] for row in rows], right),
            )
            languages = (left,) if left == right else (left, right)
            self.note(task, "spearman", languages, np.column_stack([cosines, gold]))
            if left != right:
                self.cross[task.name].append((cosines, gold))

    def language_biases(self) -> None:
        for task, sets in self.cross.items():
            if len(sets) > 1:
                count = sum(len(gold) for _, gold in sets)
                self.note_plain(task, "language_bias", (), language_bias(sets), count)

    def bitext(self, task: Task) -> None:
        for left, right in task.language_pairs():
            rows = self.rows(task, task.data, right, left)
            if rows is None:
                continue
            a = self.encode([row["left"] for row in rows], left)
            b = self.encode([row["right"] for row in rows], right)
            hits = {
                score: np.column_stack([found(a, b, score), found(b, a, score)]).mean(axis=1, keepdims=True)
                for score, _ in _SCORES
            }
            self.note(task, "retrieval_accuracy", (left, right), hits["cosine"])
            for score, suffix in _SCORES:
                self.note(task, f"xsim_error{suffix}", (left, right), hits[score])
            both = (hubness(a, b) + hubness(b, a)) / 2
            self.note_plain(task.name, "hubness", (left, right), both, len(rows))
            if len(rows) < _MINING_ROWS:
                continue
            # A third of each side has its translation on the other side, the rest is noise.
            third = len(rows) // 3
            gold = {(third + i, i) for i in range(third)}
            for score, suffix in _SCORES:
                mining = mine(a[: 2 * third], b[third:], gold, score)
                self.note_plain(task.name, f"mining_f1{suffix}", (left, right), mining.f1, third)

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
                    hits = classifiers[fitted_on].right(*test).astype(np.float64)
                    self.note(task, metric, languages, hits[:, None])

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
        common = [number for number in next(iter(texts.values())) if all(number in t for t in texts.values())]
        if len(common) < 2:
            raise DataError(
                f"{task.name}: expected the same ids in {', '.join(texts)}, found {len(common)} in common"
            )
        vectors = {lang: self.encode([t[number] for number in common], lang) for lang, t in texts.items()}
        for left, right in combinations(vectors, 2):
            value = rsim(vectors[left], vectors[right])
            self.note_plain(task.name, "rsim", (left, right), value, len(common))
        languages, sides = tuple(vectors), list(vectors.values())
        note = partial(self.note_plain, task.name, languages=languages, n=len(common))
        note("invariance", value=invariance(sides))
        note("calinski_harabasz", value=calinski_harabasz(sides))
        note("isotropy", value=isotropy(np.concatenate(sides)))
        chosen = [side[:_MAP_MEANINGS] for side in sides]
        self.outcome.items[f"{task.name}.{MAP}.{'-'.join(languages)}"] = translation_map(chosen, self.seed)
