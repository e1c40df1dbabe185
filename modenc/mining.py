"""Mining of translations in unaligned texts, by margins among nearest neighbors. Needs the extra ``eval``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from modenc.errors import require_extra

require_extra("eval", "faiss", "scipy")


from modenc.data.text import sentence_key, stable_hash  # noqa: E402
from modenc.errors import DataError, OptionError  # noqa: E402
from modenc.evaluation.bitext import (  # noqa: E402
    NEIGHBORS,
    Neighbors,
    RowPairs,
    best_by_margin,
    candidate_pairs,
    nearest_unit_vectors,
    one_to_one,
)
from modenc.evaluation.evaluate import SystemLike, open_system  # noqa: E402
from modenc.evaluation.retrieval import unit  # noqa: E402
from modenc.languages import normalize_code  # noqa: E402
from modenc.texts import normalize  # noqa: E402

__all__ = ["MinedPair", "mine"]


class MinedPair(NamedTuple):
    """Two sentences and their margin, which is above 1 if they are nearer to each other than to neighbors."""

    left: str
    right: str
    score: float


def mine(
    left: Iterable[str],
    right: Iterable[str],
    model: SystemLike,
    langs: tuple[str, str],
    *,
    threshold: float,
    neighbors: int = NEIGHBORS,
) -> list[MinedPair]:
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
        threshold: least score of a pair, such as 1.05.
        neighbors: neighbors of each sentence, for candidates and margins.

    Returns:
        The pairs, best score first; each sentence occurs once.

    Raises:
        DataError: a text has no sentences, or the languages are the same.
        OptionError: ``neighbors`` is below 1.
        HubError: a hub cannot be opened.

    Example:
        >>> from modenc.mining import mine
        >>> kk = ["Бала кітап оқып отыр.", "Бүгін жаңбыр жауып тұр."]
        >>> en = ["It is raining today.", "The child is reading a book."]
        >>> pairs = mine(kk, en, "adapters_hub/me5-small", ("kk", "en"), threshold=1.0)
        >>> best = pairs[0].left, pairs[0].right
    """
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
    system = open_system(model)
    vectors = [unit(system.encode(side.texts, side.lang)) for side in sides]
    pairs = _best_matches(
        nearest_unit_vectors(vectors[0], vectors[1], neighbors),
        nearest_unit_vectors(vectors[1], vectors[0], neighbors),
    )
    found = one_to_one(pairs)
    found = found.select(found.scores >= threshold)
    rows = zip(found.left.tolist(), found.right.tolist(), found.scores.tolist(), strict=True)
    return [MinedPair(sides[0].texts[row], sides[1].texts[match], score) for row, match, score in rows]


class _Sentences:
    """Distinct sentences of one language, by :func:`~modenc.data.text.sentence_key`."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self.texts: list[str] = []
        self._keys: set[int] = set()

    def add(self, text: str) -> None:
        """Add a text if it is new and has a letter or digit."""
        text = normalize(text)
        key = stable_hash(sentence_key(text, self.lang))
        if any(map(str.isalnum, text)) and key not in self._keys:
            self._keys.add(key)
            self.texts.append(text)


def _best_matches(forward: Neighbors, backward: Neighbors) -> RowPairs:
    """Return the best matches of both directions, best margin first."""
    means = [found.cosines.mean(axis=1) for found in (forward, backward)]
    return candidate_pairs(best_by_margin(forward, means[1]), best_by_margin(backward, means[0]))
