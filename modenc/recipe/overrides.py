"""``key=value`` overrides from the command line, applied to a recipe's tables."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from modenc.errors import LanguageError
from modenc.languages import normalize_code
from modenc.recipe.faults import Faults
from modenc.recipe.files import merge


def apply_overrides(tables: dict[str, Any], overrides: Sequence[str], faults: Faults) -> None:
    """Set each ``a.b=value`` in ``tables``; later ones win, and a table is merged key by key, as a file's is.

    An override of a section holds for every language, also where ``[languages.CODE]`` says otherwise:
    what is typed on the command line is meant. Values are TOML; a bare word is text.
    """
    for override in overrides:
        name, equals, raw = override.partition("=")
        keys = [key.strip() for key in name.split(".")]
        if not equals or not all(keys):
            faults.add((), f"override {override!r}: expected KEY=VALUE such as run.seed=1")
            continue
        value = parse_value(raw)
        if keys == ["languages"] and isinstance(value, dict):
            value = dict(zip(_normalized(list(value)), value.values(), strict=True))
        if keys[0] == "languages":
            keys[1:2] = _normalized(keys[1:2])
        elif isinstance(tables.get("languages"), dict):
            for language in tables["languages"].values():
                _discard(language, keys, value)
        if not _assign(tables, keys, value):
            faults.add((), f"override {override!r}: {name!r} lies below a value that is no table")


def parse_value(raw: str) -> Any:
    """A TOML value; what is none (a bare word, a path) is text."""
    try:
        parsed = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):  # also of numbers and lists that are too long
        return raw.strip()
    return parsed["value"] if len(parsed) == 1 else raw


def _normalized(codes: list[str]) -> list[str]:
    try:
        return [normalize_code(code) for code in codes]
    except LanguageError:
        return codes  # reported with its place when the languages are read


def _assign(tables: dict[str, Any], keys: list[str], value: Any) -> bool:
    for key in keys[:-1]:
        below = tables.get(key, {})
        if not isinstance(below, dict):
            return False
        # A copy: the table may be the defaults' own.
        tables[key] = tables = dict(below)
    tables |= merge(tables, {keys[-1]: value})
    return True


def _discard(tables: Any, keys: list[str], value: Any) -> None:
    """Remove the value at ``keys`` where there is one; of a table only what ``value`` has too."""
    for key in keys[:-1]:
        tables = tables.get(key) if isinstance(tables, dict) else None
    if not isinstance(tables, dict):
        return
    own = tables.get(keys[-1])
    if isinstance(own, dict) and isinstance(value, dict):
        for key, inner in value.items():
            _discard(own, [key], inner)
    else:
        tables.pop(keys[-1], None)
