"""Training data from sources: rows are read, filtered and repeated, and some are held out.

It needs no recipe::

    pairs = load(PARALLEL, [Source(path="kk-en.tsv")], "kk", held_out=200)
    pairs.train[0].text, pairs.train[0].pivot
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from modenc.data.filters import DEFAULT_FILTERS, Filters, TextFilter, summary
from modenc.data.formats import Row
from modenc.data.kinds import PASSAGES, TEXT, DataKind
from modenc.data.sources import Source, describe_source, resolve_source
from modenc.data.text import sentence_key, stable_hash
from modenc.errors import DataError
from modenc.texts import normalize

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Constant, so that runs with different seeds are compared on the same held-out rows.
_HELD_OUT_SALT = "modenc held out"

# In characters: more than a model of 512 tokens reads.
_LONGEST_PASSAGE = 10_000

# Largest share of a small corpus that is held out.
_MAX_HELD_OUT_SHARE = 0.1


@dataclass(frozen=True)
class TrainingSet(Generic[T]):
    """The usable rows of a kind of data."""

    train: list[T]
    """Training rows, in the order of the sources; those of a source with ``repeat`` occur several times."""
    held_out: list[T]
    """Held-out rows, all different; at most a tenth of all rows, and none of their texts is in ``train``."""
    counts: Counter[str]
    """Number of rows ``kept``, and of dropped rows by reason."""
    sources: list[dict[str, Any]]
    """Entries of a card's ``data``, one for each source: ``role``, the name of its :class:`DataKind`;
    ``source``, a file or data set; ``license``; ``rows``, the number of those used; ``translator``."""
    fingerprint: str
    """SHA-256 of the rows."""


def load(
    kind: DataKind[T],
    sources: Sequence[Source],
    lang: str,
    pivot: str = "en",
    *,
    root: Path = Path(),
    filters: Filters = DEFAULT_FILTERS,
    held_out: int = 0,
    not_in: Set[str] = frozenset(),
) -> TrainingSet[T]:
    """Read and filter sources; duplicates are dropped across all of them. Without sources the set is empty.

    Args:
        kind: kind of their data: ``TEXT``, ``PARALLEL``, ….
        sources: sources of the rows; ``{lang}`` and ``{pivot}`` in their strings are filled in.
        lang: code of the language.
        pivot: code of the pivot language.
        root: folder that relative paths start from.
        filters: conditions for keeping rows.
        held_out: number of rows to hold out, of kinds with a ``held_out_role``.
        not_in: rows with one of these texts, as ``sentence_key`` writes them, are dropped.

    Raises:
        DataError: a source cannot be read, a score is no number, fewer than ``kind.min_rows`` rows are
            usable, or too small a share of them is in the language.
    """
    if kind is PASSAGES:
        filters = replace(filters, max_chars=_LONGEST_PASSAGE)
    row_filter = TextFilter(filters, lang, not_in=not_in)
    found: list[Row] = []
    records: list[dict[str, Any]] = []
    for source in sources:
        resolved = resolve_source(source, lang, pivot)
        usable = list(row_filter.select(kind.read(source, lang, pivot, root), kind))
        name = _name(resolved, {record["source"] for record in records})
        found += usable * source.repeat
        about = {"license": source.license, "rows": len(usable), "translator": resolved.translator}
        records.append({"role": kind.name, "source": name, **about})
    row_filter.check.check_language_share()
    if sources:
        count, counted = row_filter.counts["kept"], summary(row_filter.counts)
        if count < kind.min_rows:
            what = f"{'lines of text' if kind is TEXT else 'pairs'} (data.{kind.name})"
            raise DataError(
                f"{lang}: found {count:,} usable {what}, expected at least {kind.min_rows}; {counted}. Add "
                "sources or loosen the filters (data.min_chars, data.max_chars, data.check_language)"
            )
        logger.info("%s %s: %s", lang, kind.name.replace("_", " "), counted)
    parts = [found] if kind.held_out_role is None else _hold_out(found, held_out, kind)
    train, *rest = [[_make_row(kind, row) for row in part] for part in parts]
    return TrainingSet(train, rest[0] if rest else [], row_filter.counts, records, _fingerprint(train, *rest))


def _make_row(kind: DataKind[T], row: Row) -> T:
    values: list[str | float | None] = [row[role] for role in kind.required]
    values += [row[kind.optional] or None] if kind.optional else []
    return kind.row(*values, *([float(row[kind.score])] if kind.score else []))


def _name(source: Source, taken: Collection[str]) -> str:
    """Return a source's name for cards, distinct for parts of one file under several licenses."""
    name = describe_source(source)
    if name not in taken:
        return name
    parts = [", ".join(values) for values in source.where.values()] or [", ".join(source.columns.values())]
    name = f"{name} ({'; '.join(parts)})"
    return name if name not in taken else f"{name} #{len(taken) + 1}"


def _hold_out(rows: list[Row], count: int, kind: DataKind[Any]) -> tuple[list[Row], list[Row]]:
    """Split rows into training rows and at most ``count`` held-out rows.

    The choice depends on the texts under ``held_out_role`` alone, so that it hardly changes when sources are
    added. No training row has a text of a held-out row, in either language.
    """
    first: dict[int, Row] = {}
    for row in rows:
        first.setdefault(stable_hash(row[kind.held_out_role or ""], _HELD_OUT_SALT), row)
    chosen = set(sorted(first)[: min(count, int(len(first) * _MAX_HELD_OUT_SHARE))])
    held_out = [row for key, row in first.items() if key in chosen]
    texts = {sentence_key(row[role]) for row in held_out for role in kind.required}
    train = [row for row in rows if texts.isdisjoint(sentence_key(row[role]) for role in kind.required)]
    return train, held_out


def _fingerprint(*parts: Sequence[object]) -> str:
    """SHA-256, in hexadecimal, of sequences of strings or tuples, in their order."""
    hasher = sha256()
    for part in parts:
        for item in part:
            hasher.update(json.dumps(item, ensure_ascii=True).encode() + b"\n")
        hasher.update(b"\x00")
    return hasher.hexdigest()


def load_dev(
    kind: DataKind[T], sources: Sequence[Source], lang: str, pivot: str = "en", *, root: Path = Path()
) -> list[T]:
    """Read a development set of a ``kind``; texts are normalized, and no row is dropped.

    Relative paths start from ``root``.

    Raises:
        DataError: a source cannot be read, a text is empty, a score is not a finite number, or all scores are
            the same.
    """
    rows: list[T] = []
    scores: set[float] = set()
    for source in sources:
        name = describe_source(resolve_source(source, lang, pivot))
        for number, row in enumerate(kind.read(source, lang, pivot, root), start=1):
            texts = {role: normalize(row[role]) for role in kind.required}
            if missing := [role for role, text in texts.items() if not text]:
                raise DataError(
                    f"{name}, row {number}: expected a {' and a '.join(texts)}, found "
                    f"no {missing[0]}; drop the row"
                )
            if kind.score:
                scores.add(float(row[kind.score]))
            rows.append(_make_row(kind, row | texts))
    if len(scores) == 1:
        # The rank correlation with a constant is undefined.
        raise DataError(
            f"{lang}: {'.'.join(kind.place)} ({', '.join(map(describe_source, sources))}): expected rows of "
            f"different scores, found {len(rows)} with the score {scores.pop():g}; add rows with other "
            f"scores, or leave {'.'.join(kind.place)} out"
        )
    return rows
