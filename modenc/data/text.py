"""Keys to find duplicates by, and texts as fields of a line."""

from __future__ import annotations

from hashlib import blake2b

import regex

_NEITHER_LETTER_NOR_DIGIT = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


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
