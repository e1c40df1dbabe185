"""Evaluation suites: TOML files that name test sets, their languages and their kind of task."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modenc.data.sources import Source, resolve_source
from modenc.errors import DataError, LanguageError, RecipeError
from modenc.languages import normalize_code
from modenc.recipe.files import find_shipped, read_toml, recipes_folder
from modenc.recipe.parse import Issue, Place, dotted, parse

TaskKind = Literal["sts", "bitext", "search", "classification", "geometry", "multiway_sts", "multiway_bitext"]

TASK_COLUMNS: dict[str, tuple[str, ...]] = {
    "sts": ("sentence1", "sentence2", "score"),
    "bitext": ("left", "right"),
    "search": ("query", "passage", "group"),
    "classification": ("text", "label"),
    "geometry": ("text", "id"),
    "multiway_sts": ("sentence1", "sentence2", "score"),
    "multiway_bitext": ("text", "id"),
}
"""The columns that each kind of task reads."""

_WITHOUT_PAIRS = ("classification", "geometry", "search", "multiway_sts", "multiway_bitext")
_OF_SEVERAL_FILES = ("search", "multiway_bitext")


@dataclass(frozen=True)
class Task:
    """One test set in one or more languages."""

    name: str
    """Name of the task in results."""
    kind: TaskKind
    """Kind of task. Tasks of the same name and kind are one test set: each adds languages or, for ``search``
    and ``multiway_bitext``, texts."""
    data: Source
    """Source of the test set. ``{lang}`` is the language or a pair's second, ``{pivot}`` a pair's first."""
    languages: tuple[str, ...] = ()
    """Languages with a test set each."""
    pairs: tuple[str, ...] = ()
    """Pairs of languages with a test set each, as ``first-second``."""
    train: Source | None = None
    """``classification``: source of the training set."""
    dev: Source | None = None
    """``classification``: source of the development set that the regularization is chosen on."""
    optional: bool = False
    """Whether missing files are skipped; the results name them."""

    def language_pairs(self) -> list[tuple[str, str]]:
        """Split ``pairs`` into tuples of codes."""
        return [(left, right) for left, _, right in (pair.partition("-") for pair in self.pairs)]

    def sets(self) -> list[tuple[str, str]]:
        """Return ``{pivot}`` and ``{lang}`` of each test set; they are the same for one language."""
        return [(lang, lang) for lang in self.languages] + self.language_pairs()


@dataclass(frozen=True)
class Suite:
    """A checked suite."""

    name: str
    """Name in results; by default the file's name."""
    task: tuple[Task, ...]
    """Tasks, a ``[[task]]`` each."""
    description: str = ""
    """Description for readers of the file."""


def suites_folder() -> Path:
    """Return the folder of the shipped suites."""
    return recipes_folder() / "suites"


def load_suite(name_or_path: str | Path) -> Suite:
    """Read and check a suite by path or shipped name.

    Raises:
        RecipeError: there is no such suite, or it has issues; the message lists all of them.
    """
    shipped = {file.stem: file for file in sorted(suites_folder().glob("*.toml"))}
    path = find_shipped(name_or_path, shipped, "suite")
    issues: list[Issue] = []
    suite = parse(Suite, {"name": path.stem, **read_toml(path)}, (), issues)
    if not issues:
        issues += _suite_issues(suite)
    if issues:
        lines = dict.fromkeys(f"  {dotted(issue.path)}: {issue.message}" for issue in issues)
        raise RecipeError("\n".join([f"suite {path.stem!r} has {len(lines)} issue(s):", *lines]))
    return suite


def check_files(suite: Suite, root: Path) -> None:
    """Check that all test files are there before anything is measured.

    Raises:
        DataError: files are missing; the message lists all of them, each with its task.
    """
    absent: dict[str, str] = {}
    for task in suite.task:
        for source in (task.data, task.train, task.dev):
            if source is None or task.optional:
                continue
            for pivot, lang in task.sets():
                path = resolve_source(source, lang, pivot).path
                if path and not os.path.isfile(root / os.path.expanduser(path)):
                    absent.setdefault(path, task.name)
    if absent:
        lines = "\n".join(f"  {path} (task {name})" for path, name in absent.items())
        raise DataError(
            f"suite {suite.name!r}: expected its test files below '{root}', found {len(absent)} missing:\n"
            f"{lines}\nPut them there, give another --data, or set optional = true for their tasks"
        )


def _suite_issues(suite: Suite) -> Iterator[Issue]:
    if not suite.task:
        yield Issue(("task",), "expected tasks, found none; add a [[task]]")
    seen: set[tuple[str, str, str]] = set()
    for position, task in enumerate(suite.task):
        place = ("task", position)
        yield from _setting_issues(task, place)
        yield from _code_issues(task, place)
        for languages in (*task.languages, *task.pairs):
            if (task.name, task.kind, languages) in seen and task.kind not in _OF_SEVERAL_FILES:
                yield Issue(place, f"{task.name!r} has {languages!r} twice; give one of them another name")
            seen.add((task.name, task.kind, languages))


def _setting_issues(task: Task, place: Place) -> Iterator[Issue]:
    """Check that a task has what its kind of task uses, and nothing else."""
    if not task.languages and not task.pairs:
        yield Issue(place, "expected languages or pairs, found neither")
    if task.kind == "bitext" and task.languages:
        yield Issue((*place, "languages"), "'bitext' takes pairs such as \"en-kk\", found languages")
    if task.kind in _WITHOUT_PAIRS and task.pairs:
        yield Issue((*place, "pairs"), f"{task.kind!r} takes languages, found pairs")
    for key in ("train", "dev"):
        given = getattr(task, key) is not None
        if given != (task.kind == "classification"):
            message = f"needed for 'classification', and only there; this task is {task.kind!r}"
            yield Issue((*place, key), message)
    if not re.fullmatch(r"[\w-]+", task.name):
        yield Issue((*place, "name"), f"expected letters, digits, '_' and '-', found {task.name!r}")


def _code_issues(task: Task, place: Place) -> Iterator[Issue]:
    for pair, (left, right) in zip(task.pairs, task.language_pairs(), strict=True):
        if not left or not right:
            message = f"expected two codes with a hyphen between them, found {pair!r}"
            yield Issue((*place, "pairs"), message)
    codes = {*task.languages, *(code for pair in task.language_pairs() for code in pair if code)}
    for code in sorted(codes):
        try:
            normalize_code(code)
        except LanguageError as error:
            yield Issue(place, str(error))
