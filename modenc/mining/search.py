"""Vectors and neighbors of two sides, computed in shards on disk, so that a run can resume."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np

from modenc.errors import OptionError
from modenc.evaluation.bitext import NEIGHBORS, Neighbors, nearest_unit_vectors
from modenc.evaluation.retrieval import Vectors, unit
from modenc.evaluation.systems import System
from modenc.mining.sides import Side
from modenc.shards import KEPT, ShardFolder
from modenc.storage import disk_errors

logger = logging.getLogger(__name__)

Progress = Callable[[str, int, int], object]
"""Callback with the name of the work, its newly finished rows, and all its rows."""

# Inverted file: lists for each √row, share of lists that a query searches, and their least number.
_LISTS_PER_ROOT, _PROBED, _LEAST_PROBED = 4, 1 / 16, 4
# Least rows of a list for FAISS, and most rows of a list to learn its center from.
_ROWS_A_LIST, _TRAINED_ON = 39, 64


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search for neighbors.

    Raises:
        OptionError: a value is too small.
    """

    neighbors: int = NEIGHBORS
    """Neighbors of each sentence, for candidates and margins."""
    exact_rows: int = 100_000
    """Most sentences of a side that is searched exactly; a larger side is searched by an inverted file (FAISS
    IVF), which misses a few neighbors."""
    index_bytes: int = 2 * 10**9
    """Most bytes of vectors that are indexed at once; a larger side is searched in several parts."""
    shard_size: int = 2048
    """Sentences in a shard, after which work is saved."""

    def __post_init__(self) -> None:
        for name, least in (("neighbors", 1), ("exact_rows", 0), ("index_bytes", 1), ("shard_size", 1)):
            if (value := getattr(self, name)) < least:
                raise OptionError(f"{name}: expected at least {least}, found {value}")


class _Unit(NamedTuple):
    """Work for one shard: encode rows of a side, or search their neighbors."""

    rows: range
    """Rows to encode or to find neighbors of."""
    side: int
    """Number of the side with these rows."""
    part: range | None = None
    """Rows of the other side to search in; None if ``rows`` are encoded."""


