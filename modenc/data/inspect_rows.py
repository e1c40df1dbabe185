"""What is seen of one file: its columns, its first rows, how many there are, what its filters leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from modenc.data.files import Row
from modenc.data.joining import Pairing
from modenc.data.readers import describe_source, raw_rows, select_rows
from modenc.errors import DataError, LanguageError
from modenc.languages import language_name, normalize_code
from modenc.recipe.issues import Issue, Place
from modenc.recipe.settings import LanguagePlan, Source
from modenc.suggest import closest_match

# What is in the rows is looked at in the first of them; that many are read to count them.
_LOOKED_AT = 200
_MOST_ROWS = 100_000
_MOST_CHARACTERS = 50_000_000
_MOST_VALUES = 1000
_SHOWN = 12


@dataclass
class Seen:
    """What was seen of a source."""

    name: str
    """What messages call it."""
    rows: int = 0
    """Rows read, before any filter."""
    kept: int = 0
    """Of these, rows that pass the source's filters; with ``group``, the pairs that they make."""
    whole: bool = False
    """Whether all rows were read."""
    given: int = 0
    """Rows of training data that ``kept`` come to."""
    counted: bool = False
    """Whether ``kept`` is all that the source gives."""
    sample: list[Row] = field(default_factory=list)
    """The first rows that pass, by role."""
    words: set[str] = field(default_factory=set)
    """Different words of the rows that pass, where they are counted."""
    values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Column that a filter names → values met there."""
    conflicts: list[Issue] = field(default_factory=list)
    """What is wrong with it."""


def see(
    path: Place, source: Source, roles: tuple[str, ...], plan: LanguagePlan, *, count_words: bool = False
) -> Seen:
    """Look into a resolved source.

    Args:
        path: its place in the recipe.
        source: with ``{lang}`` and ``{pivot}`` filled in.
        roles: what each row must have.
        plan: the plan of the language that it belongs to.
        count_words: whether to gather the different words of the role ``text``.
    """
    seen = Seen(describe_source(source))
    pairing = Pairing(source.group, tuple(role for role in roles if role != source.group))
    watched = _watched(seen, source, raw_rows(source, plan.data.root))
    try:
        first = next(watched, None)
        if first is None:
            seen.conflicts.append(Issue(path, f"{seen.name}: expected rows, found none"))
            return seen
        if wrong := list(_wrong_columns(path, source, roles, first, plan)):
            seen.conflicts += wrong
            return seen
        rows = select_rows(_again(first, watched), source, roles)
        for row in islice(rows, source.limit or None):
            seen.kept += 1
            if len(seen.sample) < _LOOKED_AT:
                seen.sample.append(row)
            if count_words:
                seen.words.update(row["text"].split())
            if source.group:
                pairing.partner(row)
    except DataError as error:
        seen.conflicts.append(Issue(path, str(error)))
        return seen
    seen.counted = seen.whole or 0 < source.limit <= seen.kept
    seen.conflicts += _filters(path, source, seen)
    if source.group:
        if seen.kept and seen.whole and not pairing.pairs:
            seen.conflicts.append(Issue((*path, "group"), f"{seen.name}: {pairing.fault()}"))
        seen.kept = pairing.pairs
    return seen


def _again(first: Row, rest: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rest


def _watched(seen: Seen, source: Source, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows up to the bound, counted, and the values of the columns that filters name."""
    named: dict[str, set[str]] = defaultdict(set)
    for name, values in (*source.where.items(), *source.where_not.items()):
        named[source.columns.get(name, name)].update(values)
    characters = 0
    for row in rows:
        characters += sum(map(len, row.values()))
        if seen.rows == _MOST_ROWS or characters > _MOST_CHARACTERS:
            return
        seen.rows += 1
        for column, own in named.items():
            value = row.get(column, "")
            if len(seen.values[column]) < _MOST_VALUES or value in own:
                seen.values[column].add(value)
        yield row
    seen.whole = True


def _wrong_columns(
    path: Place, source: Source, roles: tuple[str, ...], row: Row, plan: LanguagePlan
) -> Iterator[Issue]:
    """Columns that the recipe names, or its roles need, and the file lacks."""
    needed = {role: ("columns", role) if role in source.columns else ("path",) for role in roles}
    needed |= {role: ("columns", role) for role in source.columns}
    # Columns that are no role's are named by a setting of their own.
    own = {source.group: "group"} if source.group else {source.key: "key"} if source.pivot_path else {}
    needed |= {name: (key,) for name, key in own.items() if name in needed}
    for key in ("where", "where_not", "at_least", "at_most"):
        needed |= {name: (key, name) for name in getattr(source, key) if name not in needed}
    taken = {source.columns.get(name, name) for name in needed}
    free = [column for column in row if column not in taken]
    for role, place in needed.items():
        column = source.columns.get(role, role)
        if column not in row:
            found = ", ".join(map(repr, list(row)[:_SHOWN]))
            what = f" ({role})" if column != role else ""
            message = f"{describe_source(source)}: expected a column {column!r}{what}, found {found}"
            guess = closest_match(column, free) or ("" if role in own else _of_language(role, free, plan))
            setting = f'{own[role]} = "%s"' if role in own else f'columns = {{ {role} = "%s" }}'
            yield Issue((*path, *place), f"{message}; {_hint(guess, setting, row)}")


def _hint(guess: str | None, setting: str, row: Row) -> str:
    """What to do for a column that is not there: ``guess`` is probably meant, ``setting`` names it."""
    if any(len(name) > 40 or name.count(" ") > 2 for name in row):
        return "a table's first line names its columns: put such a line above the first row"
    if guess:
        return f"did you mean {guess!r}? {setting % guess} says so"
    if len(row) == 1 and any(mark in next(iter(row)) for mark in ",;"):
        return "a table with commas has a name in .csv"
    return f"say which it is with {setting % '...'}"


def _of_language(role: str, free: list[str], plan: LanguagePlan) -> str | None:
    """The column that is named by the language that a role is in."""
    code = plan.pivot if role == "pivot" else plan.lang
    for column in free:
        try:
            if column.lower() == language_name(code).lower() or normalize_code(column) == code:
                return column
        except LanguageError:
            continue
    return None


def _filters(path: Place, source: Source, seen: Seen) -> Iterator[Issue]:
    """Filters that leave nothing, and values in them that are probably misspelt."""
    for key in ("where", "where_not"):
        for name, values in getattr(source, key).items():
            met = seen.values[source.columns.get(name, name)]
            for value in values:
                match = None if value in met else closest_match(value, met - set(values))
                if match is not None and seen.whole:
                    message = f"{seen.name}: no row has {value!r} in {name!r}; did you mean {match!r}?"
                    yield Issue((*path, key, name), message, level="warning")
    if seen.kept or not seen.rows:
        return
    met_values = "; ".join(
        f"{column!r} holds {', '.join(map(repr, sorted(values)[:_SHOWN]))}"
        for column, values in seen.values.items()
    )
    found = f"found none among {'all' if seen.whole else 'the first'} {seen.rows:,}"
    message = f"{seen.name}: expected rows that pass the filters, {found}"
    yield Issue(
        path,
        f"{message} ({met_values})" if met_values else message,
        level="error" if seen.whole else "warning",
    )
