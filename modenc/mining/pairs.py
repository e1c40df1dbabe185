"""``mine``: find pairs of translations in two unaligned texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from modenc.errors import DataError, OptionError
from modenc.evaluation.bitext import (
    MiningScores,
    Neighbors,
    RowPairs,
    best_by_margin,
    best_threshold,
    candidate_pairs,
    one_to_one,
)
from modenc.evaluation.evaluate import SystemLike, open_system
from modenc.languages import normalize_code
from modenc.mining.search import Progress, Search, SearchSettings
from modenc.mining.sides import DevPairs, Side, add_dev_pairs, make_side
from modenc.shards import ShardFolder
from modenc.storage import disk_errors, write_atomically


class MinedPair(NamedTuple):
    """Two sentences and their margin, which is above 1 if they are nearer to each other than to neighbors."""

    left: str
    right: str
    score: float


@dataclass(frozen=True)
class Mined:
    """Result of mining."""

    pairs: list[MinedPair]
    """Pairs, best score first; each sentence occurs once."""
    threshold: float
    """Least score of the pairs, given or chosen."""
    dev: MiningScores | None
    """Scores of the development pairs with this threshold, percent; None if it was given."""
    read: tuple[int, int]
    """Number of sentences in each text."""
    distinct: tuple[int, int]
    """Number of distinct sentences with letters in each text, which were compared."""


def mine(
    left: Iterable[str],
    right: Iterable[str],
    model: SystemLike,
    langs: tuple[str, str],
    *,
    threshold: float | None = None,
    dev: Iterable[tuple[str, str]] | None = None,
    output: str | Path | None = None,
    settings: SearchSettings | None = None,
    progress: Progress = lambda stage, rows, total: None,
) -> Mined:
    """Find the sentences of two texts that translate each other.

    Pairs are scored by ratio margin (Artetxe and Schwenk, 2019) among the nearest neighbors of both
    directions. From the best score down to the threshold, each sentence is used once. The same texts, model
    and settings give the same pairs.

    Args:
        left: sentences, in any order; equal ones count as one.
        right: sentences of the other language.
        model: the model: a hub's folder, a :class:`~modenc.ModularEncoder`, any
            ``SentenceTransformer`` or its name, or a :class:`~modenc.evaluation.systems.System`.
        langs: languages of ``left`` and ``right``.
        threshold: least score of a pair, such as 1.05; give this or ``dev``.
        dev: known pairs, whose F1 chooses the threshold. They are added to the texts while scores are
            computed, and are in the result only if the texts have them, too. A pair with one side empty is a
            sentence without a translation: give about as many of these as ``left`` and ``right`` have, since
            the threshold would otherwise be too low.
        output: .tsv file for the pairs, with both languages and ``score`` as columns. Finished work is kept
            in ``OUTPUT.parts/``, from which an interrupted run resumes. By default nothing is written.
        settings: settings of the search for neighbors.
        progress: called with ``encoding`` or ``searching``, the newly finished rows, and all its rows.

    Returns:
        The pairs, the threshold, and the percentage of development pairs found.

    Raises:
        DataError: a text has no sentences, ``dev`` has no translations, the languages are the same, another
            process writes the output, or the model changed in the meantime.
        OptionError: neither or both of ``threshold`` and ``dev`` are given.
        HubError: a hub cannot be opened.
        StorageError: the disk is full or read-only.

    Example:
        >>> from modenc.mining import mine
        >>> kk = ["Бала кітап оқып отыр.", "Бүгін жаңбыр жауып тұр."]
        >>> en = ["It is raining today.", "The child is reading a book."]
        >>> mined = mine(kk, en, "adapters_hub/me5-small", ("kk", "en"), threshold=1.0)
        >>> pairs = [(pair.left, pair.right) for pair in mined.pairs]
    """
    if (threshold is None) == (dev is None):
        raise OptionError("expected one of threshold and dev, found neither or both; give one")
    codes = [normalize_code(lang) for lang in langs]
    if codes[0] == codes[1]:
        raise DataError(f"expected two languages, found {codes[0]} for both; give the language of each text")
    sides = (make_side(left, codes[0]), make_side(right, codes[1]))
    known = None if dev is None else add_dev_pairs(dev, *sides)
    system = open_system(model)
    with _output_file(output) as target:
        shards = ShardFolder(target, ".npy")
        with shards.alone():
            search = Search(sides, system, settings or SearchSettings(), shards, progress)
            mined = _choose(sides, _best_matches(*search.neighbors()), threshold, known)
            with disk_errors(target, "finished work is kept"):
                write_atomically(target, _table(mined, codes))
            shards.remove()
    return mined


@contextmanager
def _output_file(output: str | Path | None) -> Iterator[Path]:
    """Yield the file for the pairs: ``output``, or one in a temporary folder."""
    if output is not None:
        yield Path(output)
    else:
        with TemporaryDirectory() as folder:
            yield Path(folder) / "pairs.tsv"


def _best_matches(forward: Neighbors, backward: Neighbors) -> RowPairs:
    """Return the best matches of both directions, best margin first."""
    means = [found.cosines.mean(axis=1) for found in (forward, backward)]
    return candidate_pairs(best_by_margin(forward, means[1]), best_by_margin(backward, means[0]))


def _choose(
    sides: tuple[Side, Side], pairs: RowPairs, threshold: float | None, known: DevPairs | None
) -> Mined:
    scores = None
    if known is not None:
        free = one_to_one(pairs)
        in_dev = np.isin(free.left, known.left) | np.isin(free.right, known.right)
        scores = best_threshold(free.select(in_dev), known.gold)
        if not scores.f1:
            raise DataError(
                f"dev: expected translations among the best matches, found none of {len(known.gold)}; check "
                "which language is in which column, or give a threshold"
            )
        threshold = scores.threshold
    assert threshold is not None
    left, right = sides
    # Added development sentences are left out before each sentence gets its best match.
    own = one_to_one(pairs.select((pairs.left < left.own) & (pairs.right < right.own)))
    kept = own.select(own.scores >= threshold)
    rows = zip(kept.left.tolist(), kept.right.tolist(), kept.scores.tolist(), strict=True)
    mined = [MinedPair(left.texts[row], right.texts[match], score) for row, match, score in rows]
    return Mined(mined, threshold, scores, (left.read, right.read), (left.own, right.own))


def _table(mined: Mined, codes: list[str]) -> str:
    rows = [(*codes, "score"), *((pair.left, pair.right, f"{pair.score:.4f}") for pair in mined.pairs)]
    return "".join("\t".join(row) + "\n" for row in rows)
