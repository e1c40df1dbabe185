"""Sentence pairs from the gettext catalogs in installed Python packages.

A compiled catalog (``.mo``) maps English messages to a language's translations: small, clean parallel text
that needs no download beyond ``pip install``. Placeholders, mark-up and accelerator keys are removed from the
messages.
"""

from __future__ import annotations

import html
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import regex

from modenc.data.formats import Row
from modenc.errors import DataError
from modenc.suggest import closest_match

_MAGIC = 0x950412DE

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


def read_catalogs(packages: Sequence[str], locale: str) -> Iterator[Row]:
    """Read the translated messages of packages, cleaned, as rows of ``pivot`` (English) and ``text``.

    Args:
        packages: import names or distribution names of installed packages.
        locale: locale such as ``tr`` or ``pt_BR``; for ``tr`` a folder with a region (``tr_TR``) is used if
            there is none without.

    Raises:
        DataError: a package is not installed, or its catalog for the locale is missing or damaged.
    """
    for package in packages:
        for path in find_catalogs(package, locale):
            for ids, forms in read_mo(path):
                for message, translation in _pairs(ids, forms):
                    pair = clean_pair(message, translation)
                    if pair is not None:
                        yield {"pivot": pair[0], "text": pair[1]}


def find_catalogs(package: str, locale: str) -> list[Path]:
    """Find the ``.mo`` files of a package for a locale, sorted.

    Raises:
        DataError: the package is not installed or has none for the locale.
    """
    by_folder: dict[Path, list[Path]] = defaultdict(list)
    for root in _package_folders(package):
        for messages in root.rglob("LC_MESSAGES"):
            if any(messages.glob("*.mo")):
                by_folder[messages.parent.parent].append(messages.parent)
    chosen = {folder for folders in by_folder.values() for folder in _matching(folders, locale)}
    if not chosen:
        raise DataError(_no_catalog(package, locale, {f.name for fs in by_folder.values() for f in fs}))
    return sorted(path for folder in chosen for path in (folder / "LC_MESSAGES").glob("*.mo"))


def read_mo(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Read the entries of a compiled catalog: ids (singular, plural) and translated forms.

    Contexts are removed from the ids, and the header entry is left out.

    Raises:
        DataError: the file is no ``.mo`` file, or damaged.
    """
    try:
        entries = list(_raw_entries(path.read_bytes()))
        header = next((text for message, text in entries if not message), b"").decode("utf-8", "replace")
        charset = header.partition("charset=")[2].split("\n")[0].strip() or "utf-8"
        for message, text in entries:
            if message:
                ids = message.decode(charset).rpartition("\x04")[2].split("\0")
                yield ids, text.decode(charset).split("\0")
    except (struct.error, ValueError, LookupError) as error:
        raise DataError(f"{path}: not a readable gettext catalog ({error}); reinstall its package") from error


def _raw_entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    order = "<" if struct.unpack_from("<I", data)[0] == _MAGIC else ">"
    magic, _, count, ids_at, texts_at = struct.unpack_from(f"{order}5I", data)
    if magic != _MAGIC:
        raise ValueError(f"expected the magic number 0x{_MAGIC:08x}, found 0x{magic:08x}")
    length = 0
    for i in range(count):
        message, text = _string(data, order, ids_at + 8 * i), _string(data, order, texts_at + 8 * i)
        length += len(message) + len(text)
        if length > len(data):
            raise ValueError("its strings overlap")
        yield message, text


def _string(data: bytes, order: str, at: int) -> bytes:
    length, start = struct.unpack_from(f"{order}2I", data, at)
    if start + length > len(data):
        raise ValueError(f"a string ends at byte {start + length} of {len(data)}")
    return data[start : start + length]


def _pairs(ids: list[str], forms: list[str]) -> Iterator[tuple[str, str]]:
    """Pair English messages with the translated forms of the same meaning.

    The last plural form of a language is its general one, so it is paired with the English plural. The first
    form is a singular only if there are two; with three and more, languages differ.
    """
    if len(ids) == 1:
        yield ids[0], forms[0]
        return
    yield ids[1], forms[-1]
    if len(forms) == 2:
        yield ids[0], forms[0]


def _package_folders(package: str) -> list[Path]:
    """Return the folders to search for catalogs; the package is not imported."""
    try:
        spec = find_spec(package) if package.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.submodule_search_locations:
        return [Path(folder) for folder in spec.submodule_search_locations]
    try:
        installed = distribution(package)
    except (PackageNotFoundError, ValueError) as error:
        raise DataError(
            f"gettext source: expected the Python package {package!r}, found none installed; "
            f"run: pip install {package.replace('_', '-')}"
        ) from error
    files = [file for file in installed.files or () if file.suffix == ".mo" and len(file.parts) > 3]
    return sorted({Path(str(installed.locate_file(file))).parents[2] for file in files})


def _matching(folders: Iterable[Path], locale: str) -> list[Path]:
    """Return the locale's folder or, if there is none, the folders of its regions."""
    wanted = locale.replace("-", "_").casefold()
    names = {folder: folder.name.replace("-", "_").casefold() for folder in folders}
    exact = [folder for folder, name in names.items() if name == wanted]
    return exact or [folder for folder, name in names.items() if name.startswith(f"{wanted}_")]


def _no_catalog(package: str, locale: str, locales: set[str]) -> str:
    if not locales:
        return f"package {package}: expected gettext catalogs (locale/{locale}/LC_MESSAGES/*.mo), found none"
    language = locale.replace("-", "_").partition("_")[0]
    same = sorted(other for other in locales if other.replace("-", "_").partition("_")[0] == language)
    near = next(iter(same), None) or closest_match(locale, locales, 0.5)
    hint = f"did you mean lang = {near!r}?" if near else "leave the package out for this language"
    return (
        f"package {package}: expected a gettext catalog for {locale!r}, "
        f"found {', '.join(sorted(locales))}; {hint}"
    )


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
