"""What corpora and pairs have in common: read every source, filter, set rows aside, fingerprint."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from modenc.data.files import Row
from modenc.data.filters import FilterReport, RowShape, TextFilter
from modenc.data.readers import describe_source, resolve_source, source_file
from modenc.data.text import stable_hash
from modenc.langid import LanguageIdentifier
from modenc.provenance import read_record
from modenc.recipe.settings import LanguagePlan, Source

# Not run.seed: runs with different seeds are compared on the same held-out rows.
_HELD_OUT_SALT = "modenc held out"

# A small corpus gives at most this share of its rows to the development set.
_MAX_HELD_OUT_SHARE = 0.1


@dataclass(frozen=True)
class SourceRecord:
    """What a card says of a source: its role, its name, its licence and the rows kept of it."""

    role: str
    source: str
    licence: str
    rows: int


@dataclass(frozen=True)
class Collected:
    """The kept rows of each source, with how often each is shown."""

    groups: list[tuple[list[Row], int]]
    report: FilterReport
    sources: list[SourceRecord]

    @property
    def size(self) -> int:
        """Rows kept, each counted once."""
        return sum(len(rows) for rows, _ in self.groups)

    def rows(self) -> list[Row]:
        """All rows, each as often as its source's ``repeat`` says."""
        return [row for rows, repeat in self.groups for _ in range(repeat) for row in rows]


def collect(
    plan: LanguagePlan,
    identifier: LanguageIdentifier | None,
    role: str,
    read: Callable[[Source], Iterable[Row]],
    shape: RowShape,
) -> Collected:
    """Read and filter the sources of one role (``text``, ``parallel``, …), duplicates across them too.

    Raises:
        DataError: a source cannot be read, or too little of it all is in the language.
    """
    row_filter = TextFilter(plan.data, plan.lang, identifier)
    groups: list[tuple[list[Row], int]] = []
    records: list[SourceRecord] = []
    for source in getattr(plan.data, role):
        rows = list(row_filter.select(read(source), shape))
        resolved = resolve_source(source, plan.lang, plan.pivot)
        name = _name(resolved, plan.data.root, {record.source for record in records})
        groups.append((rows, source.repeat))
        records.append(SourceRecord(role, name, source.licence, len(rows)))
    row_filter.check_share()
    return Collected(groups, row_filter.report, records)


def _name(source: Source, root: Path, taken: Collection[str]) -> str:
    """What a card calls a source; parts of one file under several licenses must not pass for one source."""
    name = describe_source(source)
    if source.path is not None and (record := read_record(source_file(source.path, root))):
        name = f"{name}, {record.credit()}"
    if name not in taken:
        return name
    parts = [", ".join(values) for values in source.where.values()] or [", ".join(source.columns.values())]
    name = f"{name} ({'; '.join(parts)})"
    return name if name not in taken else f"{name} #{len(taken) + 1}"


def hold_out(collected: Collected, count: int, role: str) -> tuple[list[Row], list[Row]]:
    """Split rows into training rows, repeated, and at most ``count`` held-out rows, all different.

    Which rows are held out depends on their text under ``role`` alone, so that it hardly changes
    when sources are added; every row with a held-out text leaves the training rows.
    """
    first: dict[int, Row] = {}
    for rows, _ in collected.groups:
        for row in rows:
            first.setdefault(stable_hash(row[role], _HELD_OUT_SALT), row)
    chosen = set(sorted(first)[: min(count, int(len(first) * _MAX_HELD_OUT_SHARE))])
    train = [row for row in collected.rows() if stable_hash(row[role], _HELD_OUT_SALT) not in chosen]
    return train, [row for key, row in first.items() if key in chosen]


def digest(*parts: Sequence[object]) -> str:
    """SHA-256, in hexadecimal, of sequences of strings, tuples or dicts of strings, in their order."""
    hasher = sha256()
    for part in parts:
        for line in _canonical(part):
            hasher.update(line)
        hasher.update(b"\x00")
    return hasher.hexdigest()


def _canonical(part: Sequence[object]) -> Iterator[bytes]:
    for item in part:
        yield json.dumps(item, ensure_ascii=True, sort_keys=True).encode() + b"\n"
