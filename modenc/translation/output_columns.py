"""Columns of the output: translations, originals and scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from langcodes.data_dicts import ALL_SCRIPTS

from modenc.data.formats import Row, text_in_column
from modenc.errors import DataError
from modenc.languages import find_code
from modenc.texts import normalize
from modenc.translation.steps import Translation
from modenc.translation.tables import OutputRow, typed

UNKNOWN, SIMILARITY = "unknown", "similarity"
"""Columns of scores: largest share of unknown words in a row's translations, and their smallest cosine."""

# A language with a script or a region: "eng_Latn", "en-US". By BCP 47, "en_text" would be a code, too.
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[_-](?P<script>[A-Za-z]{4}))?(?:[_-][A-Z]{2})?")


@dataclass(frozen=True)
class OutputColumns:
    """Columns that are translated, and columns of the output.

    A translation replaces the text of its column, and the original moves to ``COLUMN_SOURCE``
    (``sentence1_en``). A column called by the source's code (``en``) keeps its text, and the translation goes
    into a column called by the target's code.

    Raises:
        DataError: two columns have the same output column.
    """

    columns: tuple[str, ...]
    """Columns to translate."""
    source: str
    """Code of the texts' language."""
    target: str
    """Code of the translations' language."""
    originals: bool = True
    """Whether the originals are kept."""
    unknown: bool = False
    """Whether to add the column of shares of unknown words."""
    similarity: bool = False
    """Whether to add the column of cosines."""

    def __post_init__(self) -> None:
        named: dict[str, str] = {}
        for column in self.columns:
            if (first := named.setdefault(self.output_column(column), column)) != column:
                raise DataError(
                    f"expected one column with the name of the language {self.source!r}, found {first!r} and "
                    f"{column!r}; the translations of both would go into {self.target!r}: rename one"
                )

    def texts(self, row: Row, path: Path, number: int) -> list[str]:
        """Return the normalized texts to translate of row ``number``, from 1, of a file; null becomes empty.

        Raises:
            DataError: there is no such column, a value is no text, or a column has the name of a new one.
        """
        for name in self._new_columns():
            if name in row:
                raise DataError(
                    f"{path}, row {number}: expected no column {name!r}, which is an output column; rename it"
                )
        texts = (text_in_column(row, column, path, number, may_be_null=True) for column in self.columns)
        return [normalize(text) for text in texts]

    def output_row(
        self, row: Row, texts: Sequence[str], results: Sequence[Translation], cosines: Sequence[float | None]
    ) -> OutputRow:
        """Make the output row."""
        output: OutputRow = {name: typed(value) for name, value in row.items()}
        added: OutputRow = {}
        for column, text, result in zip(self.columns, texts, results, strict=True):
            place = self.output_column(column)
            if place == column and self.originals:
                added[f"{column}_{self.source}"] = text
            elif self.originals:
                output[column] = text
            elif place != column:
                del output[column]
            output[place] = result.text
        if self.unknown:
            added[UNKNOWN] = round(max(result.unknown for result in results), 4)
        if self.similarity:
            added[SIMILARITY] = min((cosine for cosine in cosines if cosine is not None), default=None)
        return output | added

    def output_column(self, column: str) -> str:
        """Return the column that the translations of ``column`` go into."""
        code = _CODE.fullmatch(column)
        is_code = code is not None and (code["script"] or "Latn").title() in ALL_SCRIPTS
        return self.target if is_code and find_code(column) == self.source else column

    def _new_columns(self) -> Iterator[str]:
        for column in self.columns:
            if (place := self.output_column(column)) != column:
                yield place
            elif self.originals:
                yield f"{column}_{self.source}"
        if self.unknown:
            yield UNKNOWN
        if self.similarity:
            yield SIMILARITY
