"""From TOML tables to settings dataclasses, by the dataclasses' own type hints."""

from __future__ import annotations

import os
import types
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from modenc.near import nearest
from modenc.recipe.faults import Faults, Place, did_you_mean
from modenc.recipe.ranges import range_fault
from modenc.recipe.settings import Source

T = TypeVar("T")

_MOST_BITS = 64
_LONGEST = 4096

INVALID: Any = object()
"""What a conversion gives after it has noted a fault."""

SHORTHANDS: dict[type, str] = {Source: "path"}
"""Tables that may be written as a bare string, and the key it stands for."""


def build(cls: type[T], table: Any, path: Place, faults: Faults, fallback: dict[str, Any] | None = None) -> T:
    """An instance of the dataclass ``cls`` from a TOML table; faults are noted, not raised.

    A value with a fault is replaced by ``fallback``'s, so that the rest can still be checked; where
    there is none, the result is ``INVALID``.
    """
    if cls in SHORTHANDS and isinstance(table, str):
        table = {SHORTHANDS[cls]: table}
    if not isinstance(table, dict):
        faults.add(path, f"expected a table, found {describe(table)}")
        return cast(T, INVALID)
    hints = _type_hints(cast(Any, cls))
    for key in table:
        if key not in hints:
            hint = did_you_mean(key, hints)
            faults.add((*path, key), f"unknown key{hint}", meant=nearest(key, hints))
    values = {
        field.name: _field_value(field, hints[field.name], table, (path, faults, fallback or {}))
        for field in fields(cast(Any, cls))
    }
    if any(value is INVALID for value in values.values()):
        return cast(T, INVALID)
    return cls(**values)


@cache
def _type_hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def describe(value: Any) -> str:
    """A value as an error message shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # which Python may refuse to write
        return f"a number of {value.bit_length()} bits"
    return f"{value!r:.200}" if isinstance(value, str | int | float) else f"a {type(value).__name__}"


def too_long(text: str) -> str | None:
    """Why a text cannot be a setting, or None if it can: no system takes a longer path."""
    return f"expected at most {_LONGEST} characters, found {len(text)}" if len(text) > _LONGEST else None


def _field_value(
    field: Field[Any], hint: Any, table: dict[str, Any], context: tuple[Place, Faults, dict[str, Any]]
) -> Any:
    path, faults, fallback = context
    here, below = (*path, field.name), fallback.get(field.name)
    if field.name in table:
        value = _convert(hint, table[field.name], here, faults, below if isinstance(below, dict) else None)
        if value is not INVALID:
            return value
    elif field.default is MISSING and field.default_factory is MISSING:
        faults.add(here, "missing; this key has no default")
    if below is not None and table is not fallback:
        return _convert(hint, below, here, Faults())
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else INVALID


def _convert(
    hint: Any, value: Any, path: Place, faults: Faults, fallback: dict[str, Any] | None = None
) -> Any:
    """``value`` as the type ``hint``, or ``INVALID`` with the fault noted."""
    if is_dataclass(hint):
        return build(cast(type, hint), value, path, faults, fallback)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _convert(next(a for a in arguments if a is not type(None)), value, path, faults)
    if origin is Literal:
        return _convert_choice(arguments, value, path, faults)
    if origin is tuple:
        return _convert_list(arguments[0], value, path, faults)
    if origin is dict:
        return _convert_mapping(arguments[1], value, path, faults)
    return _convert_scalar(hint, value, path, faults)


def _convert_choice(choices: tuple[Any, ...], value: Any, path: Place, faults: Faults) -> Any:
    if isinstance(value, str) and value in choices:
        return value
    match = nearest(value, choices) if isinstance(value, str) else None
    expected = ", ".join(repr(choice) for choice in choices)
    hint = f"; did you mean {match!r}?" if match else ""
    faults.add(path, f"expected one of {expected}, found {describe(value)}{hint}")
    return INVALID


def _convert_list(hint: Any, value: Any, path: Place, faults: Faults) -> Any:
    if not isinstance(value, list):
        faults.add(path, f"expected a list, found {describe(value)}; put it in [ ]")
        return INVALID
    items = [_convert(hint, item, (*path, position), faults) for position, item in enumerate(value)]
    return INVALID if INVALID in items else tuple(items)


def _convert_mapping(hint: Any, value: Any, path: Place, faults: Faults) -> Any:
    if not isinstance(value, dict):
        faults.add(path, f"expected a table, found {describe(value)}")
        return INVALID
    items = {key: _convert(hint, item, (*path, key), faults) for key, item in value.items()}
    return INVALID if INVALID in items.values() else items


_SCALARS: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "text"),
    Path: ((str,), "a path as text"),
}


def _convert_scalar(hint: type, value: Any, path: Place, faults: Faults) -> Any:
    accepted, words = _SCALARS[hint]
    huge = isinstance(value, int) and value.bit_length() > _MOST_BITS
    if huge or not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
        faults.add(path, f"expected {words}, found {describe(value)}")
        return INVALID
    if isinstance(value, str) and (fault := too_long(value)):
        faults.add(path, fault)
        return INVALID
    if isinstance(value, int | float) and hint in (int, float):
        fault = range_fault(str(path[-1]), value)
        if fault is not None:
            faults.add(path, fault)
            return INVALID
    return Path(os.path.expanduser(str(value))) if hint is Path else hint(value)
