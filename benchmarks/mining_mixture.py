"""A mixture as BUCC's: translations hidden among sentences that have none, on both sides."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modenc.data.formats import read_file
from modenc.data.text import sentence_key
from modenc.texts import normalize

SHORTEST, LONGEST = 30, 200
"""Characters of a sentence of running text that is taken."""


@dataclass(frozen=True)
class Mixture:
    """Two texts that are not translations of each other, but for some of their sentences."""

    left: list[str]
    right: list[str]
    gold: set[tuple[int, int]]
    """Rows of both that translate each other."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a development and of a test mixture."""

    sentences: tuple[int, int]
    """On each side."""
    hidden: tuple[int, int]
    """Number of sentences that have a translation."""


def mixtures(data: Path, lang: str, sizes: Sizes, seed: int = 13) -> tuple[Mixture, Mixture]:
    """Make a development and a test mixture of a language with English, without common sentences.

    The translations are SIB-200's, the sentences around them the running text in ``mono/`` that is not in
    ``parallel/`` too: translations that nobody hid would count as errors.
    """
    pairs = _translations(data, lang)
    random.Random(seed).shuffle(pairs)
    known = {sentence_key(text) for pair in pairs for text in pair} | _in_bitext(data, lang)
    around = [_running_text(data, code, known, sum(sizes.sentences), seed) for code in (lang, "en")]
    made, first, start = [], 0, 0
    for sentences, hidden in zip(sizes.sentences, sizes.hidden, strict=True):
        taken, noise = pairs[first : first + hidden], sentences - hidden
        rows = [side[start : start + noise] for side in around]
        if len(taken) < hidden or min(map(len, rows)) < noise:
            raise ValueError(f"{lang}: expected {hidden} translations and {noise} other sentences")
        made.append(_mixed(taken, rows, seed))
        first, start = first + hidden, start + noise
    return made[0], made[1]


def _mixed(pairs: Sequence[tuple[str, str]], around: Sequence[list[str]], seed: int) -> Mixture:
    """Each side shuffled by itself."""
    sides, places = [], []
    for side in (0, 1):
        texts = [pair[side] for pair in pairs] + around[side]
        order = list(range(len(texts)))
        random.Random(seed + side).shuffle(order)
        sides.append([texts[row] for row in order])
        places.append({row: place for place, row in enumerate(order)})
    gold = {(places[0][row], places[1][row]) for row in range(len(pairs))}
    return Mixture(sides[0], sides[1], gold)


def _translations(data: Path, lang: str) -> list[tuple[str, str]]:
    """SIB-200's sentences, each once on either side."""
    pairs, seen = [], set[str]()
    for part in ("train", "dev", "test"):
        sides = (_sib(data, code, part) for code in (lang, "en"))
        own, english = sides
        for index in sorted(own.keys() & english.keys(), key=int):
            pair = (own[index], english[index])
            keys = {sentence_key(text) for text in pair}
            if not keys & seen:
                pairs.append(pair)
            seen |= keys
    return pairs


def _sib(data: Path, lang: str, part: str) -> dict[str, str]:
    rows = read_file(data / "eval/classification/sib" / lang / f"{part}.tsv")
    return {row["index_id"]: normalize(row["text"]) for row in rows}


def _in_bitext(data: Path, lang: str) -> set[str]:
    rows = read_file(data / "parallel" / f"{lang}-en.tsv.gz")
    return {sentence_key(row[code]) for row in rows for code in (lang, "en")}


def _running_text(data: Path, lang: str, known: Iterable[str], count: int, seed: int) -> list[str]:
    """``count`` sentences, none twice and none of ``known``."""
    with gzip.open(data / "mono" / f"{lang}.txt.gz", "rt", encoding="utf-8") as lines:
        texts = [text for line in lines if SHORTEST <= len(text := normalize(line)) <= LONGEST]
    random.Random(seed).shuffle(texts)
    seen, taken = set(known), []
    for text in texts:
        if (key := sentence_key(text)) not in seen:
            seen.add(key)
            taken.append(text)
    return taken[:count]
