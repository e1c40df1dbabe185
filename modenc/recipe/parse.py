"""Tables (of TOML or JSON) are parsed to dataclasses, by the dataclasses' type hints and ranges."""

from __future__ import annotations

import math
import os
import types
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from modenc.errors import closest_match
from modenc.recipe.issues import Issue, Place, unknown_keys

T = TypeVar("T")

INVALID: Any = object()
"""Result of parsing a wrong value."""

_ACCEPTED: dict[Any, tuple[type | tuple[type, ...], str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "text"),
    Path: (str, "a path as text"),
    tuple: (list, "a list"),
    dict: (dict, "a table"),
}
"""Type of a setting → types of its values in a file, and their name in messages."""

_type_hints = cache(partial(get_type_hints, include_extras=True))


def parse(cls: type[T], table: Any, path: Place, issues: list[Issue], fallback: Any = INVALID) -> T:
    """Make an instance of the dataclass ``cls`` from a table; errors are added to ``issues``, not raised.

    Args:
        cls: its fields are numbers (with a ``Range`` or without), texts, paths, booleans, ``Literal`` texts,
            other such dataclasses, and tuples and dictionaries of these. A bare text stands for a table with
            the one key ``cls.SHORTHAND``.
        table: the value in the file.
        path: its place in the file.
        issues: errors are added here.
        fallback: an instance whose values replace wrong or missing ones, so that the rest can still be
            checked; without it, and without a default, the result is ``INVALID``.
    """
    if isinstance(table, str) and (key := getattr(cls, "SHORTHAND", None)):
        table = {key: table}
    if not isinstance(table, dict):
        issues.append(Issue(path, f"expected a table, found {describe(table)}"))
        return cast(T, fallback)
    hints = _type_hints(cast(Any, cls))
    issues += unknown_keys(table, hints, path)
    values = {}
    for item in fields(cast(Any, cls)):
        value = default = _default(item, fallback)
        here = (*path, item.name)
        if item.name in table:
            value = _convert(hints[item.name], table[item.name], here, issues, default)
        elif default is INVALID:
            issues.append(Issue(here, "missing; this key has no default"))
        values[item.name] = default if value is INVALID else value
    return INVALID if INVALID in values.values() else cls(**values)


def describe(value: Any) -> str:
    """Format a value for an error message."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return repr(value)
    return f"a {'table' if isinstance(value, dict) else type(value).__name__}"


def _default(item: Field[Any], fallback: Any) -> Any:
    if is_dataclass(fallback):
        return getattr(fallback, item.name)
    if item.default_factory is not MISSING:
        return item.default_factory()
    return INVALID if item.default is MISSING else item.default


def _convert(hint: Any, value: Any, path: Place, issues: list[Issue], fallback: Any = INVALID) -> Any:
    """Convert ``value`` to the type ``hint``; after adding an error, return ``INVALID``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):  # a type or None, and no file has None
        return _convert(arguments[0], value, path, issues, fallback)
    if is_dataclass(hint):
        return parse(cast(type, hint), value, path, issues, fallback)
    if error := _error(hint, value):
        issues.append(Issue(path, error))
        return INVALID
    if origin is tuple:
        items = [_convert(arguments[0], item, (*path, number), issues) for number, item in enumerate(value)]
        return INVALID if INVALID in items else tuple(items)
    if origin is dict:
        table = {key: _convert(arguments[1], item, (*path, key), issues) for key, item in value.items()}
        return INVALID if INVALID in table.values() else table
    plain = arguments[0] if origin is Annotated else hint
    if plain is Path:
        return Path(os.path.expanduser(value))
    return float(value) if plain is float else value


def _error(hint: Any, value: Any) -> str | None:
    """Return the error of a value that is not of a type, without looking at its items; None if it is."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _error(arguments[0], value) or arguments[1].error(value)
    if origin is Literal:
        if value in arguments:
            return None
        match = closest_match(value, arguments) if isinstance(value, str) else None
        guess = f"; did you mean {match!r}?" if match else ""
        return f"expected one of {', '.join(map(repr, arguments))}, found {describe(value)}{guess}"
    accepted, words = _ACCEPTED[origin or hint]
    if not isinstance(value, accepted) or isinstance(value, bool) != (hint is bool):
        return f"expected {words}, found {describe(value)}{'; put it in [ ]' if origin is tuple else ''}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"expected a finite number, found {value}"
    return None
