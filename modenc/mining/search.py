"""Vectors and neighbors of two sides, computed in shards on disk, so that a run can resume."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from modenc.errors import DataError, OptionError
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


class Search:
    """Computation of all vectors, then of neighbors in both directions, in numbered shards.

    Each side is encoded in blocks of ``shard_size`` rows. Then, for each side and each part of the other side
    that is indexed at once, the neighbors of each block are searched. Each block makes one shard.
    """

    def __init__(
        self,
        sides: tuple[Side, Side],
        system: System,
        settings: SearchSettings,
        shards: ShardFolder,
        progress: Progress,
    ) -> None:
        self.sides, self.system, self.settings = sides, system, settings
        self.shards, self.progress = shards, progress
        self._counts = [len(side.texts) for side in sides]
        self._blocks = [self._split(side, settings.shard_size) for side in (0, 1)]
        self._done = 0
        self._width = 0

    def neighbors(self) -> tuple[Neighbors, Neighbors]:
        """Make the shards that are not done yet; returns the neighbors of both sides.

        Raises:
            DataError: the model changed while it encoded.
            StorageError: the disk is full or read-only.
        """
        model = _as_json(self.system.describe())
        job = {
            "languages": [side.lang for side in self.sides],
            "texts": [side.fingerprint() for side in self.sides],
            "model": model,
            "settings": asdict(self.settings),
        }
        self._done = self.shards.begin(job, resumable=True)
        if self._done:
            size = self.settings.shard_size
            logger.info("%d shards of %d sentences are done already; resuming", self._done, size)
        self._encode()
        if _as_json(self.system.describe()) != model:
            raise DataError(
                f"{self.system.name} changed while it encoded; run the same command again, which starts over"
            )
        self._width = self._load(0).shape[1]
        found = self._search()
        return self._merged(0, found[0]), self._merged(1, found[1])

    def _split(self, side: int, size: int) -> list[range]:
        count = self._counts[side]
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    def _encode(self) -> None:
        blocks = [(side, rows) for side in (0, 1) for rows in self._blocks[side]]
        for number, (side, rows) in enumerate(blocks):
            if number >= self._done:
                texts = self.sides[side].texts[rows.start : rows.stop]
                self._save(number, unit(self.system.encode(texts, self.sides[side].lang)))
            self.progress("encoding", len(rows), sum(self._counts))

    def _search(self) -> list[range]:
        """Find the neighbors of both sides; returns the shards of each."""
        size = self.settings.shard_size
        # Whole shards, whose vectors are indexed at once.
        rows = max(1, self.settings.index_bytes // (4 * self._width) // size) * size
        parts = [self._split(side, rows) for side in (0, 1)]
        total = sum(self._counts[side] * len(parts[1 - side]) for side in (0, 1))
        number, found = sum(map(len, self._blocks)), []
        for side in (0, 1):
            first = number
            for part in parts[1 - side]:
                self._search_part(side, part, number, total)
                number += len(self._blocks[side])
            found.append(range(first, number))
        return found

    def _search_part(self, side: int, part: range, first: int, total: int) -> None:
        """Find a side's neighbors in a part of the other side, in the shards from ``first`` on."""
        search = None
        for number, rows in enumerate(self._blocks[side], start=first):
            if number >= self._done:
                search = search or self._open(1 - side, part)
                self._save(number, _padded(search(self._vectors(side, rows)), part, self._k(1 - side)))
            self.progress("searching", len(rows), total)

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
        blocks = [rows for rows in self._blocks[side] if rows.start in part]
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
        first = (len(self._blocks[0]) if side else 0) + rows.start // size
        count = math.ceil(len(rows) / size)
        return np.concatenate([self._load(number) for number in range(first, first + count)])

    def _save(self, number: int, rows: np.ndarray) -> None:
        with disk_errors(self.shards.folder, KEPT), self.shards.writing(number) as stream:
            np.save(stream, rows)

    def _load(self, number: int) -> np.ndarray:
        path: Path = self.shards.shard(number)
        loaded: np.ndarray = np.load(path)
        return loaded

    def _merged(self, side: int, shards: range) -> Neighbors:
        """Merge the neighbors of a side in all parts of the other side."""
        cosines, rows = [], []
        blocks = len(self._blocks[side])
        for block in range(blocks):
            found = [self._load(number) for number in shards[block::blocks]]
            near = np.concatenate([part["cosine"] for part in found], axis=1)
            order = np.argsort(-near, axis=1, kind="stable")[:, : self._k(1 - side)]
            cosines.append(np.take_along_axis(near, order, axis=1))
            rows.append(np.take_along_axis(np.concatenate([p["row"] for p in found], axis=1), order, axis=1))
        return Neighbors(np.concatenate(cosines), np.concatenate(rows))


def _padded(found: Neighbors, part: range, k: int) -> np.ndarray:
    """Return [rows] of ``cosine`` [k] and ``row`` [k], best first; -1 if the part has fewer than k."""
    result = np.zeros(len(found.rows), [("cosine", "<f4", (k,)), ("row", "<i8", (k,))])
    result["cosine"], result["row"] = -np.inf, -1
    width = found.rows.shape[1]
    result["cosine"][:, :width], result["row"][:, :width] = found.cosines, found.rows + part.start
    return result


def _as_json(description: dict[str, Any]) -> Any:
    """Convert a description to the form that it has when it is read from JSON."""
    return json.loads(json.dumps(description))


def _search(index: Any, queries: Vectors, k: int) -> Neighbors:
    """Search an inverted file; queries whose lists hold too few rows search all lists."""
    cosines, rows = index.search(queries, k)
    if (short := (rows < 0).any(axis=1)).any():
        usual, index.nprobe = index.nprobe, index.nlist
        cosines[short], rows[short] = index.search(queries[short], k)
        index.nprobe = usual
    return Neighbors(cosines, rows)
