"""Checking a JSON object against the dataclass it should become."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from typing import Any, get_origin, get_type_hints


def key_faults(content: dict[str, Any], dataclass: type) -> list[str]:
    """Missing keys, unknown keys and values of another type, one phrase each."""
    types = {name: get_origin(hint) or hint for name, hint in get_type_hints(dataclass).items()}
    wanted = [item.name for item in fields(dataclass)]
    faults = [f"missing key {name!r}" for name in wanted if name not in content]
    for name, value in content.items():
        if name not in types:
            close = get_close_matches(name, wanted, n=1)
            faults.append(f"unknown key {name!r}" + (f" (did you mean {close[0]!r}?)" if close else ""))
        elif not isinstance(value, types[name]) or isinstance(value, bool):
            faults.append(f"{name}: expected {types[name].__name__}, found {value!r:.60}")
    return faults
