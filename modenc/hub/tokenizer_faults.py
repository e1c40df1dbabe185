"""What a tokenizer from elsewhere may not hold: more than it needs, or expressions that never end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modenc.errors import HubError
from modenc.hub.files import read_json

_MOST_BYTES = {
    "tokenizer.json": 1 << 25,
    "tokenizer_config.json": 1 << 20,
    "special_tokens_map.json": 1 << 20,
}
"""File → bytes; no other file is read."""
_MOST_ADDED = 10_000
# Backtracking is bounded where no group is repeated and little else is without end.
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+?{]")
_ENDLESS = re.compile(r"(?<!\\)[*+]|\{\d+,\}")
_MOST_ENDLESS = 2


def tokenizer_faults(folder: Path) -> Iterator[tuple[str, str]]:
    """(file, message) for everything in a tokenizer's folder that could take time or memory without bound."""
    for path in sorted(folder.iterdir()):
        if path.name not in _MOST_BYTES:
            yield path.name, f"expected {', '.join(_MOST_BYTES)} alone, found another file; delete it"
            continue
        try:
            content = read_json(path, _MOST_BYTES[path.name])
        except HubError as error:
            yield path.name, str(error)
        else:
            yield from ((path.name, message) for message in _content_faults(content))


def _content_faults(content: dict[str, Any]) -> Iterator[str]:
    for key in ("added_tokens", "added_tokens_decoder"):
        count = len(content[key]) if isinstance(content.get(key), list | dict) else 0
        if count > _MOST_ADDED:
            yield f"{key}: expected at most {_MOST_ADDED} tokens, found {count}"
    # The vocabulary is by far the largest part, and has no expressions.
    parts = [value for key, value in content.items() if key not in ("model", "added_tokens")]
    for expression in _expressions(parts):
        if _REPEATED_GROUP.search(expression) or len(_ENDLESS.findall(expression)) > _MOST_ENDLESS:
            yield f"expected regular expressions without repeated groups, found {expression!r:.80}"


def _expressions(content: Any) -> Iterator[str]:
    """Every regular expression in a tokenizer's settings, however deep."""
    waiting = [content]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            if isinstance(part.get("Regex"), str):
                yield part["Regex"]
            waiting += part.values()
