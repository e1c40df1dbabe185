"""From a row of a file to the row that is written: which column a translation goes into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from modenc.data.columns import text_of
from modenc.data.files import Converted, Row
from modenc.data.text import normalize
from modenc.errors import DataError, LanguageError
from modenc.languages import normalize_code
from modenc.translation.steps import Translated
from modenc.translation.tables import Record, typed

UNKNOWN, SIMILARITY = "unknown", "similarity"
"""Columns of figures: the largest share of unknown words of a row's translations, and their least cosine."""


@dataclass(frozen=True)
class Layout:
    """Where translations go.

    A translation takes its column's place, and the original moves to ``COLUMN_SOURCE`` (``sentence1_en``).
    A column that is called by the source's code (``en``) keeps its text, and the translation is in one that
    is called by the target's.
    """

    columns: tuple[str, ...]
    """Those that are translated."""
    source: str
    """Code of their language."""
    target: str
    """Code of the translations'."""
    originals: bool = True
    """Whether the originals stay."""
    unknown: bool = False
    """Whether there is a column of shares of unknown words."""
    similarity: bool = False
    """Whether there is a column of cosines."""

    def texts(self, row: Row, path: Path, number: int, option: str = "") -> list[str]:
        """The texts of a row to translate, normalized; null is empty.

        Args:
            row: it.
            path: its file, for messages.
            number: which row of it, from 1.
            option: what the columns were named with, for messages.

        Raises:
            DataError: no such column, a value that is no text, or a column that is there already.
        """
        for name in self._added():
            if name in row and name not in self.columns:
                raise DataError(
                    f"{path}, row {number}: expected no column {name!r}, which is written beside the "
                    "translations; rename it"
                )
        return [normalize(self._text(row, column, path, number, option)) for column in self.columns]

    def record(
        self, row: Row, texts: Sequence[str], results: Sequence[Translated], cosines: Sequence[float | None]
    ) -> Record:
        """The row that is written."""
        record: Record = {name: typed(value) for name, value in row.items()}
        added: Record = {}
        for column, text, result in zip(self.columns, texts, results, strict=True):
            place = self.output_column(column)
            record |= {column: text} if place != column else {}
            if place == column and self.originals:
                added[f"{column}_{self.source}"] = text
            elif place != column and not self.originals:
                del record[column]
            record[place] = result.text
        if self.unknown:
            added[UNKNOWN] = round(max(result.unknown for result in results), 4)
        if self.similarity:
            added[SIMILARITY] = min((cosine for cosine in cosines if cosine is not None), default=None)
        return record | added

    def output_column(self, column: str) -> str:
        """The column that the translations of ``column`` go into."""
        return self.target if _code_of(column) == self.source else column

    def _added(self) -> list[str]:
        moved = [f"{column}_{self.source}" for column in self.columns if self.output_column(column) == column]
        figures: Mapping[str, bool] = {UNKNOWN: self.unknown, SIMILARITY: self.similarity}
        places = [self.output_column(column) for column in self.columns]
        return [*places, *(moved if self.originals else ()), *(name for name in figures if figures[name])]

    def _text(self, row: Row, column: str, path: Path, number: int, option: str) -> str:
        value = row.get(column)
        if isinstance(value, Converted) and not value:
            return ""
        return text_of(row, column, path, number, option)


@cache
def _code_of(column: str) -> str | None:
    """The normalized code that a column is called by; None for any other name, which takes long to see."""
    try:
        return normalize_code(column)
    except LanguageError:
        return None
