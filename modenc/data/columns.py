"""The text in a column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modenc.data.formats import NonText, Row
from modenc.errors import DataError
from modenc.suggest import closest_match


def text_in_column(
    row: Row, column: str, path: Path, number: int, option: str = "", *, may_be_null: bool = False
) -> str:
    """Return the text that a row has in a column.

    Args:
        row: the row.
        column: the column's name.
        path: the row's file, for messages.
        number: the row's number, from 1, for messages.
        option: the option that named the column, such as ``--column``, for messages.
        may_be_null: return an empty text for null instead of raising an error.

    Raises:
        DataError: there is no such column, or its value is no text (null, a number).
    """
    if column not in row:
        raise DataError(_no_column(path, number, column, list(row), option))
    text = row[column]
    if isinstance(text, NonText) and (text or not may_be_null):
        raise DataError(
            f"{text.place}: expected a text in {column!r}, found {str(text)[:60] or 'null'}; drop the row, "
            "or write the text in quotes"
        )
    return str(text)


def _no_column(path: Path, number: int, column: str, found: Sequence[str], option: str) -> str:
    if near := closest_match(column, found, 0.5):
        hint = f"did you mean {option} {near}?" if option else f"did you mean {near!r}?"
    else:
        hint = "name the column of the texts" + (f" with {option}" if option else "")
    there = ", ".join(found) or "none"
    return f"{path}, row {number}: expected a column {column!r} of text in UTF-8, found {there}; {hint}"
