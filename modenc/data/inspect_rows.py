"""Inspection of one source: its columns, first rows and number of rows, and the effect of its filters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from modenc.data.formats import Row
from modenc.data.joining import ROW_CONDITIONS, GroupPairing
from modenc.data.sources import describe_source, read_raw_rows, select_rows
from modenc.errors import DataError
from modenc.languages import find_code, language_name
from modenc.recipe.issues import Issue, Place
from modenc.recipe.settings import LanguagePlan, Source
from modenc.suggest import closest_match

# Rows whose texts are checked, and bounds on what is read to count rows.
_SAMPLED_ROWS = 200
_MOST_ROWS = 100_000
_MOST_CHARACTERS = 50_000_000
_MOST_VALUES = 1000
_SHOWN = 12


@dataclass
class InspectedSource:
    """Rows of a source, counted up to a bound, and the issues found in them."""

    name: str
    read: int = 0
    """Number of rows read, before any filter."""
    selected: int = 0
    """Number of rows that pass the source's filters; with ``group``, the pairs that they make."""
    whole: bool = False
    """Whether all rows were read."""
    training_rows: int = 0
    """Number of training rows that ``selected`` result in."""
    is_exact: bool = False
    """Whether ``selected`` counts all rows of the source."""
    sample: list[Row] = field(default_factory=list)
    """First rows that pass, by role."""
    words: set[str] = field(default_factory=set)
    """Distinct words of the rows that pass, if they are counted."""
    values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Column that a filter names → values found there."""
    issues: list[Issue] = field(default_factory=list)


def inspect_source(
    path: Place, source: Source, roles: tuple[str, ...], plan: LanguagePlan, *, count_words: bool = False
) -> InspectedSource:
    """Inspect the resolved source at ``path`` in the recipe, whose rows must have ``roles``."""
    inspected = InspectedSource(describe_source(source))
    pairing = GroupPairing(source.group, tuple(role for role in roles if role != source.group))
    watched = _watched(inspected, source, read_raw_rows(source, plan.data.root, roles))
    try:
        first = next(watched, None)
        if first is None:
            inspected.issues.append(Issue(path, f"{inspected.name}: expected rows, found none"))
            return inspected
        if wrong := list(_wrong_columns(path, source, roles, first, plan)):
            inspected.issues += wrong
            return inspected
        rows = select_rows(chain([first], watched), source, roles)
        for row in islice(rows, source.limit or None):
            inspected.selected += 1
            if len(inspected.sample) < _SAMPLED_ROWS:
                inspected.sample.append(row)
            if count_words:
                inspected.words.update(row["text"].split())
            if source.group:
                pairing.add(row)
    except DataError as error:
        inspected.issues.append(Issue(path, str(error)))
        return inspected
    inspected.is_exact = inspected.whole or 0 < source.limit <= inspected.selected
    inspected.issues += _check_filters(path, source, inspected)
    if source.group:
        if inspected.selected and inspected.whole and not pairing.pairs:
            inspected.issues.append(Issue((*path, "group"), f"{inspected.name}: {pairing.error()}"))
        inspected.selected = pairing.pairs
    return inspected


def _watched(inspected: InspectedSource, source: Source, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield rows up to the bound, counting them and collecting the values of columns that filters name."""
    named: dict[str, set[str]] = defaultdict(set)
    for name, values in (*source.where.items(), *source.where_not.items()):
        named[source.columns.get(name, name)].update(values)
    characters = 0
    for row in rows:
        characters += sum(map(len, row.values()))
        if inspected.read == _MOST_ROWS or characters > _MOST_CHARACTERS:
            return
        inspected.read += 1
        for column, wanted in named.items():
            value = row.get(column, "")
            if len(inspected.values[column]) < _MOST_VALUES or value in wanted:
                inspected.values[column].add(value)
        yield row
    inspected.whole = True


def _wrong_columns(
    path: Place, source: Source, roles: tuple[str, ...], row: Row, plan: LanguagePlan
) -> Iterator[Issue]:
    """Find columns that the recipe names, or its roles need, and the file lacks."""
    needed = {role: ("columns", role) if role in source.columns else ("path",) for role in roles}
    needed |= {role: ("columns", role) for role in source.columns}
    # These columns have no role; a setting of their own names them.
    keys = {source.group: "group"} if source.group else {source.key: "key"} if source.pivot_path else {}
    needed |= {name: (key,) for name, key in keys.items() if name in needed}
    for key in ROW_CONDITIONS:
        needed |= {name: (key, name) for name in getattr(source, key) if name not in needed}
    taken = {source.columns.get(name, name) for name in needed}
    free = [column for column in row if column not in taken]
    for role, place in needed.items():
        column = source.columns.get(role, role)
        if column not in row:
            found = ", ".join(map(repr, list(row)[:_SHOWN]))
            what = f" ({role})" if column != role else ""
            message = f"{describe_source(source)}: expected a column {column!r}{what}, found {found}"
            guess = closest_match(column, free) or (
                "" if role in keys else _column_of_language(role, free, plan)
            )
            setting = f'{keys[role]} = "%s"' if role in keys else f'columns = {{ {role} = "%s" }}'
            yield Issue((*path, *place), f"{message}; {_hint(guess, setting, row)}")


def _hint(guess: str | None, setting: str, row: Row) -> str:
    """Advise on a missing column: ``guess`` is probably meant, and ``setting`` is how to name it."""
    if any(len(name) > 40 or name.count(" ") > 2 for name in row):
        return "add a header line with column names above the first row"
    if guess:
        return f"did you mean {guess!r}? Then add {setting.replace('%s', guess)}"
    if len(row) == 1 and any(mark in next(iter(row)) for mark in ",;"):
        return "rename it to .csv if commas separate its columns"
    return f"name the column with {setting.replace('%s', '...')}"


def _column_of_language(role: str, free: list[str], plan: LanguagePlan) -> str | None:
    """Find the column that is called by the language of a role."""
    code = plan.pivot if role == "pivot" else plan.lang
    name = language_name(code).lower() if find_code(code) else None
    return next((column for column in free if column.lower() == name or find_code(column) == code), None)


def _check_filters(path: Place, source: Source, inspected: InspectedSource) -> Iterator[Issue]:
    """Find filters that no row passes, and values in them that are probably misspelled."""
    for key in ("where", "where_not"):
        for name, values in getattr(source, key).items():
            met = inspected.values[source.columns.get(name, name)]
            for value in values:
                match = None if value in met else closest_match(value, met - set(values))
                if match is not None and inspected.whole:
                    message = f"{inspected.name}: no row has {value!r} in {name!r}; did you mean {match!r}?"
                    yield Issue((*path, key, name), message, level="warning")
    if inspected.selected or not inspected.read:
        return
    found_values = "; ".join(
        f"{column!r} holds {', '.join(map(repr, sorted(values)[:_SHOWN]))}"
        for column, values in inspected.values.items()
    )
    found = f"found none among {'all' if inspected.whole else 'the first'} {inspected.read:,}"
    message = f"{inspected.name}: expected rows that pass the filters, {found}"
    yield Issue(
        path,
        f"{message} ({found_values})" if found_values else message,
        level="error" if inspected.whole else "warning",
    )
