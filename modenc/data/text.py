"""Keys to find duplicates by, and texts as fields of a line."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b

import regex

from modenc.texts import normalize

# Languages in which the small letter of I is ı.
_DOTLESS_I = ("az", "crh", "gag", "tr")
# The last are spacing accents (´) in NFKC: a blank and an accent.
_APOSTROPHES = regex.compile(
    "[\u2018\u2019\u201b\u02b9\u02bb\u02bc\u02bd\u02be\u02bf\u02c8\u02ca\u02cb\u2032\ua78c\u055a\u05f3`]"
    "| [\u0301\u0313\u0314]"
)
_DASHES = regex.compile(r"[\p{Pd}\u2212]+")
_DOTS = regex.compile("[\u2022\u2027\u22c5\u30fb]")
_QUESTION_MARKS = regex.compile("[?؟՞፧⸮‽][?؟՞፧⸮‽! ]*")
_STRETCH = "\u0640"  # tatweel, which makes Arabic words longer on paper
# All but signs (C#, 50%), question marks, dashes, and marks between digits (1,5) and inside of words
# (o'zbek); a dot also before a word or number (.NET).
_PUNCTUATION = regex.compile(
    r"(?!(?<=\p{N})\p{P}(?=\p{N})|(?<=[\p{L}\p{M}\p{N}])[':_·](?=[\p{L}\p{N}])|(?<!\.)\.(?=[\p{L}\p{N}]))"
    r"[\p{P}--[\#&@*/\\§?\-\p{lb=PO}]]",
    regex.V1,
)
# A dash that neither follows a word nor is a minus begins a line of speech or of a list.
_LEADING_DASH = regex.compile(r"(?<![\p{L}\p{M}\p{N}] ?)-(?! ?[\p{Sc}.]?\p{N})")
# Blanks next to signs (10 %), and in scripts that are written without them; some tools put blanks there.
_NO_BLANKS = r"[\p{S}\#%&@*/\\§?\-\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_NEEDLESS_BLANK = regex.compile(rf"(?<={_NO_BLANKS}) | (?={_NO_BLANKS})")
# Keyboard signs, lines and blocks divide texts; letters that extend others (tatweel) draw lines.
_CONTENT = regex.compile(
    r"[[\p{L}\p{N}\p{Sc}\p{Sm}\p{So}]--[+<=>|~\u2212\u2500-\u25ff\p{Extender}]]|\p{Extended_Pictographic}",
    regex.V1,
)


def one_line(text: str) -> str:
    """Fit a text into a field of a tab-separated line: replace runs of white space and lone surrogates."""
    # JSON may hold surrogates, and UTF-8 does not.
    return " ".join(text.split()).encode("utf-8", "replace").decode("utf-8")


def sentence_key(text: str, lang: str | None = None) -> str:
    """Return a key that is equal for texts that are the same sentence.

    Letters, marks, digits, signs and question marks make a sentence, with dashes after a word or before a
    number, a dot before either, and punctuation inside of words and numbers: ``1.5`` is not ``15``, nor
    ``C++`` ``C#``. Case (by the rules of ``lang``, a normalized code), compatibility characters, kinds of
    apostrophes and dashes, other punctuation, and blanks next to signs make no difference. Empty for texts
    without any of the former.
    """
    text = unicodedata.normalize("NFKC", normalize(text)).replace(_STRETCH, "")
    if lang in _DOTLESS_I:
        text = text.replace("I", "ı")
    # Folding makes i and a dot of İ, as some tools do.
    text = unicodedata.normalize("NFKC", text.casefold().replace("i\u0307", "i"))
    text = _DOTS.sub("·", _DASHES.sub("-", _APOSTROPHES.sub("'", text)))
    text = _PUNCTUATION.sub(" ", _QUESTION_MARKS.sub("?", text))
    text = _LEADING_DASH.sub(" ", " ".join(text.split()))
    key: str = _NEEDLESS_BLANK.sub("", " ".join(text.split()))
    return key


def is_blank(text: str) -> bool:
    """Check whether a text has no letter, digit or symbol; vectors of such texts are near to all others."""
    return _CONTENT.search(unicodedata.normalize("NFKC", normalize(text))) is None


def count_letters(text: str) -> int:
    """Count the letters of a text."""
    return sum(map(str.isalpha, text))


def stable_hash(text: str, salt: str = "") -> int:
    """Hash a text and a salt to 64 bits, equal on all machines and in all processes."""
    hasher = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=salt.encode())
    return int.from_bytes(hasher.digest(), "big")
