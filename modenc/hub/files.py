"""Reading, checking, hashing and listing the files of a hub."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from modenc.errors import HubError

MOST_JSON_BYTES = 1 << 24
"""Most bytes of a JSON file in a hub; larger ones would take minutes and gigabytes to read."""
# Greater integers cannot be converted to float.
_MOST_BITS = 1000


def json_object(content: str | bytes, where: str) -> dict[str, Any]:
    """Parse the JSON object in a file's content; ``where`` is the file's name for messages.

    Raises:
        HubError: it is something else.
    """
    try:
        parsed = json.loads(content)
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


def check_keys(content: dict[str, Any], kind: type, where: str) -> None:
    """Check that an object has the keys of the class ``kind``, and values of their types.

    Raises:
        HubError: it names the first difference; ``where`` is the object's place, for the message.
    """
    hints = get_type_hints(kind)
    if different := sorted(hints.keys() ^ content.keys()):
        raise HubError(
            f"{where}: expected the keys {', '.join(hints)}, found a difference in "
            f"{', '.join(different)[:100]}; correct the file, or update modenc if a later version wrote it"
        )
    for name, value in content.items():
        _check_value(value, hints[name], f"{where}: {name}")


def _check_value(value: Any, hint: Any, where: str) -> None:
    if hint is Any:
        return
    kind: Any = dict if is_typeddict(hint) else get_origin(hint) or hint
    fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
    if not fits or (isinstance(value, int) and value.bit_length() > _MOST_BITS):
        raise HubError(f"{where}: expected {kind.__name__}, found {value!r:.60}; correct the file")
    if is_typeddict(hint):
        check_keys(value, hint, where)
    elif kind in (dict, list):
        for place, item in value.items() if kind is dict else enumerate(value):
            _check_value(item, get_args(hint)[-1], f"{where}: {place!s:.60}")


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
    """Yield (relative POSIX path, path) of what is in a language's folder of files and the folders of parts.

    Links, special files and folders in the folders of parts are yielded, too.
    """
    for path in sorted([*root.glob("*"), *root.glob("*/*")]):
        if path.parent != root or path.is_symlink() or not path.is_dir():
            yield path.relative_to(root).as_posix(), path
