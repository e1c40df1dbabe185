"""What one line is: its normal form, and the key by which two lines are the same."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b

import regex

# Control characters and surrogates, and marks that render as nothing and mean nothing in a line of
# text. Zero-width joiners and spaces stay: scripts of South Asia and Iran spell with them.
_UNWANTED = regex.compile(r"[\p{Cc}\p{Cs}\u00ad\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+")
_NEITHER_LETTER_NOR_DIGIT = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


def normalize(text: str) -> str:
    """NFC, control characters and surrogates removed, runs of white space made one space."""
    return clean(text)[0]


def clean(text: str) -> tuple[str, bool]:
    """The normalized text, and whether characters were removed from it."""
    text = " ".join(text.split())
    removed = False
    if not text.isprintable():
        shorter = _UNWANTED.sub("", text)
        removed = len(shorter) < len(text)
        text = " ".join(shorter.split())
    return unicodedata.normalize("NFC", text), removed


def one_line(text: str) -> str:
    """``text`` fit for one field of a tab-separated line: white space runs and lone surrogates replaced."""
    return " ".join(text.split()).encode("utf-8", "replace").decode("utf-8")


def letters_key(text: str) -> str:
    """A text's letters and digits in lower case: equal for texts that differ in nothing else."""
    key: str = _NEITHER_LETTER_NOR_DIGIT.sub("", text.casefold())
    return key


def count_letters(text: str) -> int:
    """How many letters a text has."""
    return sum(map(str.isalpha, text))


def stable_hash(text: str, salt: str = "") -> int:
    """64 bits that depend on the text and the salt alone, on every machine and in every process."""
    hasher = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=salt.encode())
    return int.from_bytes(hasher.digest(), "big")
