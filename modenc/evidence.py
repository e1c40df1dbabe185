"""What in a text tells its language: the words of its main script, without links, markup and code."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import NamedTuple

from modenc.languages import script_of_letter

READ = 100_000
"""Characters of a text that are read for its language."""
# Characters of them that are kept, after what is no evidence was left out.
_KEPT = 2000

# Each starts where no other of its kind can, or reads to the end, so that no text takes quadratic time.
_CODE = r"(?P<fence>```|~~~).*?(?P=fence)|(?<!\w)`[^`\n]+`(?!\w)"  # not Uzbek's o`zbek go`zal
_MARKUP = r"<(?P<tag>script|style)\b.*?(?:</(?P=tag)|\Z)|<!--.*?(?:-->|\Z)|</?[a-z!][^<>]*>|&#?\w{1,31};"
_IN_LINK = r"[!#-;=?-~]"  # printable ASCII but for quotes and <>: Chinese goes on without a blank
_LINK = rf"\b[a-z]{{2,10}}://{_IN_LINK}+|\bwww\.{_IN_LINK}+"
_EMAIL = r"(?<![a-z0-9_.+-])[a-z0-9_.+-]+@[a-z0-9.-]+"
_HOST = rf"(?<![a-z0-9.-])(?:[a-z0-9-]+\.)+(?-i:[a-z]{{2,}})(?![a-z0-9])(?:/{_IN_LINK}*)?"
_TAG = r"(?<!\w)[@#]\w+"  # @name, #tag
_PROMPT = r"\A\s*(?:query|passage)\s*:"  # e5's
_NO_WORDS = re.compile(
    "|".join([_PROMPT, _CODE, _MARKUP, _LINK, _EMAIL, _HOST, _TAG, r"\d+"]), re.IGNORECASE | re.DOTALL
)
_GAP = re.compile(r"[\W_]{5,}")  # what is left between them

# Names and terms in Latin script are found in texts of any script. So capitalized Latin words say nothing
# beside another script, and a letter of that, perhaps a syllable or word, counts as several Latin ones.
_CAPITALIZED = re.compile(r"(?<![a-z])[A-Z][A-Za-z]*")
_JAPANESE = ("Hani", "Hira", "Kana")  # written together
_WEIGHTS = {"Latn": 1.0, "Cyrl": 1.5, "Grek": 1.5, **dict.fromkeys(_JAPANESE, 5.0)}
_OTHER = 3.0


class Evidence(NamedTuple):
    """Words that tell a text's language, and the ISO 15924 code of their script; None without letters."""

    words: str
    script: str | None


def language_evidence(text: str) -> Evidence:
    """Return the words that tell a text's language, and their script.

    Left out are links, e-mail addresses, markup, code, @names, #tags, numbers, e5's prompts, and the words of
    all scripts but the main one. Compatibility characters, such as full-width letters, are read as tokenizers
    do (NFKC).
    """
    text = unicodedata.normalize("NFKC", text[:READ])[:READ]
    text = _GAP.sub(" ", _NO_WORDS.sub(" ", text))[:_KEPT]
    letters = _letters(text)
    if not letters:
        return Evidence("", None)
    counted = _letters(_CAPITALIZED.sub("", text)) or letters
    script = max(counted, key=lambda name: counted[name] * _WEIGHTS.get(name, _OTHER))
    kept = _JAPANESE if script in _JAPANESE else (script,)
    if not letters.keys() <= set(kept):
        text = "".join(c if script_of_letter(c) in (None, *kept) else " " for c in text)
    return Evidence(text, script)


def _letters(text: str) -> Counter[str]:
    """Count the letters of each script."""
    found: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if (script := script_of_letter(character)) is not None:
            found[script] += count
    return found
