"""Texts from files and standard input, one at a time, and checks of output files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from modenc.data.formats import file_format, read_file, read_lines, text_in_column
from modenc.errors import DataError
from modenc.texts import normalize

STDIN = "-"
LANG_COLUMN = "--lang-column"
"""Option whose column may have null, as an empty text."""
LINES_AT_ONCE = 1024
"""Texts that are encoded together by commands that print a line for each."""


def read_texts(
    source: str, column: str = "text", max_characters: int | None = None, option: str = "--column"
) -> Iterator[str]:
    """Read the texts of a file or, for ``-``, of standard input.

    Standard input and .txt have a text in each line; an empty line is an empty text. For other formats see
    :func:`modenc.data.formats.read_file`, which reads no other column.

    Args:
        source: the file, or ``-``.
        column: column of the texts, in formats with columns.
        max_characters: clean and truncate texts as an encoder with that limit does, so that thousands of them
            fit in memory; this does not change their vectors. None: texts stay as they are.
        option: option that names the column on the command line.

    Raises:
        DataError: the file is missing, unreadable or not UTF-8, has no such column, or a value is no text
            (null, a number).
    """
    if source == STDIN:
        texts = read_lines(sys.stdin.buffer, "standard input")
    else:
        path, column = Path(source), column if has_columns(source) else "text"
        null = option == LANG_COLUMN
        rows = enumerate(read_file(path, [column]), start=1)
        texts = (text_in_column(row, column, path, number, option, may_be_null=null) for number, row in rows)
    yield from texts if max_characters is None else (normalize(text, max_characters) for text in texts)


def source_files(source: str) -> list[str]:
    """List the files of a source: the file itself or, for a folder, its files in the order of their names.

    Whatever has a name that starts with ``.`` or ``_`` is left out; other tools use such names for markers.

    Raises:
        DataError: the folder has no files, or something else in it, such as a folder.
    """
    if source == STDIN or not Path(source).is_dir():
        return [source]
    found = sorted(path for path in Path(source).iterdir() if path.name[0] not in "._")
    if others := [path for path in found if not path.is_file()]:
        raise DataError(f"{others[0]}: expected a file of texts; move it away, or begin its name with _")
    if not found:
        raise DataError(f"{source}: expected a folder with files of texts, found none; name another")
    return [str(path) for path in found]


def has_columns(source: str) -> bool:
    """Say whether a source has columns; standard input and plain text have none."""
    return source != STDIN and not (Path(source).is_file() and file_format(Path(source)) == ".txt")


def check_output(output: Path, source: str) -> None:
    """Check that an output can be written, before hours of work.

    Raises:
        DataError: the output's folder does not exist, or the output is the source or inside it.
    """
    if not output.absolute().parent.is_dir():
        raise DataError(f"{output.parent}: no such folder; make it, or write the output elsewhere")
    place = output.resolve()
    if Path(source).resolve() in (place, place.parent):
        raise DataError(f"{output}: expected an output outside of the input; write it elsewhere")