class Search:
    """Computation of all vectors, then of neighbors in both directions, with one shard for each unit.

    Args:
        sides: sentences of both sides.
        system: the encoder.
        settings: settings of the search.
        shards: folder of finished shards.
    """

    def __init__(
        self, sides: Sequence[Side], system: System, settings: SearchSettings, shards: ShardFolder
    ) -> None:
        self.sides = sides
        self.system = system
        self.settings = settings
        self.shards = shards
        self._counts = [len(side.texts) for side in sides]
        self._searcher: tuple[_Unit | None, Callable[[Vectors], Neighbors] | None] = (None, None)
        self._width = 0

    def encode(self, done: int, progress: Progress) -> None:
        """Make the vectors, except the first ``done`` shards."""
        units = [_Unit(rows, side) for side in (0, 1) for rows in self._blocks(side)]
        self._make("encoding", units, 0, done, progress)

    def search(self, done: int, progress: Progress) -> tuple[Neighbors, Neighbors]:
        """Find the neighbors of both sides, except the first ``done`` shards; returns all neighbors."""
        first = self._shards(0) + self._shards(1)
        self._width = self._load(0).shape[1]
        self._make("searching", list(self._searching()), first, done, progress)
        self._searcher = (None, None)
        return self._merged(0, first), self._merged(1, first)

    def _make(self, stage: str, units: list[_Unit], first: int, done: int, progress: Progress) -> None:
        total = sum(len(todo.rows) for todo in units)
        for number, todo in enumerate(units, start=first):
            if number >= done:
                made = self._vectors_of(todo) if todo.part is None else self._neighbors_of(todo)
                with disk_errors(self.shards.folder, KEPT), self.shards.writing(number) as stream:
                    np.save(stream, made)
            progress(stage, len(todo.rows), total)

    def _searching(self) -> Iterator[_Unit]:
        for side in (0, 1):
            for part in self._parts(1 - side):
                yield from (_Unit(rows, side, part) for rows in self._blocks(side))

    def _blocks(self, side: int) -> Iterator[range]:
        size, count = self.settings.shard_size, self._counts[side]
        return (range(start, min(start + size, count)) for start in range(0, count, size))

    def _shards(self, side: int) -> int:
        """Return the number of shards with a side's vectors."""
        return math.ceil(self._counts[side] / self.settings.shard_size)

    def _parts(self, side: int) -> Iterator[range]:
        """Split a side into parts that are indexed at once, in whole shards."""
        size, count = self.settings.shard_size, self._counts[side]
        rows = max(1, self.settings.index_bytes // (4 * self._width) // size) * size
        return (range(start, min(start + rows, count)) for start in range(0, count, rows))

    def _vectors_of(self, todo: _Unit) -> Vectors:
        side = self.sides[todo.side]
        return unit(self.system.encode(side.texts[todo.rows.start : todo.rows.stop], side.lang))

    def _neighbors_of(self, todo: _Unit) -> np.ndarray:
        """Return [rows] of ``cosine`` [k] and ``row`` [k], best first; -1 if the part has fewer than k."""
        assert todo.part is not None
        whole = _Unit(range(0), todo.side, todo.part)
        if self._searcher[0] != whole:
            self._searcher = (None, None)  # its memory is free before the next one is built
            self._searcher = (whole, self._open(1 - todo.side, todo.part))
        assert self._searcher[1] is not None
        found = self._searcher[1](self._vectors(todo.side, todo.rows))
        k = self._k(1 - todo.side)
        result = np.zeros(len(todo.rows), [("cosine", "<f4", (k,)), ("row", "<i8", (k,))])
        result["cosine"], result["row"] = -np.inf, -1
        width = found.rows.shape[1]
        result["cosine"][:, :width], result["row"][:, :width] = found.cosines, found.rows + todo.part.start
        return result

    def _k(self, side: int) -> int:
        return min(self.settings.neighbors, self._counts[side])

    def _open(self, side: int, part: range) -> Callable[[Vectors], Neighbors]:
        """Make a function that searches a part of a side."""
        k = min(self._k(side), len(part))
        if self._counts[side] <= self.settings.exact_rows:
            vectors = self._vectors(side, part)
            return lambda queries: nearest_unit_vectors(queries, vectors, k)
        index = self._inverted_file(side, part)
        return lambda queries: _search(index, queries, k)

    def _inverted_file(self, side: int, part: range) -> Any:
        lists = max(1, min(int(_LISTS_PER_ROOT * math.sqrt(len(part))), len(part) // _ROWS_A_LIST))
        index: Any = faiss.index_factory(self._width, f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT)
        stride = max(1, len(part) // (_TRAINED_ON * lists))
        blocks = [rows for rows in self._blocks(side) if rows.start in part]
        # The sample has every stride-th row, across shards.
        sample = [self._vectors(side, rows)[-rows.start % stride :: stride] for rows in blocks]
        logger.info("%s: indexing %d sentences", self.sides[side].lang, len(part))
        index.train(np.concatenate(sample))
        for rows in blocks:
            index.add(self._vectors(side, rows))
        index.nprobe = max(_LEAST_PROBED, round(lists * _PROBED))
        return index

    def _vectors(self, side: int, rows: range) -> Vectors:
        """Load vectors of rows that begin and end with a shard."""
        size = self.settings.shard_size
        first = (self._shards(0) if side else 0) + rows.start // size
        count = math.ceil(len(rows) / size)
        return np.concatenate([self._load(number) for number in range(first, first + count)])

    def _load(self, number: int) -> np.ndarray:
        path: Path = self.shards.shard(number)
        loaded: np.ndarray = np.load(path)
        return loaded

    def _merged(self, side: int, first: int) -> Neighbors:
        """Merge the neighbors of a side in all parts of the other side."""
        numbers = defaultdict[int, list[int]](list)
        for number, todo in enumerate(self._searching(), start=first):
            if todo.side == side:
                numbers[todo.rows.start].append(number)
        cosines, rows = [], []
        for block in self._blocks(side):
            found = [self._load(number) for number in numbers[block.start]]
            near = np.concatenate([part["cosine"] for part in found], axis=1)
            order = np.argsort(-near, axis=1, kind="stable")[:, : self._k(1 - side)]
            cosines.append(np.take_along_axis(near, order, axis=1))
            rows.append(np.take_along_axis(np.concatenate([p["row"] for p in found], axis=1), order, axis=1))
        return Neighbors(np.concatenate(cosines), np.concatenate(rows))


def _search(index: Any, queries: Vectors, k: int) -> Neighbors:
    """Search an inverted file; queries whose lists hold too few rows search all lists."""
    cosines, rows = index.search(queries, k)
    if (short := (rows < 0).any(axis=1)).any():
        usual, index.nprobe = index.nprobe, index.nlist
        cosines[short], rows[short] = index.search(queries[short], k)
        index.nprobe = usual
    return Neighbors(cosines, rows)
