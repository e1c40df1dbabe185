"""Mining of translations in unaligned texts, by margins among nearest neighbors. Needs the extra ``eval``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from modenc.extras import require_extra

require_extra("eval", "faiss", "scipy")

import numpy as np  # noqa: E402

from modenc.data.text import sentence_key, stable_hash  # noqa: E402
from modenc.errors import DataError, OptionError  # noqa: E402
from modenc.evaluation.bitext import (  # noqa: E402
    NEIGHBORS,
    MiningScores,
    Neighbors,
    RowPairs,
    best_by_margin,
    best_threshold,
    candidate_pairs,
    nearest_unit_vectors,
    one_to_one,
)
from modenc.evaluation.evaluate import SystemLike, open_system  # noqa: E402
from modenc.evaluation.retrieval import unit  # noqa: E402
from modenc.languages import normalize_code  # noqa: E402
from modenc.texts import normalize  # noqa: E402

__all__ = ["Mined", "MinedPair", "mine"]


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


def mine(
    left: Iterable[str],
    right: Iterable[str],
    model: SystemLike,
    langs: tuple[str, str],
    *,
    threshold: float | None = None,
    dev: Iterable[tuple[str, str]] | None = None,
    neighbors: int = NEIGHBORS,
) -> Mined:
    """Find the sentences of two texts that translate each other.

    Pairs are scored by ratio margin (Artetxe and Schwenk, 2019) among the nearest neighbors of both
    directions. From the best score down to the threshold, each sentence is used once. The same texts, model
    and settings give the same pairs. The vectors of both texts are kept in memory.

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
        neighbors: neighbors of each sentence, for candidates and margins.

    Returns:
        The pairs, the threshold, and the percentage of development pairs found.

    Raises:
        DataError: a text has no sentences, ``dev`` has no translations, or the languages are the same.
        OptionError: neither or both of ``threshold`` and ``dev`` are given, or ``neighbors`` is below 1.
        HubError: a hub cannot be opened.

    Example:
        >>> from modenc.mining import mine
        >>> kk = ["Бала кітап оқып отыр.", "Бүгін жаңбыр жауып тұр."]
        >>> en = ["It is raining today.", "The child is reading a book."]
        >>> mined = mine(kk, en, "adapters_hub/me5-small", ("kk", "en"), threshold=1.0)
        >>> pairs = [(pair.left, pair.right) for pair in mined.pairs]
    """
    if (threshold is None) == (dev is None):
        raise OptionError("expected one of threshold and dev, found neither or both; give one")
    if neighbors < 1:
        raise OptionError(f"neighbors: expected at least 1, found {neighbors}")
    codes = [normalize_code(lang) for lang in langs]
    if codes[0] == codes[1]:
        raise DataError(f"expected two languages, found {codes[0]} for both; give the language of each text")
    sides = [_Sentences(lang) for lang in codes]
    for side, texts in zip(sides, (left, right), strict=True):
        for text in texts:
            side.add(text)
        if not side.texts:
            raise DataError(
                f"{side.lang}: expected sentences to mine in, found none; give a text with sentences"
            )
    own = (len(sides[0].texts), len(sides[1].texts))
    dev_rows = [(sides[0].add(pair[0]), sides[1].add(pair[1])) for pair in dev or ()]
    gold = {(row, match) for row, match in dev_rows if row is not None and match is not None}
    if dev is not None and not gold:
        raise DataError(
            f"dev: expected translations, found no row with a sentence in both {codes[0]} and {codes[1]}; "
            "give some, or a threshold"
        )
    system = open_system(model)
    vectors = [unit(system.encode(side.texts, side.lang)) for side in sides]
    pairs = _best_matches(
        nearest_unit_vectors(vectors[0], vectors[1], neighbors),
        nearest_unit_vectors(vectors[1], vectors[0], neighbors),
    )
    scores = None
    if threshold is None:
        scores = _dev_scores(pairs, dev_rows, gold)
        threshold = scores.threshold
    # Added development sentences are left out before each sentence gets its best match.
    found = one_to_one(pairs.select((pairs.left < own[0]) & (pairs.right < own[1])))
    found = found.select(found.scores >= threshold)
    rows = zip(found.left.tolist(), found.right.tolist(), found.scores.tolist(), strict=True)
    mined = [MinedPair(sides[0].texts[row], sides[1].texts[match], score) for row, match, score in rows]
    return Mined(mined, threshold, scores)


class _Sentences:
    """Distinct sentences of one language, by :func:`~modenc.data.text.sentence_key`."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self.texts: list[str] = []
        self._rows: dict[int, int] = {}

    def add(self, text: str) -> int | None:
        """Return the row of a text, which is added if it is new; None if it has no letter or digit."""
        text = normalize(text)
        if not any(map(str.isalnum, text)):
            return None
        row = self._rows.setdefault(stable_hash(sentence_key(text, self.lang)), len(self.texts))
        if row == len(self.texts):
            self.texts.append(text)
        return row


def _best_matches(forward: Neighbors, backward: Neighbors) -> RowPairs:
    """Return the best matches of both directions, best margin first."""
    means = [found.cosines.mean(axis=1) for found in (forward, backward)]
    return candidate_pairs(best_by_margin(forward, means[1]), best_by_margin(backward, means[0]))


def _dev_scores(
    pairs: RowPairs, dev_rows: list[tuple[int | None, int | None]], gold: set[tuple[int, int]]
) -> MiningScores:
    """Score the matches of development sentences, whose rows are None where a side is empty."""
    left = [row for row, _ in dev_rows if row is not None]
    right = [row for _, row in dev_rows if row is not None]
    free = one_to_one(pairs)
    in_dev = np.isin(free.left, left) | np.isin(free.right, right)
    scores = best_threshold(free.select(in_dev), gold)
    if not scores.f1:
        raise DataError(
            f"dev: expected translations among the best matches, found none of {len(gold)}; check "
            "which language is in which column, or give a threshold"
        )
    return scores
