"""Mining of translations in unaligned texts, by margins among nearest neighbors. Needs the extra ``eval``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from modenc.errors import require_extra

require_extra("eval", "faiss", "scipy")


from modenc.data.text import sentence_key, stable_hash  # noqa: E402
from modenc.errors import DataError, OptionError  # noqa: E402
from modenc.evaluation.bitext import NEIGHBORS, best_matches, one_to_one  # noqa: E402
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

    Examples:
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
    sides = [_distinct(texts, lang) for texts, lang in zip((left, right), codes, strict=True)]
    system = open_system(model)
    first, second = (unit(system.encode(texts, lang)) for texts, lang in zip(sides, codes, strict=True))
    pairs = one_to_one(*best_matches(first, second, "margin", neighbors))
    return [MinedPair(sides[0][i], sides[1][j], score) for score, i, j in pairs if score >= threshold]


def _distinct(texts: Iterable[str], lang: str) -> list[str]:
    """Return the sentences with a letter or digit that differ by :func:`~modenc.data.text.sentence_key`."""
    found, keys = list[str](), set[int]()
    for text in map(normalize, texts):
        key = stable_hash(sentence_key(text, lang))
        if any(map(str.isalnum, text)) and key not in keys:
            keys.add(key)
            found.append(text)
    if not found:
        raise DataError(f"{lang}: expected sentences to mine in, found none; give a text with sentences")
    return found
