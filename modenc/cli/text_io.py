"""Texts in from files and standard input, one at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from modenc.data.files import Converted, format_of, read_file, read_lines
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
        name = "text" if plain else column
        if name not in row:
            raise DataError(_no_column(path, number, name, list(row)))
        text = row[name]
        if isinstance(text, Converted):
            raise DataError(
                f"{text.place}: expected a text in {name!r}, found {str(text)[:60] or 'null'}; drop the row, "
                "or write the text in quotes"
            )
        yield text


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


def one_line(text: str) -> str:
    """``text`` fit for one field of a tab-separated line: white space runs and lone surrogates replaced."""
    return " ".join(text.split()).encode("utf-8", "replace").decode("utf-8")


def _read_stdin() -> Iterator[str]:
    if sys.stdin is None:
        raise DataError("standard input is closed; name a file instead")
    return read_lines(sys.stdin.buffer, "standard input")


def _no_column(path: Path, number: int, column: str, found: list[str]) -> str:
    near = get_close_matches(column, found, n=1, cutoff=0.5)
    hint = f"did you mean --column {near[0]}?" if near else "name the column of the texts with --column"
    there = ", ".join(found) or "none"
    return f"{path}, row {number}: expected a column {column!r} of text in UTF-8, found {there}; {hint}"
