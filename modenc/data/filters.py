"""Filters of rows, and counts of the rows they kept and dropped."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, fields
from itertools import islice

from modenc.data.formats import Row
from modenc.data.language_check import Filters, LanguageCheck
from modenc.data.text import sentence_key, stable_hash
from modenc.langid import LanguageIdentifier
from modenc.texts import normalize

_BATCH = 1024
_SAMPLE = 1000


@dataclass(frozen=True)
class FilterReport:
    """Counts of kept rows and, by reason, of dropped ones."""

    kept: int = 0
    empty: int = 0
    too_short: int = 0
    too_long: int = 0
    identical: int = 0
    duplicate: int = 0
    in_evaluation_data: int = 0
    wrong_script: int = 0
    wrong_language: int = 0

    @property
    def read(self) -> int:
        """Number of rows read."""
        return sum(vars(self).values())

    def summary(self) -> str:
        """Summarize the counts: ``read 1,000, kept 940 (40 too short, 20 duplicate)``."""
        reasons = [f.name for f in fields(self) if f.name != "kept"]
        dropped = [f"{getattr(self, r):,} {r.replace('_', ' ')}" for r in reasons if getattr(self, r)]
        return f"read {self.read:,}, kept {self.kept:,}" + (f" ({', '.join(dropped)})" if dropped else "")


@dataclass(frozen=True)
class RowShape:
    """Roles of a row that the filters check."""

    required: tuple[str, ...]
    """Roles that are normalized; the row is dropped if one is empty, too short or too long."""
    in_language: tuple[str, ...]
    """Roles of ``required`` whose script and language are checked."""
    optional: str | None = None
    """Role that is normalized, and emptied if it is too short or too long (a hard negative)."""
    score: str | None = None
    """Role that is no text and stays as it is."""


class TextFilter:
    """Normalizes rows and drops the bad ones, across all the sources of a corpus.

    Duplicates are rows of the same sentences, among all rows that the filter has seen. For
    translations, ``pivot`` is the other side's language: see
    :class:`~modenc.data.language_check.LanguageCheck`. Rows with a text of ``not_in``, a set of
    :func:`~modenc.data.text.sentence_key`, are dropped.
    """

    def __init__(
        self,
        filters: Filters,
        lang: str,
        identifier: LanguageIdentifier | None,
        pivot: str | None = None,
        not_in: Set[str] = frozenset(),
    ) -> None:
        self._filters = filters
        self._not_in = not_in
        self._check = LanguageCheck(lang, identifier, pivot, filters)
        self._counts: Counter[str] = Counter()
        self._seen: set[int] = set()
        self._sample: list[tuple[int, str]] = []

    @property
    def report(self) -> FilterReport:
        """Counts of the rows so far."""
        return FilterReport(**self._counts)

    def check_language_share(self) -> None:
        """Check that enough of the rows so far are in the language.

        Raises:
            DataError: see ``LanguageCheck.check_language_share``; it gets an even sample of 1,000 lines.
        """
        self._check.check_language_share([text for _, text in sorted(self._sample, reverse=True)])

    def select(self, rows: Iterable[Row], shape: RowShape) -> Iterator[Row]:
        """Yield the rows that pass the filters, normalized, in their order."""
        remaining = self._well_formed(rows, shape)
        while batch := list(islice(remaining, _BATCH)):
            verdicts = self._check.verdicts([row[role] for row in batch for role in shape.in_language])
            width = len(shape.in_language)
            for i, row in enumerate(batch):
                reason = next(filter(None, verdicts[i * width : (i + 1) * width]), None)
                self._counts[reason or "kept"] += 1
                if not reason:
                    yield row

    def _well_formed(self, rows: Iterable[Row], shape: RowShape) -> Iterator[Row]:
        for row in rows:
            row = self._normalized(row, shape)
            keys = [self._key(row[role], role, shape) for role in shape.required]
            reason = self._drop_reason([row[role] for role in shape.required], keys)
            if reason is not None:
                self._counts[reason] += 1
                continue
            for role in shape.in_language:
                self._remember(row[role])
            yield row

    def _normalized(self, row: Row, shape: RowShape) -> Row:
        roles = shape.required if shape.optional is None else (*shape.required, shape.optional)
        normal = {role: normalize(row.get(role, "")) for role in roles}
        if (role := shape.optional) is not None and (
            self._length_reason(normal[role]) or self._key(normal[role], role, shape) in self._not_in
        ):
            normal[role] = ""
        return normal if shape.score is None else normal | {shape.score: row[shape.score]}

    def _key(self, text: str, role: str, shape: RowShape) -> str:
        return sentence_key(text, self._check.lang if role in shape.in_language else None)

    def _drop_reason(self, texts: Sequence[str], keys: Sequence[str]) -> str | None:
        if not all(any(map(str.isalpha, text)) for text in texts):
            return "empty"
        for text in texts:
            if reason := self._length_reason(text):
                return reason
        if len(keys) > 1 and len(set(keys)) < len(keys):
            return "identical"
        if not self._not_in.isdisjoint(keys):
            return "in_evaluation_data"
        if self._filters.deduplicate:
            # Hashes of 64 bits need a fifth of the memory of the strings, and collide in no corpus that fits.
            hashed = stable_hash("\n".join(keys))
            if hashed in self._seen:
                return "duplicate"
            self._seen.add(hashed)
        return None

    def _length_reason(self, text: str) -> str | None:
        if len(text) < self._filters.min_chars:
            return "too_short"
        return "too_long" if len(text) > self._filters.max_chars else None

    def _remember(self, text: str) -> None:
        """Keep the lines with the smallest hashes: an even sample, whatever the order of sources."""
        entry = (-stable_hash(text), text)
        if len(self._sample) < _SAMPLE:
            heapq.heappush(self._sample, entry)
        elif entry > self._sample[0]:
            heapq.heapreplace(self._sample, entry)
