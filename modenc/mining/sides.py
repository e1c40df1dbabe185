"""The sentences of two texts, each once, and the pairs that a threshold is chosen by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from modenc.data.text import letters_key, normalize, stable_hash
from modenc.errors import DataError


@dataclass
class Side:
    """The distinct sentences of one text; those that differ in letters and digits."""

    lang: str
    """Their language's code."""
    texts: list[str] = field(default_factory=list)
    read: int = 0
    """How many texts were given, with repeated ones and ones without a letter or digit."""
    own: int = 0
    """The first so many of ``texts`` were given; those after them come with the development pairs."""
    _rows: dict[int, int] = field(default_factory=dict)

    def add(self, text: str) -> int | None:
        """The row of a text, a new one where it is new; None where it has no letter or digit."""
        text = normalize(text)
        if not (key := letters_key(text)):
            return None
        row = self._rows.setdefault(stable_hash(key), len(self.texts))
        if row == len(self.texts):
            self.texts.append(text)
        return row

    def digest(self) -> str:
        """Changes with every change to the texts or their order."""
        digest = blake2b(digest_size=16)
        for text in self.texts:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()


def side_of(texts: Iterable[str], lang: str) -> Side:
    """A text's distinct sentences, in the order in which they first come.

    Raises:
        DataError: none of them has a letter or digit.
    """
    side = Side(lang)
    for text in texts:
        side.add(text)
        side.read += 1
    side.own = len(side.texts)
    if not side.own:
        raise DataError(f"{lang}: expected sentences to mine in, found none; give a text with sentences")
    return side


@dataclass(frozen=True)
class DevPairs:
    """Rows of both sides of which is known what they translate."""

    gold: set[tuple[int, int]]
    """Rows that translate each other."""
    left: list[int]
    """All that are known, with a translation or without one."""
    right: list[int]


def hide(pairs: Iterable[tuple[str, str]], left: Side, right: Side) -> DevPairs:
    """Add development pairs to the sides, where their sentences are not there already.

    Args:
        pairs: translations; one side is empty where the other has no translation.
        left: the sides.
        right: likewise.

    Raises:
        DataError: no pair has two sides.
    """
    gold, known_left, known_right = set[tuple[int, int]](), set[int](), set[int]()
    for texts in pairs:
        row, match = left.add(texts[0]), right.add(texts[1])
        if row is not None:
            known_left.add(row)
        if match is not None:
            known_right.add(match)
        if row is not None and match is not None:
            gold.add((row, match))
    if not gold:
        raise DataError(
            f"dev: expected translations, found no row with a sentence in both {left.lang} and {right.lang}; "
            "give some, or a threshold"
        )
    return DevPairs(gold, sorted(known_left), sorted(known_right))
