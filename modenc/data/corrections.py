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
    for number, row in enumerate(read_file(path), start=1):
        if missing := [column for column in COLUMNS if column not in row]:
            found = ", ".join(row)
            raise DataError(
                f"{path}: expected the columns {', '.join(COLUMNS)}, found {found}: no {missing[0]}"
            )
        word = row["word"]
        if not _WORD.fullmatch(word) or word != _lower(word, lang=""):
            raise DataError(f"{path}, row {number}: expected a word in lower case, found {word!r:.60}")
        if word in table:
            raise DataError(f"{path}, row {number}: expected each word once, found {word!r:.60} again")
        table[word] = row["replacement"]
    return table


def correct(text: str, table: Mapping[str, str], lang: str) -> str:
    """Replace whole words of a text in ``lang``; a capital letter at the start of a word stays one."""

    def replacement(match: regex.Match[str]) -> str:
        word = str(match.group())
        # The dot of a capital İ is often left out.
        found = table.get(_lower(word, lang), table.get(_lower(word, lang="")))
        if found is None:
            return word
        return _upper(found[:1], lang) + found[1:] if word[0].isupper() else found

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


def _lower(word: str, lang: str) -> str:
    if find_code(lang) in _DOTTED_AND_DOTLESS_I:
        word = word.replace("I", "ı")
    # Else İ would become two characters.
    return word.replace("İ", "i").lower()


def _upper(letter: str, lang: str) -> str:
    return "İ" if letter == "i" and find_code(lang) in _DOTTED_AND_DOTLESS_I else letter.upper()
