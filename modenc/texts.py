"""Conversion of inputs to a list of clean texts."""

from __future__ import annotations

import math
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Set
from reprlib import repr as short_repr
from typing import Any

import regex

from modenc.errors import TextError

# Control characters, marks of direction, soft hyphens, fillers, selectors of a glyph's form, and other
# characters that are not seen and do not change what a text says.
INVISIBLE = "(?:(?![\u200b-\u200d])[\\p{Default_Ignorable_Code_Point}\\p{NChar}\\p{Cc}\ufff9-\ufffb])+"
"""Regular expression of what :func:`normalize` removes; ``regex`` and ``tokenizers`` (Oniguruma) read it."""

PILED_MARKS = r"(?<=\p{M}{30})\p{M}+"
"""Composing takes time with the square of a letter's marks. Unicode's Stream-Safe Text Format has 30."""

# More than are left on a letter; without a bound Oniguruma takes quadratic time.
_MARKS = r"\p{M}{0,99}"
# Scripts in which neither a joiner nor a stroke changes a letter.
_PLAIN = (
    r"\p{Latin}\p{Cyrillic}\p{Greek}\p{Armenian}\p{Georgian}\p{Hebrew}\p{Ethiopic}\p{Han}\p{Hiragana}\p{Katakana}"
    "\\p{Hangul}\u02b0-\u02ff"
)
_WITHOUT_BLANKS = (
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Balinese}\p{Javanese}"
)
_PICTURE = "[\\p{Extended_Pictographic}\U0001f3fb-\U0001f3ff]"
JOINERS = (
    f"\u200b(?<![{_WITHOUT_BLANKS}&&\\p{{L}}]{_MARKS}\u200b)"
    f"|[\u200c\u200d](?<![^\\P{{L}}{_PLAIN}]{_MARKS}[\u200c\u200d])(?:(?<!{_PICTURE}\u200d)|(?!{_PICTURE}))"
)
"""Zero-width spaces and joiners in a composed text; scripts of Asia and emoji spell with others."""
STRETCHES = f"(?<=[{_PLAIN}&&\\p{{L}}]{_MARKS})\u0640[\u0640\\p{{M}}\u200b-\u200d]*"
"""Tatweel in other scripts than those whose words it stretches, after :data:`JOINERS` were removed."""

_INVISIBLE, _PILED_MARKS, _JOINERS, _STRETCHES = (
    regex.compile(pattern, regex.V1) for pattern in (INVISIBLE, PILED_MARKS, JOINERS, STRETCHES)
)
_SURROGATE = regex.compile(r"[\ud800-\udfff]")
# Not at the ends of a text.
_JOINERS_AND_BLANK = "\u200b\u200c\u200d "


class TaggedText(str):
    """A normalized text that keeps its language when it is sorted or sent to another process."""

    __slots__ = ("cut", "lang", "order", "tokens")
    lang: str
    tokens: array[int]
    """Token ids with the prompt's, set by each ``encode``; empty before."""
    cut: bool
    """Whether tokens were cut off."""
    order: int
    """Sort key: texts with similar keys belong in one batch."""

    def __new__(cls, text: str, lang: str) -> TaggedText:
        """Make a text in the language ``lang``."""
        tagged = super().__new__(cls, text)
        tagged.lang, tagged.tokens, tagged.cut, tagged.order = lang, array("i"), False, len(text)
        return tagged

    def __reduce__(self) -> tuple[type[TaggedText], tuple[str, str]]:
        return TaggedText, (str(self), self.lang)


def as_texts(inputs: Any, max_characters: int) -> tuple[list[str], bool]:
    """Convert an input to normalized texts; also returns whether it was a single text.

    Args:
        inputs: a str, or a list, tuple, one-dimensional array, pandas Series, ``datasets`` column or
            other iterable of str.
        max_characters: texts are cut to this length.

    Raises:
        TextError: something else was given; the message states its position and type.
    """
    if isinstance(inputs, str):
        return [normalize(inputs, max_characters)], True
    if isinstance(inputs, bytes | bytearray | Mapping | Set) or not isinstance(inputs, Iterable):
        raise TextError(f"expected a text or a list of texts, found {_found(inputs)}")
    if (dimensions := getattr(inputs, "ndim", 1)) != 1:
        raise TextError(
            f"expected a text or a list of texts, found a {type(inputs).__name__} of {dimensions} dimensions;"
            " give one column of it"
        )
    texts = []
    for position, text in enumerate(inputs):
        if not isinstance(text, str):
            raise TextError(f"text {position}: expected a str, found {_found(text)}")
        texts.append(text if isinstance(text, TaggedText) else normalize(text, max_characters))
    return texts, False


def normalize(text: str, max_characters: int | None = None) -> str:
    """Return a text as both training and encoding read it, cut to ``max_characters``.

    Composed to Unicode's form NFC, without invisible characters (:data:`INVISIBLE`) and lone surrogates, with
    one space for each run of white space, and none at the ends.
    """
    text = " ".join(text.split())
    if text.isascii() and text.isprintable():
        return text[:max_characters].rstrip()
    if _SURROGATE.search(text):
        # Surrogate pairs, which some JSON readers produce, are joined; lone surrogates are dropped.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    cleaned = _compose(_INVISIBLE.sub("", text.replace("\u2800", " ")))
    cleaned = _STRETCHES.sub("", _JOINERS.sub("", cleaned))
    if cleaned != text:  # then there may be marks to compose or too many again
        cleaned = _compose(cleaned)
    cleaned = " ".join(cleaned.strip(_JOINERS_AND_BLANK).split())
    return cleaned[:max_characters].rstrip(_JOINERS_AND_BLANK)


def _compose(text: str) -> str:
    return unicodedata.normalize("NFC", _PILED_MARKS.sub("", text))


def normalize_prompt(prompt: str) -> str:
    """Return a prompt as it is put before texts: normalized, with one blank at its end if it has one."""
    return normalize(prompt) + " " * prompt[-1:].isspace()


def _found(thing: Any) -> str:
    return f"{type(thing).__name__} ({short_repr(thing)}); {_next_step(thing)}"


def is_missing(thing: Any) -> bool:
    """Check whether a value is missing: None, NaN, or pandas' NA."""
    if thing is None or type(thing).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(thing, float) and math.isnan(thing)


def _next_step(thing: Any) -> str:
    if isinstance(thing, bytes | bytearray):
        return "decode it first, for example with .decode('utf-8')"
    if is_missing(thing):
        return "drop missing texts or replace them with ''"
    if isinstance(thing, Mapping):
        return "give the text in it, for example row['text']"
    if isinstance(thing, Set):
        return "give a list, which has an order"
    if isinstance(thing, Iterable):
        return "nested lists and pairs are not texts: flatten them to one list of str"
    return "convert it with str() if its digits are the text"
