"""Issues of a recipe: errors and warnings, each with the place it is at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from modenc.errors import RecipeError, closest_match

Place = tuple[str | int, ...]
"""Place of a value: keys and list positions, as in ``("data", "text", 0, "path")``."""
Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Issue:
    """An error or a warning about the value at ``path``."""

    path: Place
    message: str
    depends_on: tuple[Place, ...] = ()
    """Other values that it follows from; while one of them has an error, this issue is not reported."""
    level: Level = "error"
    """A warning is probably an error."""
    meant: Place | None = None
    """For an unknown key, the known key that was probably meant."""


LocatedIssue = tuple[str | None, Issue]
"""An issue and the language that it concerns; None: the whole recipe."""


class RecipeIssues(RecipeError):
    """Errors of a recipe, with a line for each in ``issues``; the message has no ``warnings``."""

    def __init__(self, recipe: str, issues: Sequence[str], warnings: Sequence[str] = ()) -> None:
        self.issues = tuple(issues)
        self.warnings = tuple(warnings)
        title = f"recipe {recipe!r} has {len(issues)} issue{'s' if len(issues) > 1 else ''}:"
        super().__init__("\n  ".join([title, *issues]))


def add_issues(found: list[LocatedIssue], new: Iterable[LocatedIssue]) -> None:
    """Add the issues of ``new`` to ``found`` that do not follow from errors in it."""
    wrong = [
        (lang, place)
        for lang, issue in found
        if issue.level == "error"
        for place in (issue.path, issue.meant)
        if place is not None
    ]
    found += [
        (lang, issue)
        for lang, issue in new
        if not any(
            owner in (None, lang) and _overlap(place, other)
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


def issue_lines(
    found: Iterable[LocatedIssue], level: Level, tables: Mapping[str, LanguageTable]
) -> list[str]:
    """Write a line for each issue of a level; an issue of several languages in ``tables`` is one line."""
    shared: dict[tuple[str, str], dict[str, None]] = {}
    for lang, issue in found:
        if issue.level == level:
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
