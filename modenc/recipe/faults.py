"""Collecting every fault of a recipe, each with the place it is at, before raising once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from modenc.errors import RecipeError
from modenc.near import LONGEST, nearest

Place = tuple[str | int, ...]
"""Where a value is: keys and list positions, as in ``("data", "text", 0, "path")``."""

MOST_FAULTS = 100
"""Nobody reads more at once, and of a file made to harm there might be millions."""
_LONGEST_MESSAGE = 2000


class RecipeFaults(RecipeError):
    """A recipe has faults; ``faults`` holds one line for each, or for the first of many.

    ``warnings``, which are not in the message, are of what is probably not meant either.
    """

    def __init__(
        self, recipe: str, faults: Sequence[str], more: bool = False, warnings: Sequence[str] = ()
    ) -> None:
        self.faults = tuple(faults)
        self.warnings = tuple(warnings)
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        lines = [f"recipe {recipe!r} has {count}{' and perhaps more' if more else ''}:"]
        lines += [f"  {line}" for line in faults]
        super().__init__("\n".join([*lines, f"  {_THE_REST}"] if more else lines))


class TooManyFaults(RecipeError):
    """There are as many faults as are reported at once, and no more are looked for."""

    def __init__(self, faults: Iterable[str]) -> None:
        super().__init__("\n".join(["found these faults, and perhaps more:", *faults, _THE_REST]))


_THE_REST = f"the rest was not looked at: mend these {MOST_FAULTS} first"


def _itself(path: Place) -> Place:
    return path


@dataclass
class Faults:
    """The faults found so far, in order, and the values that they make unfit for further checks."""

    found: list[tuple[Place, str]] = field(default_factory=list)
    unfit: list[Place] = field(default_factory=list)
    place: Callable[[Place], Place] = _itself
    """Where in the file a value is written."""
    lines: dict[str, None] = field(default_factory=dict)
    """A line for each fault in the file: what is counted."""

    def full(self) -> bool:
        """Whether so many were found that no more are looked for."""
        return len(self.lines) >= MOST_FAULTS

    def of_part(self, place: Callable[[Place], Place]) -> Faults:
        """Those of a part of the same file: counted with all others, but noted and unfit by themselves."""
        return Faults(place=place, lines=self.lines)

    def add(self, path: Place, message: str, meant: str | None = None) -> None:
        """Note a fault; ``meant`` is the key that a misspelt one probably stands for.

        Raises:
            TooManyFaults: it is the last that is noted.
        """
        message = _shortened(message, _LONGEST_MESSAGE)
        if (path, message) in self.found:
            return
        self.found.append((path, message))
        self.unfit.append(path)
        if meant is not None:
            self.unfit.append((*path[:-1], meant))
        self.lines.setdefault(f"{dotted(self.place(path))}: {message}")
        if self.full():
            raise TooManyFaults(self.lines)

    def concern(self, path: Place) -> bool:
        """Whether the value at ``path``, or a part of it, is already known to be wrong."""
        return any(unfit[: len(path)] == path or path[: len(unfit)] == unfit for unfit in self.unfit)


def dotted(path: Place) -> str:
    """``("data", "text", 0)`` as ``data.text[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{_shortened(part, LONGEST)}" for part in path)
    return text.removeprefix(".")


def said_once(
    found: Iterable[tuple[str | None, Place, str]],
    places: Mapping[str, Callable[[Place], Place]],
    languages: Collection[str],
) -> list[str]:
    """A line for each fault; what several languages share is said once, and for whom if not for all.

    Args:
        found: the language of each fault, or None for the whole recipe's; its place; and what is said.
        places: for each language, where in the file a value is written.
        languages: all of them; none where not all were looked at.
    """
    where: dict[tuple[str, str], list[str]] = {}
    for lang, path, message in found:
        place = path if lang is None else places[lang](path)
        sharing = where.setdefault((dotted(place), message), [])
        sharing += [] if lang is None else [lang]
    lines = []
    for (at, message), sharing in where.items():
        line = f"{at}: {message}" if at else message
        if sharing and len(sharing) < len(languages) and not at.startswith("languages."):
            line += f" (for {', '.join(sharing)})"
        lines.append(line)
    return lines


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or the names there are when none is near."""
    known = list(names)
    match = nearest(name, known)
    if match is not None:
        return f"; did you mean {match!r}?"
    return f"; known: {', '.join(known)}" if known else ""
