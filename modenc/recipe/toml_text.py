"""Writing tables as TOML text (the standard library only reads it)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from modenc.recipe.issues import Place

Comment = Callable[[Place], str | None]
"""What to say of the key at a path; None for nothing."""


def to_toml(tables: dict[str, Any], order: Sequence[str] = (), comment: Comment = lambda _: None) -> str:
    """TOML text of ``tables`` with the top-level keys in ``order``, then the others.

    Args:
        tables: what ``tomllib`` gives: tables, lists, strings, numbers, booleans.
        order: top-level keys that come first.
        comment: gives lines to put above a key or a table.
    """
    keys = [key for key in order if key in tables] + [key for key in tables if key not in order]
    lines = list(_table_lines({key: tables[key] for key in keys}, (), comment))
    return "\n".join(lines).strip() + "\n"


def _table_lines(table: dict[str, Any], path: Place, comment: Comment) -> Iterator[str]:
    """A table's plain keys, then its sub-tables, as TOML's grammar wants them."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    below = {key: value for key, value in table.items() if isinstance(value, dict)}
    if path and (plain or not below):
        yield ""
        yield from _comment_lines(comment(path))
        yield f"[{'.'.join(_key(str(part)) for part in path)}]"
    for key, value in plain.items():
        yield from _comment_lines(comment((*path, key)))
        yield f"{_key(key)} = {_list(value) if isinstance(value, list) else _value(value)}"
    for key, value in below.items():
        yield from _table_lines(value, (*path, key), comment)


def _comment_lines(text: str | None) -> Iterator[str]:
    for line in (text or "").splitlines():
        yield f"# {line}".rstrip()


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _list(values: list[Any]) -> str:
    if not any(isinstance(value, dict) for value in values):
        return _value(values)
    return "\n".join(["[", *(f"    {_value(value)}," for value in values), "]"])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, float):
        return repr(value)
    # JSON's texts are TOML's basic strings, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
