"""Translations from gettext catalogs of installed Python packages, as a table of ``pivot`` and ``text``.

A compiled catalog (``.mo``) maps English messages to a language's translations: small, clean parallel text
that needs no download beyond ``pip install``. The packages are not imported::

    python quickstart/catalogs.py da data/catalogs.da.tsv
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import distribution
from itertools import count
from pathlib import Path

import regex
from babel.messages.mofile import read_mo

PACKAGES = (
    *("django", "djangorestframework", "django-allauth", "django-cms", "django-oscar", "sphinx", "wagtail"),
    "wtforms",
)
"""The packages of quickstart/requirements.txt that have catalogs."""

# Fillers of placeholders, the same on both sides of a pair.
_WORDS = ("X", "Y", "Z")
_NUMBERS = ("5", "8")
_NUMBER_TYPES = frozenset("diouxXeEfFgG")

_PLACEHOLDER = regex.compile(
    r"%\((?P<name>[^()%]+)\)[#0\- +]*\d*(?:\.\d+)?(?P<type>[a-zA-Z])"
    r"|%(?:(?P<name>\d+)\$)?[#0\-+]*\d*(?:\.\d+)?(?P<type>[diouxXeEfFgGcrsa])(?![a-zA-Z])"
    r"|\{\{\s*(?P<name>[\w.|]+)\s*\}\}"
    r"|\$?\{(?P<name>\w*)(?:[.!\[][^{}:]*)?(?::[^{}]*?(?P<type>[a-zA-Z])?)?\}"
)
# Replaces "%%" until the placeholders are replaced: Turkish writes "%%%(n)d".
_PERCENT = "\0"
_BREAK = re.compile(r"<\s*/?\s*(?:br|p|li|ul|ol|div|tr|td|h\d)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_ASIAN_ACCELERATOR = re.compile(r" ?[(（][&_][A-Za-z0-9][)）]")
_ACCELERATOR = re.compile(r"[&_](?=[^\W_])")
_LEFT_OVER = re.compile(r"[{}<>]|%[(a-zA-Z]|&\w+;")
_SPACE = re.compile(r"\s+")


def main(arguments: Sequence[str]) -> int:
    """Write the table for a locale (``da``, ``pt_BR``) to a file; packages may follow, by default all."""
    locale, output, *packages = arguments
    write_table(Path(output), packages or PACKAGES, locale)
    return 0


def write_table(output: Path, packages: Iterable[str], locale: str) -> None:
    """Write the table of some packages' messages; its folder is made."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("".join(table(packages, locale)), encoding="utf-8")


def table(packages: Iterable[str], locale: str) -> Iterator[str]:
    """Yield the lines of the table; packages without the locale are left out."""
    yield "pivot\ttext\n"
    for package in packages:
        for path in find_catalogs(package, locale):
            for pivot, text in read_catalog(path):
                yield f"{pivot}\t{text}\n"


def find_catalogs(package: str, locale: str) -> list[Path]:
    """Find a package's ``.mo`` files for a locale, or if there are none for its regions (``tr_TR``)."""
    installed = distribution(package)
    wanted = locale.replace("-", "_").casefold()
    exact, regions = [], []
    for file in installed.files or ():
        if file.suffix == ".mo" and file.parent.name == "LC_MESSAGES":
            name = file.parts[-3].replace("-", "_").casefold()
            if name == wanted:
                exact.append(Path(str(installed.locate_file(file))))
            elif name.startswith(f"{wanted}_"):
                regions.append(Path(str(installed.locate_file(file))))
    return sorted(exact or regions)


def read_catalog(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a catalog, cleaned.

    The last plural form of a language is its general one, so it is paired with the English plural. The first
    form is a singular only if there are two; with three and more, languages differ.
    """
    with path.open("rb") as stream:
        messages = [message for message in read_mo(stream) if message.id]
    for message in messages:
        if isinstance(message.id, str):
            pairs = [(message.id, str(message.string))]
        else:
            singular, plural = message.id
            pairs = [(plural, message.string[-1])]
            if len(message.string) == 2:
                pairs.append((singular, message.string[0]))
        yield from filter(None, (clean_pair(*pair) for pair in pairs))


def clean_pair(message: str, translation: str) -> tuple[str, str] | None:
    """Convert a message and its translation to plain sentences; None if that is not possible.

    Placeholders become the same filler on both sides (``%(name)s`` → ``X``, ``%d`` → ``5``). It is not
    possible if the sides have different placeholders or too many, if code remains, if there are no letters,
    and if the translation is the message itself.
    """
    sides = [text.replace("%%", _PERCENT) for text in (message, translation)]
    fillers = _fillers(sides[0])
    if fillers is None or fillers != _fillers(sides[1]):
        return None
    sides = [_clean(side, fillers) for side in sides]
    if any(_LEFT_OVER.search(side) or not any(map(str.isalpha, side)) for side in sides):
        return None
    source, target = (side.replace(_PERCENT, "%") for side in sides)
    if source.casefold() == target.casefold() or ("_" in source) != ("_" in target):
        return None
    return source, target


def _fillers(text: str) -> dict[str, str] | None:
    """Return placeholder → filler; None if there are more placeholders than fillers."""
    found = {
        (_name(match, place), match["type"] in _NUMBER_TYPES)
        for place, match in enumerate(_PLACEHOLDER.finditer(text), start=1)
    }
    fillers: dict[str, str] = {}
    words, numbers = list(_WORDS), list(_NUMBERS)
    for name, is_number in sorted(found):
        free = numbers if is_number else words
        if not free:
            return None
        fillers[name] = free.pop(0)
    return fillers


def _name(match: regex.Match[str], place: int) -> str:
    return match["name"] or str(place)


def _clean(text: str, fillers: dict[str, str]) -> str:
    places = count(1)
    text = _PLACEHOLDER.sub(lambda match: fillers[_name(match, next(places))], text)
    text = _TAG.sub("", _BREAK.sub(" ", text))
    text = _ASIAN_ACCELERATOR.sub("", _SPACE.sub(" ", html.unescape(text)))
    # Text with more than one mark is a name such as my_long_name.
    if len(_ACCELERATOR.findall(text)) == 1:
        text = _ACCELERATOR.sub("", text)
    return _SPACE.sub(" ", text).strip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
