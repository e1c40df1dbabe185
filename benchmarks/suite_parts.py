"""Part of a suite, for a hub that lacks some of its languages, and the fingerprint of a suite's tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from modenc.evaluation.suite import Suite


def restricted(suite: Suite, languages: Collection[str]) -> tuple[Suite, list[str]]:
    """Restrict a suite to these languages; returns it with the languages left out, sorted.

    So all results of a hub that lacks some languages come from its modules, and none from the fallback.
    """
    tasks, wanted = [], set()
    for task in suite.task:
        within = tuple(code for code in task.languages if code in languages)
        pairs = tuple(
            pair
            for pair, both in zip(task.pairs, task.language_pairs(), strict=True)
            if set(both) <= set(languages)
        )
        wanted |= {*task.languages, *(code for both in task.language_pairs() for code in both)}
        if within or pairs:
            tasks.append(replace(task, languages=within, pairs=pairs))
    return replace(suite, task=tuple(tasks)), sorted(wanted - set(languages))


def suite_fingerprint(suite: Suite) -> str:
    """Return the SHA-256, in hexadecimal, of a suite's tasks, without its name and description.

    Settings with default values are left out, so that new settings of tasks and sources do not change it.
    """
    text = json.dumps(_stated(suite.task), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _stated(value: Any) -> Any:
    """Convert to plain values, without settings that have their defaults."""
    if is_dataclass(value):
        found = {}
        for field in fields(value):
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if (given := getattr(value, field.name)) != default:
                found[field.name] = _stated(given)
        return found
    if isinstance(value, dict):
        return {key: _stated(item) for key, item in value.items()}
    return [_stated(item) for item in value] if isinstance(value, tuple | list) else value
