"""Keys to find duplicates by, and texts as fields of a line."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b

import regex

from modenc.texts import normalize

# Languages in which the small letter of I is ı.
_DOTLESS_I = ("az", "crh", "gag", "tr")
_APOSTROPHES = regex.compile(
    "[\u2018\u2019\u201b\u02b9\u02bb\u02bc\u02bd\u02be\u02bf\u02c8\u02ca\u02cb\u2032\ua78c\u05f3`´]"
)
_DASHES = regex.compile("[\\p{Pd}\u2212]")
_STRETCH = "\u0640"  # tatweel, which makes Arabic words longer on paper
# All but what changes the meaning: signs (C#, 50%), question marks, a minus, and marks inside of words and
# numbers (1.5, 1,000, re-sign, o'zbek).
_PUNCTUATION = regex.compile(
    r"(?!(?<=[\p{L}\p{M}\p{N}])[.'\-/:_·](?=[\p{L}\p{N}])|(?<=\p{N}),(?=\p{N})|(?<![\p{L}\p{M}\p{N}])-(?=\p{N}))"
    r"[\p{P}--[\#%&@*/\\§?]]",
    regex.V1,
)
# Scripts that are written without blanks between words; some tools put blanks there.
_NO_BLANKS = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_NEEDLESS_BLANK = regex.compile(rf"(?<={_NO_BLANKS}) | (?={_NO_BLANKS})")
_CONTENT = regex.compile(r"[\p{L}\p{N}\p{S}]")


def one_line(text: str) -> str:
    """Fit a text into a field of a tab-separated line: replace runs of white space and lone surrogates."""
    return valid_utf8(" ".join(text.split()))


def valid_utf8(text: str) -> str:
    """Replace lone surrogates, which JSON may hold and UTF-8 does not."""
    return text.encode("utf-8", "replace").decode("utf-8")


def sentence_key(text: str, lang: str | None = None) -> str:
    """Return a key that is equal for texts that are the same sentence.

    Case (by the rules of ``lang``, a normalized code), compatibility characters, kinds of apostrophes and
    dashes, and punctuation around words make no difference; letters, digits, signs and question marks do:
    ``1.5`` is not ``15``, nor ``C++`` ``C#``. Empty for texts without any of these.
    """
    text = unicodedata.normalize("NFKC", normalize(text)).replace(_STRETCH, "")
    if lang in _DOTLESS_I:
        text = text.replace("I", "ı")
    text = unicodedata.normalize("NFKC", text.replace("İ", "i").casefold()).replace("؟", "?")
    text = _DASHES.sub("-", _APOSTROPHES.sub("'", text))
    text = " ".join(_PUNCTUATION.sub(" ", text).replace(" ?", "?").split())
    key: str = _NEEDLESS_BLANK.sub("", text)
    return key


def is_blank(text: str) -> bool:
    """Check whether a text has no letter, digit or symbol; vectors of such texts are near to all others."""
    return _CONTENT.search(normalize(text)) is None


def count_letters(text: str) -> int:
    """Count the letters of a text."""
    return sum(map(str.isalpha, text))


def stable_hash(text: str, salt: str = "") -> int:
    """Hash a text and a salt to 64 bits, equal on all machines and in all processes."""
    hasher = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=salt.encode())
    return int.from_bytes(hasher.digest(), "big")
