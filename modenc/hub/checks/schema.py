"""Check of a JSON object against a dataclass or ``TypedDict``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from modenc.suggest import closest_match

_MOST_LISTED = 20
# Greater integers cannot be converted to float.
_MOST_BITS = 1000


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
