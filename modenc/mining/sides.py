"""The two sides of mining: their distinct sentences, and the development pairs that choose a threshold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from modenc.data.text import sentence_key, stable_hash
from modenc.errors import DataError
from modenc.texts import normalize


@dataclass
class Side:
    """Distinct sentences of one text, by :func:`~modenc.data.text.sentence_key`."""

    lang: str
    """Code of the language."""
    texts: list[str] = field(default_factory=list)
    read: int = 0
    """Number of sentences given, with repeated ones and ones without letters or digits."""
    own: int = 0
    """Number of ``texts`` at the beginning that were given; the rest comes from the development pairs."""
    _rows: dict[int, int] = field(default_factory=dict)

    def add(self, text: str) -> int | None:
        """Return the row of a text, which is added if it is new; None if it has no letter or digit."""
        text = normalize(text)
        if not any(map(str.isalnum, text)):
            return None
        row = self._rows.setdefault(stable_hash(sentence_key(text, self.lang)), len(self.texts))
        if row == len(self.texts):
            self.texts.append(text)
        return row

    def fingerprint(self) -> str:
        """Hash the texts in their order."""
        hasher = blake2b(digest_size=16)
        for text in self.texts:
            hasher.update(text.encode("utf-8", "surrogatepass") + b"\n")
        return hasher.hexdigest()


def make_side(texts: Iterable[str], lang: str) -> Side:
    """Collect a text's distinct sentences, in the order of their first occurrence.

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
    """Rows of the development pairs."""

    gold: set[tuple[int, int]]
    """Pairs of rows (left, right) that translate each other."""
    left: list[int]
    """Rows of all development sentences of the left side, with or without a translation."""
    right: list[int]


def add_dev_pairs(pairs: Iterable[tuple[str, str]], left: Side, right: Side) -> DevPairs:
    """Add the sentences of development pairs to the sides.

    Args:
        pairs: translations; one side is empty if the other has no translation.
        left: the left side.
        right: the right side.

    Raises:
        DataError: no pair has two sides.
    """
    rows = [(left.add(pair[0]), right.add(pair[1])) for pair in pairs]
    gold = {(row, match) for row, match in rows if row is not None and match is not None}
    if not gold:
        raise DataError(
            f"dev: expected translations, found no row with a sentence in both {left.lang} and {right.lang}; "
            "give some, or a threshold"
        )
    left_rows = [row for row, _ in rows if row is not None]
    return DevPairs(gold, left_rows, [match for _, match in rows if match is not None])
