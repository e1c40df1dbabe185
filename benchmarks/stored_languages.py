"""Stored results of ``languages.py``: means over test sets, and changes from the base, with intervals."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from modenc.errors import DataError
from modenc.evaluation.results import SystemResults, load_results
from modenc.evaluation.significance import Floats, percentile_interval, resample_metric

SUITES = ("eighteen", "seven", "search_dev", "topics")
"""Suites of the published results; the first must be stored, the others may be."""

SYSTEMS = ("base", "no_align", "align")
"""The base, the hub's modules without alignment, and with it."""

# Their rows are translations of each other, and are drawn together; other test sets differ between languages.
_TRANSLATED = ("stsb", "kardes", "sib")
# STS-B lacks two rows in Arabic and six in Czech.
_OWN_ROWS = ("stsb.spearman.ar", "stsb.spearman.cs")

ORDER = (
    *("en", "de", "nl", "fr", "es", "it", "pt", "pl", "cs", "ru", "ja", "ko", "zh"),
    *("tr", "az", "uz", "kk", "ky", "ug", "ar", "am", "ha", "rw", "mr", "te"),
)
"""Languages in tables and pictures, relatives beside each other; others follow."""


@dataclass(frozen=True)
class Figure:
    """A mean over test sets, or a change of one, with its 95 % interval."""

    value: float
    low: float
    high: float
    sets: int

    @property
    def sure(self) -> bool:
        """Whether the interval is on one side of 0."""
        return self.low > 0 or self.high < 0


@dataclass
class StoredSystem:
    """Results of one system and their values on resampled items."""

    run: SystemResults
    _samples: dict[str, Floats] = field(default_factory=dict)

    def keys(self, task: str | None, metric: str, languages: int, lang: str | None = None) -> list[str]:
        """List the keys of a task's results in so many languages, or only those with ``lang``.

        ``None`` for the task: those of all tasks.
        """
        return [
            result.key
            for result in self.run.results
            if (result.metric, len(result.languages)) == (metric, languages)
            and task in (None, result.task)
            and (lang is None or lang in result.languages)
        ]

    def value(self, key: str) -> float:
        """Return the value of a result.

        Raises:
            KeyError: it is not stored.
        """
        result = self.run.find(key)
        if result is None:
            raise KeyError(key)
        return result.value

    def samples(self, key: str) -> Floats:
        """Values [samples] on resampled items; rows that are translations are drawn together."""
        if key not in self._samples:
            task, metric, languages = key.split(".")
            together = task in _TRANSLATED and key not in _OWN_ROWS
            seed = self.run.seed if together else zlib.crc32(languages.encode())
            self._samples[key] = resample_metric(metric, self.run.items[key], seed)
        return self._samples[key]

    def mean(self, keys: Sequence[str]) -> Figure:
        """Average results."""
        sampled = np.mean([self.samples(key) for key in keys], axis=0)
        value = float(np.mean([self.value(key) for key in keys]))
        return Figure(value, *percentile_interval(sampled), len(keys))

    def change(self, other: StoredSystem, keys: Sequence[str]) -> Figure:
        """Subtract another system's mean on the same items."""
        gaps = [self.samples(key) - other.samples(key) for key in keys]
        value = float(np.mean([self.value(key) - other.value(key) for key in keys]))
        return Figure(value, *percentile_interval(np.mean(gaps, axis=0)), len(keys))


@dataclass(frozen=True)
class Stored:
    """The base and what has been measured of a hub's modules."""

    base: StoredSystem
    modules: dict[str, StoredSystem]
    """``no_align`` and ``align``, those that are stored."""

    @staticmethod
    def load(results: Path) -> Stored:
        """Read what ``languages.py`` stored below ``results``, all suites together.

        Raises:
            SystemExit: the base was not measured, modules on another suite or in another precision, or other
                modules on one suite than on another.
        """
        systems: dict[str, SystemResults] = {}
        for suite in SUITES:
            if suite != SUITES[0] and not (results / suite).is_dir():
                continue
            try:
                found = {"base": load_results(results / suite / "base")}
            except DataError as error:
                raise SystemExit(
                    f"{error}; run benchmarks/languages.py --suite {suite} --data DIR"
                ) from error
            for name in SYSTEMS[1:]:
                if (results / suite / name / "results.json").is_file():
                    found[name] = load_results(results / suite / name)
                    _check_alike(f"{suite}/{name}", found[name], f"{suite}/base", found["base"], _OF_A_SUITE)
            for name, run in found.items():
                if name not in systems:
                    systems[name] = run
                    continue
                known = systems[name]
                _check_alike(f"{suite}/{name}", run, f"{known.suite}/{name}", known, _OF_A_HUB)
                systems[name] = replace(
                    known,
                    results=(*known.results, *run.results),
                    items={**known.items, **run.items},
                    about={**known.about, "system": _together(known, run)},
                )
        stored = {name: StoredSystem(run) for name, run in systems.items()}
        return Stored(stored.pop("base"), stored)

    def shared(self, task: str | None, metric: str, languages: int, lang: str | None = None) -> list[str]:
        """Figures that all stored systems have, as :meth:`StoredSystem.keys` picks them."""
        return [
            key
            for key in self.base.keys(task, metric, languages, lang)
            if all(system.run.find(key) for system in self.modules.values())
        ]

    def languages(self) -> list[str]:
        """Return the languages of the hub or, if no modules are stored, of the base's results."""
        about = [system.run.about["system"] for system in self.modules.values()]
        codes = {code for system in about for code in system["modules"]}
        if not codes:
            codes = {code for result in self.base.run.results for code in result.languages}
        return in_order(codes)

    def left_out(self) -> list[str]:
        """Return the languages of the suite that the hub lacks."""
        about = [system.run.about["system"] for system in self.modules.values()]
        return in_order({code for system in about for code in system["left_out"]})


_OF_A_SUITE = ("precision", "suite_sha256")
_OF_A_HUB = ("base", "modules")
_OF_LANGUAGES = ("modules", "bytes")


def _measured(run: SystemResults) -> set[str]:
    return {code for result in run.results for code in result.languages}


def _together(first: SystemResults, second: SystemResults) -> dict[str, Any]:
    """Describe a system measured on two suites, the second's languages as the second has them.

    A hub may have got more languages, or newer ones, between them.
    """
    ours, theirs = first.about["system"], second.about["system"]
    measured = _measured(second)
    both = {}
    for key in _OF_LANGUAGES:
        if key in ours:
            newer = {code: value for code, value in theirs[key].items() if code in measured}
            both[key] = {**theirs[key], **ours[key], **newer}
    return {**ours, **both}


def _check_alike(
    name: str, run: SystemResults, other_name: str, other: SystemResults, keys: Sequence[str]
) -> None:
    for key in keys:
        ours, theirs = (each.about["system"].get(key) for each in (run, other))
        if isinstance(ours, dict) and isinstance(theirs, dict):
            both = ours.keys() & theirs.keys() & _measured(run) & _measured(other)
            ours, theirs = ({code: each[code] for code in both} for each in (ours, theirs))
        if ours != theirs:
            raise SystemExit(
                f"{name}: expected the {key} of {other_name}, {theirs!r}, found {ours!r}; "
                "measure both again with benchmarks/languages.py --data DIR"
            )


def in_order(codes: set[str]) -> list[str]:
    """Codes as :data:`ORDER` has them, others after them by name."""
    return sorted(codes, key=lambda code: (ORDER.index(code) if code in ORDER else len(ORDER), code))
