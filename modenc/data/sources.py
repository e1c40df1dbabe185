"""Rows of a recipe's sources: files and public data sets, keyed by role; of two files joined, or of groups.

Relative paths start from ``root``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from operator import ge, le
from pathlib import Path
from typing import Any

from modenc.data.formats import Row, flatten, missing_column, read_file
from modenc.errors import DataError, require_extra
from modenc.ranges import NonNegativeInt, PositiveInt

_PREFIX = "hf://datasets/"
# The only reader of ``datasets`` that runs code of a file: it unpickles files in the working folder.
_PICKLES = "pandas"
ROW_CONDITIONS = ("where", "where_not", "at_least", "at_most")
# Roles that are read where a source has them, whether they are asked for or not.
_OPTIONAL_ROLES = ("negative", "pivot_negative", "query")


@dataclass(frozen=True)
class Source:
    """One source of texts. Either ``path`` or ``dataset`` is set.

    In every string ``{lang}`` stands for the language's code and ``{pivot}`` for the pivot's.
    """

    SHORTHAND = "path"

    path: str | None = None
    """A text, TSV, CSV, JSONL or Parquet file, plain or .gz / .zst, relative to ``data.root``."""
    dataset: str | None = None
    """Name of a data set for ``datasets.load_dataset``."""
    config: str | None = None
    """Configuration (subset) of ``dataset``."""
    split: str = "train"
    """Split of ``dataset``."""
    streaming: bool = False
    """Stream ``dataset`` instead of downloading it whole."""
    columns: dict[str, str] = field(default_factory=dict)
    """Role → column name, where the names differ from the roles (``{ text = "kk", pivot = "en" }``). In the
    file of ``pivot_path`` ``{lang}`` is the pivot's code, too, and its text is in the column of ``pivot``."""
    where: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keep only rows whose column has one of these values. With ``pivot_path`` this filter, like the next
    three, chooses rows of ``path``."""
    where_not: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Drop rows whose column holds one of these values."""
    at_least: dict[str, float] = field(default_factory=dict)
    """Keep only rows whose numeric column is at least this (``{ score = 4.0 }``)."""
    at_most: dict[str, float] = field(default_factory=dict)
    """Keep only rows whose numeric column is at most this (``{ unknown = 0.25 }``)."""
    pivot_path: str | None = None
    """A second file with the pivot's rows of the same set, joined with those of ``path`` on ``key``."""
    key: str = "id"
    """Column on which ``path`` and ``pivot_path`` are joined."""
    group: str = ""
    """``paraphrases`` and ``cross_paraphrases``: a column that has the same value in all rows of one meaning
    (``image``). Then the roles are ``text``, and for ``cross_paraphrases`` also ``pivot``. Rows of a group
    are paired in order, the first with the second, the third with the fourth; for ``cross_paraphrases`` each
    text is paired with the other row's ``pivot``. Rows without a value are left out."""
    limit: NonNegativeInt = 0
    """Number of rows to take at most (0: all), counted after joining and pairing."""
    repeat: PositiveInt = 1
    """Number of times that every row is read in an epoch, to give a small good source more weight."""
    license: str = ""
    """License of the texts, copied into the cards of modules that are trained on them."""
    translator: str = ""
    """Machine translation system of the texts (``Apertium eng-kaz``), copied into the cards, too."""


def read_rows(source: Source, root: Path, roles: Sequence[str] = ()) -> Iterator[Row]:
    """Read the rows of a resolved source that pass its filters (``where``, …), up to its ``limit``.

    Yields:
        Role → value for ``roles`` and the columns named in ``source.columns``, empty where a JSON object has
        none. Other columns may be there by name alone, see :func:`~modenc.data.formats.read_file`.

    Raises:
        DataError: the source cannot be read, or lacks a column.
    """
    return islice(select_rows(read_raw_rows(source, root, roles), source, roles), source.limit or None)


def resolve_source(source: Source, lang: str, pivot: str) -> Source:
    """Fill in ``{lang}`` and ``{pivot}`` in all strings of a source."""
    return Source(**{one.name: _fill(getattr(source, one.name), lang, pivot) for one in fields(Source)})


