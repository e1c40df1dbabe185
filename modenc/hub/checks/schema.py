"""Checking a JSON object against the dataclass it should become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import islice
from types import MappingProxyType
from typing import Any, get_origin, get_type_hints

from modenc.near import nearest

OPTIONAL = MappingProxyType({"optional": True})
"""Metadata of a field that an object may lack."""
_MOST_LISTED = 20


def key_faults(content: dict[str, Any], dataclass: type) -> Iterator[str]:
    """Missing keys, unknown keys and values of another type, one phrase each."""
    types = {name: get_origin(hint) or hint for name, hint in get_type_hints(dataclass).items()}
    wanted = [item.name for item in fields(dataclass)]
    needed = [item.name for item in fields(dataclass) if not item.metadata.get("optional")]
    yield from (f"missing key {name!r}" for name in needed if name not in content)
    for name, value in content.items():
        if name not in types:
            close = nearest(name, wanted)
            yield f"unknown key {name!r:.60}" + (f" (did you mean {close!r}?)" if close else "")
        elif not isinstance(value, types[name]) or isinstance(value, bool):
            yield f"{name}: expected {types[name].__name__}, found {value!r:.60}"


def listed(faults: Iterable[str]) -> str:
    """The first faults in a line, and that there are more; no more are looked for than are shown."""
    first = list(islice(faults, _MOST_LISTED + 1))
    return "; ".join(first if len(first) <= _MOST_LISTED else [*first[:_MOST_LISTED], "and more"])
