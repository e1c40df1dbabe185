"""What in a text tells its language: its words, without links, markup, code, and names in other scripts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from itertools import groupby
from typing import NamedTuple

from modenc.languages import script_of_letter

# Characters that are read of a text, and that are kept of them.
_READ, _KEPT = 8000, 2000

# Links end at blanks and quotes, and where Chinese, Japanese or Korean goes on without a blank.
_IN_LINK = r"[^\s<>\"'`\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff]"
_IN_NAME = r"[^\s<>\"'`,:;!?()\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff]"
_TOP_LEVEL = (
    r"(?:com|org|net|edu|gov|info|biz|app|dev|xyz|shop|online|site|[a-z]{2}"
    r"|html?|php|aspx?|pdf|jpe?g|png|gif|svg|zip|docx?|xlsx?|pptx?|json|xml|csv|txt|mp[34]|exe)"
)
# Each alternative starts where no other one of its kind can, so that no text takes quadratic time.
_NO_WORDS = re.compile(
    rf"""
      \A\s*(?:query|passage|search_query|search_document)\s*:\s              # e5's prefixes, and others'
    | <(?P<tag>script|style|code|pre)\b.{{0,4000}}?</(?P=tag)\s*>            # code in markup
    | </?[a-z!?][^<>]*>                                                      # markup
    | &\#?\w{{1,31}};
    | \[/?[a-z]+(?:=[^\]\s]*)?\] | \]\([!-'*-~]*\)                          # BBCode, targets of Markdown
    | ```.*?```                                                              # code
    | (?<!\w)`[^`\n]+`(?!\w)                                                 # not Uzbek's o`zbek go`zal
    | (?<![\w.])[a-z_][a-z0-9_.]*\([\x20-'*-~]*\)
    | (?<!\w)[a-z0-9]+(?:_[a-z0-9]+)+(?!\w)
    | "[a-z_]\w*"\s*:
    | \{{\{{[\x20-z|~]*\}}\}} | \$?\{{[!-z|~]*\}} | %(?:\(\w+\))?[sdif]\b | \\[a-z]+ # placeholders, LaTeX
    | (?<![\w.+-])[a-z][a-z0-9+.-]*://{_IN_LINK}+                            # links
    | (?<!\w)(?:www\.|mailto:|tel:|data:){_IN_LINK}+
    | (?<![\w+/=-])[a-z0-9+/=_-]{{40,}}                                      # encoded bytes
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+                               # e-mail addresses
    | (?<![\w.-])(?:[a-z0-9_-]+\.)+(?-i:{_TOP_LEVEL})(?:[:/?\#]{_IN_LINK}*)?(?![a-z0-9_])
    | (?<![\w/])(?:[a-z]:)?(?:[/\\][a-z0-9._-]+){{2,}}                       # paths
    | (?<!\w)@{_IN_NAME}+ | \#[^\s\#]{{1,50}}\# | (?<![\w&])\#\w+              # names and tags
    | (?<!\w)(?-i:[A-Za-z]*[a-z][A-Z][A-Za-z]*)                              # iPhone, camelCase
    | \d+
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)

# Three words or more that each begin with a capital: a name or a title, in texts of any language. It is left
# out where this many letters remain. Of the languages that ship, English and German lose none of their
# sentences by it; Azerbaijani with such a name in it is found in 93 % of sentences, without it in 88 %.
_NAME = re.compile(r"(?<!\w)(?:[A-Z]\w*(?:['’]\w+)?[\s-]+(?:(?:of|the|and|de)\s+)*){2,}[A-Z]\w*(?:['’]\w+)?")
_FEWEST = 8

# What a letter says, where one of an alphabet says 10. Words that begin with a capital are often names, which
# keep their script in texts of any language: their letters say a tenth. So one name of another script changes
# the script of 3 % of Tatoeba's and STS-B's sentences that are in Cyrillic, Arabic, Chinese, Japanese or
# Korean, and of 4 % of those in Latin script.
_WEIGHTS = {"Hani": 25, "Hira": 15, "Kana": 15, "Hang": 15}
_JAPANESE = ("Hani", "Hira", "Kana")
_WORD = re.compile(r"[^\W\d_]+")


class Evidence(NamedTuple):
    """Part of a text that tells its language."""

    words: str
    """Words in :attr:`script`, with their punctuation; empty if it is None."""
    script: str | None
    """ISO 15924 code of their script; None without letters."""


def language_evidence(text: str) -> Evidence:
    """Return the words that tell a text's language, and their script.

    Left out are links, e-mail addresses, markup, code, placeholders, @names, #tags, numbers, e5's prefixes,
    names of several words, and the words of all scripts but the main one. Compatibility characters, such as
    full-width letters, are read as tokenizers read them (NFKC).
    """
    text = unicodedata.normalize("NFKC", text[:_READ])[:_READ]
    text = _NO_WORDS.sub(" ", text)
    if (first := _WORD.search(text)) is None:
        return Evidence("", None)
    text = text[max(0, first.start() - 1) :][:_KEPT]
    without_names = _NAME.sub(" ", text)
    if sum(map(str.isalpha, without_names)) >= _FEWEST:
        text = without_names
    if text.isascii():
        return Evidence(text, "Latn")
    letters: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if (found := script_of_letter(character)) is not None:
            letters[found] += count
    if not letters:
        return Evidence("", None)
    script = max(letters, key=letters.__getitem__)
    if not letters.keys() <= set(_together(script)):
        script = _script_of_words(text)
        kept = _together(script)
        if script in _JAPANESE:
            script = max(kept, key=letters.__getitem__)
        text = "".join(c if script_of_letter(c) in (None, *kept) else " " for c in text)
    return Evidence(text, script)


def _script_of_words(text: str) -> str:
    """Return the script of most letters, of which those of names and of alphabets count less."""
    votes: Counter[str] = Counter()
    for number, word in enumerate(_WORD.findall(text)):
        for script, letters in groupby(word, script_of_letter):
            if script is not None:
                part = "".join(letters)
                is_name = part != part.lower() and (number > 0 or script == "Latn")
                weight = len(part) * _WEIGHTS.get(script, 10)
                votes[_together(script)[0]] += weight // 10 if is_name else weight
    return max(votes, key=votes.__getitem__)


def _together(script: str) -> tuple[str, ...]:
    """Return the scripts that are written together with a script, itself included."""
    return _JAPANESE if script in _JAPANESE else (script,)
