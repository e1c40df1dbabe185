"""Results that stay valid if only some languages of a hub change, so that only these are measured again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from modenc.evaluation.results import SystemResults
from modenc.evaluation.suite import Suite

_OF_EACH_LANGUAGE = ("modules", "dev_curves", "bytes")
# Older results lack these.
_ADDED = ("compute", "fallback", "prompt", "pooling", "max_length")


def changed_languages(stored: SystemResults, now: dict[str, Any]) -> set[str] | None:
    """Find the languages whose modules are not those of stored results.

    Args:
        stored: stored results of the system.
        now: the description of the system to be measured.

    Returns:
        ``None`` if everything must be measured again: something else differs, or something was skipped.
    """
    described = stored.about["system"]
    left_out = {*_OF_EACH_LANGUAGE, *(key for key in _ADDED if key not in described or key not in now)}
    shared = [
        {key: value for key, value in about.items() if key not in left_out} for about in (described, now)
    ]
    old, new = described.get("modules", {}), now.get("modules", {})
    if stored.skipped or shared[0] != shared[1] or old.keys() != new.keys():
        return None
    return {lang for lang in new if new[lang] != old[lang]}


def affected(suite: Suite, changed: set[str]) -> Suite:
    """Restrict a suite to what depends on the changed languages.

    Bitexts of other pairs do not. All other tasks of one name are measured together, since languages are
    compared in pairs and biases over all of them.
    """
    together = {
        task.name
        for task in suite.task
        if changed & {*task.languages, *(code for both in task.language_pairs() for code in both)}
    }
    tasks = []
    for task in suite.task:
        if task.kind == "bitext":
            pairs = zip(task.pairs, task.language_pairs(), strict=True)
            if kept := tuple(pair for pair, both in pairs if changed & set(both)):
                tasks.append(replace(task, pairs=kept))
        elif task.name in together:
            tasks.append(task)
    return replace(suite, task=tuple(tasks))


def merged(stored: SystemResults, new: SystemResults) -> SystemResults:
    """Put newly measured results in the place of stored ones, of which none were skipped."""
    results = {result.key: result for result in (*stored.results, *new.results)}
    return replace(new, results=list(results.values()), items={**stored.items, **new.items})
