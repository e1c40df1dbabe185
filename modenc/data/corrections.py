"""Corrections of machine-translated texts: a table of words that a translator gets wrong again and again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import regex

from modenc.data.formats import NonText, Row, read_file
from modenc.errors import DataError
from modenc.languages import find_code

COLUMNS = ("word", "replacement")

# Letters, with apostrophes inside: "Tom'un", "qal’a".
_WORD = regex.compile(r"[\p{L}\p{M}]+(?:['’‘][\p{L}\p{M}]+)*")


# Languages with two letters i, ı and i, whose capitals are I and İ.
_DOTTED_AND_DOTLESS_I = ("az", "crh", "gag", "tr")


def read_corrections(path: Path) -> dict[str, str]:
    """Read a table with the columns ``word``, in lower case, and ``replacement``, which may be empty.

    Raises:
        DataError: the file is missing, lacks a column, or has a word twice or that is no word.
    """
    table: dict[str, str] = {}
    for number, row in enumerate(read_file(path, COLUMNS), start=1):
        if missing := [column for column in COLUMNS if column not in row]:
            found = ", ".join(row)
            raise DataError(
                f"{path}: expected the columns {', '.join(COLUMNS)}, found {found}: no {missing[0]}"
            )
        word = row["word"]
        if not _WORD.fullmatch(word) or word != _lower(word):
            raise DataError(f"{path}, row {number}: expected a word in lower case, found {word!r:.60}")
        if word in table:
            raise DataError(f"{path}, row {number}: expected each word once, found {word!r:.60} again")
        table[word] = row["replacement"]
    return table


def correct(text: str, table: Mapping[str, str], lang: str) -> str:
    """Replace whole words of a text in ``lang``; a capital letter at the start of a word stays one."""
    two_letters_i = find_code(lang) in _DOTTED_AND_DOTLESS_I

    def replacement(match: regex.Match[str]) -> str:
        word = str(match.group())
        found = table.get(_lower(word.replace("I", "ı"))) if two_letters_i else None
        if found is None:  # the dot of a capital İ is often left out
            found = table.get(_lower(word))
        if found is None:
            return word
        if not word[0].isupper():
            return found
        return ("İ" if two_letters_i and found[:1] == "i" else found[:1].upper()) + found[1:]

    return str(_WORD.sub(replacement, text))


def corrected(rows: Iterable[Row], path: Path, columns: Collection[str], lang: str) -> Iterator[Row]:
    """Correct the ``columns`` of the rows by the table at ``path``; see :func:`read_corrections`."""
    table = read_corrections(path)
    for row in rows:
        yield {
            column: value
            if column not in columns or isinstance(value, NonText)
            else correct(value, table, lang)
            for column, value in row.items()
        }


def _lower(word: str) -> str:
    # Else the Turkish capital İ would become two characters.
    return word.replace("İ", "i").lower()