def describe_source(source: Source) -> str:
    """Return a source's name for messages and cards; it contains no absolute path unless the recipe does."""
    if source.path is not None:
        return source.path
    return f"{source.dataset} ({source.config})" if source.config else str(source.dataset)


def _fill(value: Any, lang: str, pivot: str) -> Any:
    # str.replace, since other braces in a name are no placeholders.
    if isinstance(value, str):
        return value.replace("{lang}", lang).replace("{pivot}", pivot)
    if isinstance(value, dict):
        return {_fill(key, lang, pivot): _fill(item, lang, pivot) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_fill(item, lang, pivot) for item in value)
    return value


def read_raw_rows(source: Source, root: Path, roles: Sequence[str]) -> Iterator[Row]:
    """Read all rows of a resolved source, with its own column names.

    Only the columns of ``roles`` and those named in the source are read, others may be there by name alone.

    Raises:
        DataError: the source cannot be read, or is not either a file or a data set.
        MissingExtraError: it is a data set, and ``datasets`` is not installed.
    """
    if (source.path is None) == (source.dataset is None):
        found = "neither" if source.path is None else "both"
        raise DataError(
            f"expected either path or dataset in a source, found {found}; give each source a table of its own"
        )
    columns = list(_column_of(source, (*roles, *_OPTIONAL_ROLES)).values())
    if source.path is not None:
        path = Path(os.path.expanduser(root), os.path.expanduser(source.path))
        return read_file(path, columns)
    return _read_dataset(source, columns)


def _read_dataset(source: Source, columns: Sequence[str]) -> Iterator[Row]:
    require_extra("train", "datasets")
    import datasets

    if (source.dataset or "").removeprefix(_PREFIX) == _PICKLES:
        raise DataError(
            f"data set {source.dataset!r}: expected a data set's name, found the reader of pickles, which "
            "can run code; load them where you trust them, write Parquet, and give it as path = ..."
        )
    try:
        rows = datasets.load_dataset(
            source.dataset, source.config, split=source.split, streaming=source.streaming
        )
        for record in rows:
            yield flatten(record, columns)
    except DataError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"data set {describe_source(source)}, split {source.split!r}: expected to read it from the "
            f"Hugging Face hub or its cache, found: {reason}. Check the name, config and split and the "
            "network (HF_HUB_OFFLINE must not be set), or download its files and give them as path = ..."
        ) from error


def select_rows(rows: Iterable[Row], source: Source, roles: Sequence[str]) -> Iterator[Row]:
    """Yield the rows that pass a resolved source's filters, with ``roles`` as keys.

    Raises:
        DataError: a needed column is missing, or has no number where ``at_least`` or ``at_most`` needs one.
    """
    column_of = _column_of(source, roles)
    wanted = {column_of[name]: set(values) for name, values in source.where.items()}
    unwanted = {column_of[name]: set(values) for name, values in source.where_not.items()}
    for number, row in enumerate(rows, start=1):
        if number == 1 and (missing := sorted(set(column_of.values()) - set(row))):
            setting = "group = ..." if missing[0] == source.group else 'columns = { role = "column" }'
            raise DataError(missing_column(describe_source(source), missing[0], row, setting))
        if any(row.get(column, "") not in values for column, values in wanted.items()):
            continue
        if any(row.get(column, "") in values for column, values in unwanted.items()):
            continue
        if _in_bounds(source, number, row):
            yield dict.fromkeys(roles, "") | _by_role(row, source.columns)


def _column_of(source: Source, roles: Sequence[str]) -> dict[str, str]:
    """Return the columns that a source must have, by role or, in filters, by their own name."""
    named = {*roles, *source.columns, *source.where, *source.where_not, *source.at_least, *source.at_most}
    return {name: source.columns.get(name, name) for name in named}


def _by_role(raw: Row, column_of: dict[str, str]) -> Row:
    """Rename columns to their roles; a column without a role keeps its name."""
    if not column_of:
        return raw
    renamed = set(column_of.values())
    row = {name: value for name, value in raw.items() if name not in renamed}
    return row | {role: raw.get(column, "") for role, column in column_of.items()}


