"""Parsing of tables (TOML, JSON) to dataclasses by their type hints, and issues: what is wrong and where."""

from __future__ import annotations

import math
import os
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from modenc.errors import RecipeError, closest_match

Place = tuple[str | int, ...]
"""Place of a value: keys and list positions, as in ``("data", "text", 0, "path")``."""
Level = Literal["error", "warning"]
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


@dataclass(frozen=True)
class Issue:
    """An error or a warning about the value at ``path``."""

    path: Place
    message: str
    depends_on: tuple[Place, ...] = ()
    """Other values that it follows from; while one of them has an error, this issue is not reported."""
    level: Level = "error"
    """A warning is probably an error, or names a source that ``data.licenses`` leaves out."""
    meant: Place | None = None
    """For an unknown key, the known key that was probably meant."""
    lang: str | None = None
    """The language that it concerns; None: the whole recipe."""

    def of(self, lang: str) -> Issue:
        """Return the issue as one of a language."""
        return replace(self, lang=lang)


class RecipeIssues(RecipeError):
    """Errors of a recipe, with a line for each in ``issues``; the message has no ``warnings``."""

    def __init__(self, recipe: str, issues: Sequence[str], warnings: Sequence[str] = ()) -> None:
        self.issues = tuple(issues)
        self.warnings = tuple(warnings)
        title = f"recipe {recipe!r} has {len(issues)} issue{'s' if len(issues) > 1 else ''}:"
        super().__init__("\n  ".join([title, *issues]))


def add_issues(found: list[Issue], new: Iterable[Issue]) -> None:
    """Add the issues of ``new`` to ``found`` that do not follow from errors in it."""
    wrong = [
        (issue.lang, place)
        for issue in found
        if issue.level == "error"
        for place in (issue.path, issue.meant)
        if place is not None
    ]
    found += [
        issue
        for issue in new
        if not any(
            owner in (None, issue.lang) and _overlap(place, other)
            for place in (issue.path, *issue.depends_on)
            for owner, other in wrong
        )
    ]


def _overlap(one: Place, other: Place) -> bool:
    """Check whether two values are the same, or one contains the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


@dataclass(frozen=True)
class LanguageTable:
    """A recipe's table ``[languages.CODE]``."""

    path: Place
    sections: dict[str, Any]

    def written_at(self, path: Place) -> Place:
        """Find the place in the file of a value in the language's plan: in this table, or at the top."""
        table: Any = self.sections
        for key in path:
            if isinstance(key, int):
                break
            if not isinstance(table, dict) or key not in table:
                return path
            table = table[key]
        return (*self.path, *path)


def issue_lines(found: Iterable[Issue], level: Level, tables: Mapping[str, LanguageTable]) -> list[str]:
    """Write a line for each issue of a level; an issue of several languages in ``tables`` is one line."""
    shared: dict[tuple[str, str], dict[str, None]] = {}
    for issue in found:
        if issue.level == level:
            lang = issue.lang
            place = issue.path if lang is None else tables[lang].written_at(issue.path)
            sharing = shared.setdefault((dotted(place), issue.message), {})
            sharing.update({} if lang is None else {lang: None})
    lines = []
    for (place_name, message), languages in shared.items():
        line = f"{place_name}: {message}"
        if 0 < len(languages) < len(tables) and not place_name.startswith("languages."):
            line += f" (for {', '.join(languages)})"
        lines.append(line)
    return lines


def dotted(path: Place) -> str:
    """Write ``("data", "text", 0)`` as ``data.text[0]``."""
    keys = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return "".join(keys).removeprefix(".")


def unknown_keys(
    table: Iterable[str], known: Collection[str], path: Place = (), what: str = "unknown key"
) -> Iterator[Issue]:
    """Yield the keys of the table at ``path`` that are not ``known``."""
    for key in table:
        if key not in known:
            if match := closest_match(key, known):
                yield Issue((*path, key), f"{what}; did you mean {match!r}?", meant=(*path, match))
            else:
                yield Issue((*path, key), f"{what}; known: {', '.join(known)}")


def parse(cls: type[T], table: Any, path: Place, issues: list[Issue], defaults: Any = INVALID) -> T:
    """Make an instance of the dataclass ``cls`` from a table; errors are added to ``issues``, not raised.

    Args:
        cls: its fields are numbers (with a ``Range`` or without), texts, paths, booleans, ``Literal`` texts,
            other such dataclasses, and tuples and dictionaries of these. A bare text stands for a table with
            the one key ``cls.SHORTHAND``.
        table: the value in the file.
        path: its place in the file.
        issues: errors are added here.
        defaults: an instance whose values replace wrong or missing ones, so that the rest can still be
            checked; without it, and without a default, the result is ``INVALID``.
    """
    if isinstance(table, str) and (key := getattr(cls, "SHORTHAND", None)):
        table = {key: table}
    if not isinstance(table, dict):
        issues.append(Issue(path, f"expected a table, found {describe(table)}"))
        return cast(T, defaults)
    hints = _type_hints(cast(Any, cls))
    issues += unknown_keys(table, hints, path)
    values = {}
    for item in fields(cast(Any, cls)):
        value = default = _default(item, defaults)
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


def _default(item: Field[Any], defaults: Any) -> Any:
    if is_dataclass(defaults):
        return getattr(defaults, item.name)
    if item.default_factory is not MISSING:
        return item.default_factory()
    return INVALID if item.default is MISSING else item.default


def _convert(hint: Any, value: Any, path: Place, issues: list[Issue], default: Any = INVALID) -> Any:
    """Convert ``value`` to the type ``hint``; after adding an error, return ``INVALID``."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):  # a type or None, and no file has None
        return _convert(arguments[0], value, path, issues, default)
    if is_dataclass(hint):
        return parse(cast(type, hint), value, path, issues, default)
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
