"""Reading, checking, hashing and listing the files of a hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from modenc.errors import HubError
from modenc.suggest import closest_match

MOST_JSON_BYTES = 1 << 24
"""Most bytes of a JSON file in a hub; larger ones would take minutes and gigabytes to read."""
_MOST_DEEP = 8
_MOST_LISTED = 20
# Greater integers cannot be converted to float.
_MOST_BITS = 1000


def json_object(content: str | bytes, where: str) -> dict[str, Any]:
    """Parse the JSON object in a file's content; ``where`` is the file's name for messages.

    Raises:
        HubError: it is something else.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HubError(f"{where}: expected readable JSON, found: {error}") from error
    if not isinstance(parsed, dict):
        raise HubError(f"{where}: expected a JSON object, found {type(parsed).__name__}")
    return parsed


def json_text(content: dict[str, Any] | list[Any]) -> str:
    """Write a value as the text of an indented JSON file."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # File names that are not UTF-8 contain surrogates, which JSON can escape.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def key_issues(
    content: dict[str, Any], kind: type, optional: Collection[str] = (), where: str = ""
) -> Iterator[str]:
    """Yield a message for each missing key, unknown key and value of another type than ``kind`` has.

    ``where`` is the prefix of the messages: the object's place in the file.
    """
    hints = get_type_hints(kind)
    yield from (f"{where}missing key {name!r}" for name in hints if name not in {*content, *optional})
    for name, value in content.items():
        if name in hints:
            yield from _value_issues(value, hints[name], f"{where}{name}")
        else:
            close = closest_match(name, hints)
            yield f"{where}unknown key {name!r:.60}" + (f" (did you mean {close!r}?)" if close else "")


def _value_issues(value: Any, hint: Any, where: str) -> Iterator[str]:
    if hint is Any:
        return
    kind: Any = dict if is_typeddict(hint) else get_origin(hint) or hint
    inner = get_args(hint)
    fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
    if not fits or (isinstance(value, int) and value.bit_length() > _MOST_BITS):
        yield f"{where}: expected {kind.__name__}, found {value!r:.60}"
    elif is_typeddict(hint):
        yield from key_issues(value, hint, where=f"{where}: ")
    elif kind is dict:
        for name, item in value.items():
            yield from _value_issues(item, inner[1], f"{where}.{name:.60}")
    elif kind is list:
        for position, item in enumerate(value):
            yield from _value_issues(item, inner[0], f"{where}[{position}]")


def listed(issues: Iterable[str]) -> str:
    """Join the first issues in one line; at most one more is computed than is shown."""
    first = list(islice(issues, _MOST_LISTED + 1))
    return "; ".join(first if len(first) <= _MOST_LISTED else [*first[:_MOST_LISTED], "and more"])


def read_text(path: Path) -> str:
    """Read the text of a small file.

    Raises:
        HubError: it is missing, unreadable, larger than :data:`MOST_JSON_BYTES` or not UTF-8.
    """
    try:
        # Opening a pipe would wait for its writer.
        if path.exists() and not path.is_file():
            raise HubError(f"{path}: expected a plain file, found a folder or special file")
        with path.open("rb") as stream:
            content = stream.read(MOST_JSON_BYTES + 1)
        if len(content) > MOST_JSON_BYTES:
            raise HubError(f"{path}: expected at most {MOST_JSON_BYTES >> 20} MB, found more")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HubError(f"{path}: expected a readable file, found: {error}") from error


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_below(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file, link and special file below a folder, as (relative POSIX path, path), sorted.

    Raises:
        HubError: folders are nested deeper than in any hub.
    """
    found = []
    # rglob and walk fail on folders nested a thousand deep.
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        if depth > _MOST_DEEP:
            raise HubError(f"{root}: expected at most {_MOST_DEEP} folders in each other, found more")
        entries: list[Path] = []
        with suppress(OSError):  # removed or not readable: the card's files are then reported as missing
            entries = list(folder.iterdir())
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                pending.append((entry, depth + 1))
            else:
                found.append(entry)
    for path in sorted(found):
        yield path.relative_to(root).as_posix(), path
