"""What in a text tells its language: its words, without links, markup, code, and names in other scripts."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from itertools import groupby
from typing import NamedTuple

import regex

from modenc.languages import script_of_letter

READ = 100_000
"""Characters of a text that are read for its language."""
# Characters of them that are kept, after what is no evidence was left out.
_KEPT = 2000

# Links end at blanks and quotes, and where Chinese, Japanese or Korean goes on without a blank.
_IN_LINK = r"[^\s<>\"'`\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff]"
_IN_NAME = r"[^\s<>\"'`,:;!?()\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff]"
_VALUE = r"(?:\"[!\x23-~]*\"|'[!-&(-~]*'|(?:true|false|null|none)\b)"  # without blanks
_SUM = r"[a-z0-9_.]+(?:\s*[+*/-]\s*[a-z0-9_.]+)*(?!\w)"
_PROGRAM = r"(?:git|docker|pip3?|npm|apt|apt-get)"
# Each alternative starts where no other one of its kind can, so that no text takes quadratic time.
_NO_WORDS = re.compile(
    rf"""
      \A\s*(?:instruct|task)\s*:.{{0,1000}}?\b(?:query|text|passage)\s*:       # what embedding models ask for
    | \A\s*represent\s[^:]{{1,200}}: | \A为这个句子[^:]{{1,40}}:
    | <(?P<tag>script|style|code)\b.*?(?:</(?P=tag)\s*>|\Z)                    # code in markup, comments
    | <!--.*?(?:-->|\Z) | (?<!\S)/\*(?:(?!/\*).)*?\*/ | <!\[CDATA\[
    | </?[a-z!?](?:[^<>"']*(?:(?:"[^"<]*"|'[^'<]*')[^<>"']*)*|[^<>]*)>         # markup
    | </?[a-z][\w-]* | &\#?\w{{1,31}};
    | \[/?[a-z]+(?:=[^\[\]\s]*)?\] | \]\([!-'*-~]*\)                             # BBCode, targets of Markdown
    | (?P<fence>```|~~~).*?(?P=fence) | (?<=\S\s)(?:```|~~~).* | (?:```|~~~)\w*      # code
    | (?<!\w)`[^`\n]+`(?!\w)                                                   # not Uzbek's o`zbek go`zal
    | (?<![\w.])[a-z_][a-z0-9_.]*\((?:[\x20!\x23-&*-~]*\))?                    # calls, but not texts in them
    | (?<!\w)[a-z0-9]+(?:_+[a-z0-9]+)+(?!\w) | __\w+ | (?<![\w-])[a-z]+(?:-[a-z]+){{2,}}
    | \b(?:for\s+\w+\s+in|if|while|return|import|class|def)\s+[a-z_][\w.]*[:;]
    | \bmsg(?:id\w*\s*"[^"]*"|str\b)                                           # the original of a translation
    | (?<![\w.:-])[a-z_][a-z0-9_.:-]*\s*[=!<>]?==?>?\s*(?:{_VALUE}|{_SUM})?      # assignments, attributes
    | "[a-z_@$][\w.-]*"\s*:(?:\s*{_VALUE})?                                    # keys
    | (?<![^\s{{(,;])[a-z][a-z0-9_-]*:(?!\S)(?:\s*{_VALUE})?                   # e5's prefixes, too
    | \{{[{{%][\x20-z|~]*\}}\}}? | \$?\{{[!-z|~]*\}} | %(?:\(\w+\))?[sdif]\b   # placeholders
    | \{{[\s!\x23-9<-z|~]*[:;][\s!\x23-z|~]*\}} | \\[a-z]+                     # CSS, LaTeX
    | (?:(?:\$|&&|\|\|)\s*|(?<![\w-])(?=(?:sudo|{_PROGRAM})\s))(?:sudo\s+)?(?:{_PROGRAM}\s+)?[a-z][a-z0-9_-]*
    | (?<![\w-])(?:--[a-z][\w-]*|-[a-z]{{1,2}}(?!\w)) | (?<![\w.])\.[a-z][\w-]+
    | (?<![\w.+-])[a-z][a-z0-9+.-]*://{_IN_LINK}+                              # links
    | (?<!\w)(?:www\.|mailto:|tel:|data:){_IN_LINK}+
    | (?<![\w+/=-])[a-z0-9+/=_-]{{40,}}                                        # encoded bytes
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+                                 # e-mail addresses
    | (?<![\w.-])(?:[\w-]+\.)+(?-i:[a-z][a-z0-9]*|рф|қаз|中国)                 # hosts, files
      (?:[:/?\#]{_IN_LINK}*)?(?![a-z0-9_])
    | (?<![\w/\\.-])(?:~|[a-z]:|[a-z0-9._-]+)?(?:[/\\][a-z0-9._-]+){{2,}}      # paths
    | @(?:{_IN_NAME}+|\w+) | \#[^\s\#]{{1,50}}\# | (?<![\w&])\#\w+             # names and tags
    | (?<!\w)(?-i:[A-Za-z]*[a-z][A-Z][A-Za-z]*)                                # iPhone, camelCase
    | (?<![\w.:+-])[a-z_.:+-]*\d[a-z0-9_.:+-]*(?:\s[a-z]{{1,2}}(?!\w)(?:/[a-z])?)?   # numbers, units
    | \d+
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_GAP = re.compile(r"[\W_]{5,}")  # what is left between them

# Three Latin words or more that each begin with a capital: a name or a title, in texts of any language. It is
# left out where this many words remain: with 3, a fifth of German sentences are lost after long navigation,
# with 1, French titles are.
_CAPITALIZED = r"[\p{Lu}&&\p{Latin}][\p{Latin}\p{M}\d]*(?:['’]\p{Latin}+)?"
_NAME = regex.compile(
    rf"(?<![\p{{Latin}}\d])(?:{_CAPITALIZED}[\s|»·•-]+(?:(?:of|the|and|de)\s+)*){{2,}}{_CAPITALIZED}",
    regex.V1,
)
_FEWEST = 2

# Words without blanks between them are counted by their letters. Names keep their script in texts of any
# language, so they count less. Who writes in another script mixes in Latin words (terms, code) all the time;
# who writes in Latin script mixes in a word of another, but rarely a sentence. So n words of another script
# outweigh n times as many Latin ones, up to this many times.
_WORDS_IN_LETTER = dict.fromkeys(("Hani", "Hira", "Kana", "Hang"), 0.6)
_LATIN_NAME, _OTHER_NAME = 0.1, 0.5
_MOST_LATIN_WORDS = 5.0
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
    text = unicodedata.normalize("NFKC", text[:READ])[:READ]
    text = _GAP.sub(" ", _NO_WORDS.sub(" ", text))
    without_names = _GAP.sub(" ", _NAME.sub(" ", text))[:_KEPT]
    if without_names != text and sum(count_words(without_names).values()) >= _FEWEST:
        text = without_names
    if (first := _WORD.search(text)) is None:
        return Evidence("", None)
    text = text[max(0, first.start() - 1) :][:_KEPT]
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
    """Return the script of most words, in Latin words."""
    words = count_words(text)

    def in_latin_words(script: str) -> float:
        return words[script] * (1.0 if script == "Latn" else min(words[script] + 0.5, _MOST_LATIN_WORDS))

    return max(words, key=in_latin_words)


def count_words(text: str) -> dict[str, float]:
    """Return how many words of each script a text has; names count less. Japanese ones are under ``Hani``."""
    words: dict[str, float] = defaultdict(float)
    for number, word in enumerate(_WORD.findall(text)):
        for script, letters in groupby(word, script_of_letter):
            if script is None:
                continue
            part = "".join(letters)
            count = len(part) * _WORDS_IN_LETTER.get(script, 1.0 / len(part))
            if part != part.lower() and (number > 0 or script == "Latn"):
                count *= _LATIN_NAME if script == "Latn" else _OTHER_NAME
            words[_together(script)[0]] += count
    return words


def _together(script: str) -> tuple[str, ...]:
    """Return the scripts that are written together with a script, itself included."""
    return _JAPANESE if script in _JAPANESE else (script,)
