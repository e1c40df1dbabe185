"""Normal form of a line, and keys to find duplicates by."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b

import regex

# Control characters, surrogates, and invisible marks without meaning in a line of text. Zero-width joiners
# and spaces stay: scripts of South Asia and Iran spell with them.
_UNWANTED = regex.compile(r"[\p{Cc}\p{Cs}\u00ad\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+")
_NEITHER_LETTER_NOR_DIGIT = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


def normalize(text: str) -> str:
    """Normalize to NFC, remove control characters and surrogates, and collapse white space."""
    return clean_line(text)[0]


def clean_line(text: str) -> tuple[str, bool]:
    """Return the normalized text, and whether characters were removed from it."""
    text = " ".join(text.split())
    removed = False
    if not text.isprintable():
        shorter = _UNWANTED.sub("", text)
        removed = len(shorter) < len(text)
        text = " ".join(shorter.split())
    return unicodedata.normalize("NFC", text), removed


def one_line(text: str) -> str:
    """Fit a text into a field of a tab-separated line: replace runs of white space and lone surrogates."""
    return valid_utf8(" ".join(text.split()))


def valid_utf8(text: str) -> str:
    """Replace lone surrogates, which JSON may hold and UTF-8 does not."""
    return text.encode("utf-8", "replace").decode("utf-8")


def letters_key(text: str) -> str:
    """Return a text's letters and digits, case-folded: equal for texts that differ in nothing else."""
    key: str = _NEITHER_LETTER_NOR_DIGIT.sub("", text.casefold())
    return key


def count_letters(text: str) -> int:
    """Count the letters of a text."""
    return sum(map(str.isalpha, text))


def stable_hash(text: str, salt: str = "") -> int:
    """Hash a text and a salt to 64 bits, equal on all machines and in all processes."""
    hasher = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=salt.encode())
    return int.from_bytes(hasher.digest(), "big")