def _in_bounds(source: Source, number: int, row: Row) -> bool:
    """Check that a row's numbers are in the bounds; one that is none is a DataError."""
    for key, holds in (("at_least", ge), ("at_most", le)):
        for name, bound in getattr(source, key).items():
            column = source.columns.get(name, name)
            try:
                if not holds(float(row.get(column, "")), bound):
                    return False
            except ValueError as error:
                raise DataError(
                    f"{describe_source(source)}, row {number}: expected a number in {column!r} ({key}), "
                    f"found {row.get(column, '')!r}; fix the row or drop {key}"
                ) from error
    return True


def check_scores(source: Source, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows; DataError if a score is no finite number, with the names of the source and the row."""
    for number, row in enumerate(rows, start=1):
        try:
            finite = math.isfinite(float(row["score"]))
        except ValueError:
            finite = False
        if not finite:
            raise DataError(
                f"{describe_source(source)}, row {number}: expected a number as score, found "
                f"{row['score']!r}; fix or drop the row"
            )
        yield row


def grouped_rows(source: Source, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[Row, Row]]:
    """Read pairs of rows with the same value in the column ``source.group``, with ``roles``, in their order.

    The last of an odd number is left out, and so are rows without a value in the column or in a role.

    Raises:
        DataError: the source cannot be read, or no group has two rows.
    """
    unpaired: dict[str, Row] = {}
    rows = pairs = 0
    for row in read_rows(source, root, (*roles, source.group)):
        rows += 1
        if all(row.get(name) for name in (source.group, *roles)):
            first = unpaired.pop(row[source.group], None)
            if first is None:
                unpaired[row[source.group]] = row
            else:
                pairs += 1
                yield first, row
    if not pairs:
        raise DataError(
            f"{describe_source(source)}: expected rows with the same {source.group!r}, found none among "
            f"{rows:,}; name the column that rows of one meaning share with group = ..."
        )


def both_sources(source: Source, lang: str, pivot: str) -> tuple[Source, Source]:
    """Return the two files of a joined source, resolved: the language's, and the pivot's.

    Filters choose rows of the language's. The pivot's text is in the column of the role ``pivot``, if that is
    named.
    """
    own, other = resolve_source(source, lang, pivot), resolve_source(source, pivot, pivot)
    columns = {role: name for role, name in own.columns.items() if role != "pivot"}
    if "pivot" in other.columns:
        other.columns["text"] = other.columns.pop("pivot")
    filters: dict[str, Any] = {key: {} for key in ROW_CONDITIONS}
    other = replace(other, path=own.pivot_path, pivot_path=None, **filters)
    return replace(own, columns=columns), other


def joined_rows(own: Source, other: Source, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[Row, Row]]:
    """Read pairs of rows, both with ``roles``, of the language's file and the pivot's (:func:`both_sources`).

    They are joined on ``key``, in the order of the language's.

    Raises:
        DataError: a source cannot be read, or they have no key in common.
    """
    pivots = dict(_by_key(other, root, roles))
    first, shared = "no rows", False
    for number, (value, row) in enumerate(_by_key(own, root, roles)):
        first = first if number else value
        if value in pivots:
            shared = True
            yield row, pivots[value]
    if not shared:
        heads = f"{first!r} … and {next(iter(pivots), 'no rows')!r} …"
        raise DataError(
            f"{describe_source(own)} and {describe_source(other)}: expected rows with the same "
            f"{own.key!r}, found none in common ({heads}); name the column with key = ..."
        )


def _by_key(source: Source, root: Path, roles: tuple[str, ...]) -> Iterator[tuple[str, Row]]:
    """Yield a source's rows with their keys; DataError if two rows have the same."""
    seen: set[str] = set()
    # A column that has a role is found under it.
    column = next((role for role, name in source.columns.items() if name == source.key), source.key)
    for row in read_rows(source, root, (*roles, source.key)):
        key = row[column]
        if key in seen:
            raise DataError(
                f"{describe_source(source)}: expected each {source.key!r} once, found {key!r} again; "
                "name a column without repeats with key = ..."
            )
        seen.add(key)
        yield key, row
