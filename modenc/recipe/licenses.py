"""Which sources ``data.licenses`` lets a recipe train on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from modenc.recipe.settings import DataSettings

TRAINED_ON = ("text", "paraphrases", "scored_pairs", "parallel", "cross_paraphrases", "cross_scored_pairs")
"""The lists of ``data`` that modules learn from; the others are development sets."""

# Before a list of several, as in "mixed: CC-BY-4.0, MIT".
_MIXED = re.compile(r"^\s*mixed\s*:\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)


def is_allowed(license_: str, licenses: Sequence[str]) -> bool:
    """Whether texts under ``license_`` may be trained on; every part of ``mixed: A, B`` must be on the list.

    Upper and lower case, spaces and hyphens make no difference. An empty list allows everything.
    """
    if not licenses:
        return True
    allowed = set(map(_key, licenses))
    parts = _parts(license_)
    return bool(parts) and all(_key(part) in allowed for part in parts)


def joint_license(licenses: Sequence[str]) -> str:
    """The license of several files: ``mixed: A, B`` where they differ, empty where one states none."""
    if not all(licenses):
        return ""
    if len(set(map(_key, licenses))) <= 1:
        return licenses[0] if licenses else ""
    parts: dict[str, str] = {}
    for license_ in licenses:
        for part in _parts(license_):
            parts.setdefault(_key(part), part)
    return f"mixed: {', '.join(parts.values())}"


def allowed_data(data: DataSettings) -> DataSettings:
    """``data`` without the sources that its ``licenses`` does not allow; development sets stay."""
    kept: dict[str, Any] = {
        role: tuple(source for source in getattr(data, role) if is_allowed(source.licence, data.licenses))
        for role in TRAINED_ON
    }
    return replace(data, **kept)


def _parts(license_: str) -> list[str]:
    return [part for part in _BETWEEN.split(_MIXED.sub("", license_)) if part]


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())
