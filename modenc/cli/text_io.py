"""Texts in from files and standard input, one at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from modenc.data.columns import text_of
from modenc.data.files import format_of, read_file, read_lines
from modenc.errors import DataError
from modenc.texts import clean

STDIN = "-"
LINES_AT_ONCE, CHARACTERS_AT_ONCE = 1024, 1 << 26
"""For :func:`batched`, by verbs that answer a line at a time."""


def read_texts(source: str, column: str = "text", max_characters: int | None = None) -> Iterator[str]:
    """The texts of ``source``: a file that :func:`modenc.data.files.read_file` reads, or ``-``.

    Standard input and .txt hold a text a line, empty lines included, so that row i of the result
    is line i of the input. Other formats give the value of ``column``.

    Args:
        source: the file.
        column: where it has several.
        max_characters: clean and cut texts as an encoder of that limit does, so that thousands of them fit
            in memory; their vectors stay the same. By default they stay as they are.

    Raises:
        DataError: missing or unreadable file, bytes that are not UTF-8, no such column, a value that is no
            text (null, a number).
    """
    texts = _uncut(source, column)
    return texts if max_characters is None else (clean(text, max_characters) for text in texts)


def _uncut(source: str, column: str) -> Iterator[str]:
    if source == STDIN:
        yield from _read_stdin()
        return
    path = Path(source)
    plain = path.is_file() and format_of(path) == ".txt"
    for number, row in enumerate(read_file(path), start=1):
        yield text_of(row, "text" if plain else column, path, number, "--column")


def refuse_overwriting(source: str | Path, output: Path) -> None:
    """See that an output is another file than the input.

    Raises:
        DataError: it is the same.
    """
    if output.exists() and Path(source).exists() and output.samefile(source):
        raise DataError(f"{output}: expected another file than the input; choose another name")


def refuse_folder(output: Path) -> None:
    """See that an output's name is no folder's.

    Raises:
        DataError: it is.
    """
    if output.is_dir():
        raise DataError(f"{output}: expected a file's name, found a folder; choose another name")


def batched(texts: Iterable[str], size: int, characters: int | None = None) -> Iterator[list[str]]:
    """Lists of ``size`` texts, the last one shorter; one of so many ``characters`` ends earlier."""
    iterator = iter(texts)
    while batch := list(_first(iterator, size, characters)):
        yield batch


def _first(texts: Iterator[str], size: int, characters: int | None) -> Iterator[str]:
    for text in islice(texts, size):
        yield text
        if characters is not None and (characters := characters - len(text)) <= 0:
            return


def _read_stdin() -> Iterator[str]:
    if sys.stdin is None:
        raise DataError("standard input is closed; name a file instead")
    return read_lines(sys.stdin.buffer, "standard input")
