"""Texts from files and standard input, one at a time, and checks of where results go."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from modenc.data.columns import text_in_column
from modenc.data.formats import file_format, read_file, read_lines
from modenc.errors import DataError
from modenc.texts import clean

STDIN = "-"
LINES_AT_ONCE, CHARACTERS_AT_ONCE = 1024, 1 << 26
"""For :func:`batched`, in commands that answer a line at a time."""


def read_texts(
    source: str, column: str = "text", max_characters: int | None = None, option: str = "--column"
) -> Iterator[str]:
    """The texts of ``source``: a file that :func:`modenc.data.formats.read_file` reads, or ``-``.

    Standard input and .txt hold a text a line, empty lines included, so that row i of the result
    is line i of the input. Other formats give the value of ``column``.

    Args:
        source: the file.
        column: where it has several.
        max_characters: clean and cut texts as an encoder of that limit does, so that thousands of them fit
            in memory; their vectors stay the same. By default they stay as they are.
        option: what names the column on the command line.

    Raises:
        DataError: missing or unreadable file, bytes that are not UTF-8, no such column, a value that is no
            text (null, a number).
    """
    texts = _uncut(source, column, option)
    return texts if max_characters is None else (clean(text, max_characters) for text in texts)


def source_files(source: str) -> list[str]:
    """The files of a source: itself, or of a folder those in it, in the order of their names.

    Names that start with ``.`` or ``_`` are left out, as those of marks that other tools leave.

    Raises:
        DataError: a folder has none.
    """
    if source == STDIN or not Path(source).is_dir():
        return [source]
    found = [path for path in Path(source).iterdir() if path.is_file() and path.name[0] not in "._"]
    if not found:
        raise DataError(f"{source}: expected a folder with files of texts, found none; name another")
    return [str(path) for path in sorted(found, key=lambda path: path.name)]


def has_columns(source: str) -> bool:
    """Whether texts come with other columns: not from standard input and plain text."""
    return source != STDIN and not (Path(source).is_file() and file_format(Path(source)) == ".txt")


def _uncut(source: str, column: str, option: str) -> Iterator[str]:
    if source == STDIN:
        if sys.stdin is None:
            raise DataError("standard input is closed; name a file instead")
        yield from read_lines(sys.stdin.buffer, "standard input")
        return
    path, column = Path(source), column if has_columns(source) else "text"
    for number, row in enumerate(read_file(path), start=1):
        yield text_in_column(row, column, path, number, option)


def check_output(output: Path, source: str | Path) -> None:
    """Check before hours of work that an output can be written.

    Raises:
        DataError: its folder does not exist, it is a folder itself, or it is ``source``.
    """
    if output.exists() and Path(source).exists() and output.samefile(source):
        raise DataError(f"{output}: expected another file than the input; choose another name")
    if not output.absolute().parent.is_dir():
        raise DataError(f"{output.parent}: no such folder; make it, or write the output elsewhere")
    if Path(source).is_dir() and output.absolute().parent.resolve() == Path(source).resolve():
        raise DataError(f"{output}: expected an output outside of the input's folder; write it elsewhere")
    if output.is_dir():
        raise DataError(f"{output}: expected a file's name, found a folder; choose another name")


def batched(texts: Iterable[str], size: int, characters: int | None = None) -> Iterator[list[str]]:
    """Lists of ``size`` texts, the last one shorter; one with so many ``characters`` ends earlier."""
    iterator = iter(texts)
    while batch := list(_first(iterator, size, characters)):
        yield batch


def _first(texts: Iterator[str], size: int, characters: int | None) -> Iterator[str]:
    for text in islice(texts, size):
        yield text
        if characters is not None and (characters := characters - len(text)) <= 0:
            return
