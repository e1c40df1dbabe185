r"""Apertium's stream format: a text before its pipeline, and what comes out of it.

Characters that mean something to the programs are escaped (``\/``), and what they must not touch is a blank
in brackets (``[*]``). So in an answer a bare ``*``, ``@`` or ``#`` is a mark that a program has made (a word
that the analyser, the bilingual dictionary or the generator does not know), and a bare ``/`` divides
alternatives, whatever the text has of its own.
"""

from __future__ import annotations

import re

from modenc.data.text import normalize
from modenc.translation.steps import Translated

_ESCAPED = re.compile(r"[\\^$/<>{}\[\]@]")
# ``*`` and ``#`` come out bare also where they went in escaped, and the last program swallows ``~``.
_BLANK = re.compile(r"[*#~]")
_SENTENCE_END = re.compile(r"[.!?…։؟۔।॥。！？][\"'»”’)\]]*$")
# Apertium's own way to end a sentence that has no full stop: its reader takes both away again. The blank
# alone ends those that have one, or a program would wait for what comes after it.
_FULL_STOP = ".[]"
_BLANK_END = "[]"
_OPAQUE = re.compile(r"\\(.)|\[((?:\\.|[^\]\\])*)\]", re.DOTALL)
_SPECIAL = "*#@/"
# Private: what the text has of its own, until marks and alternatives are found.
_HIDDEN = {ord(character): 0xF0000 + place for place, character in enumerate(_SPECIAL)}
_SHOWN = {hidden: character for character, hidden in _HIDDEN.items()}
_MARKS = re.compile(r"[*#@]+(?=\S)")
_ALTERNATIVES = re.compile(r"([^\s/]+)(?:/[^\s/]+)+")


def to_stream(text: str) -> str:
    """``text``, one line, as apertium's programs read it, with a sentence's end.

    Without one, words wander into the text that follows.
    """
    ended = _BLANK_END if _SENTENCE_END.search(text) else _FULL_STOP
    return _BLANK.sub(r"[\g<0>]", _ESCAPED.sub(r"\\\g<0>", text)) + ended


def from_stream(answer: str, text: str) -> Translated:
    """The translation in a pipeline's answer to :func:`to_stream` of ``text``.

    Marks are taken away and counted, and of alternatives (``a/b``) the first is taken.
    """
    visible = _OPAQUE.sub(_content, answer).rstrip()
    if not _SENTENCE_END.search(text):
        visible = visible.removesuffix(".")
    chosen = _ALTERNATIVES.sub(r"\1", visible)
    words = [word for word in chosen.split() if any(map(str.isalnum, word))]
    marked = sum(bool(_MARKS.search(word)) for word in words)
    shown = _MARKS.sub("", chosen).translate(_SHOWN)
    return Translated(normalize(shown), marked / len(words) if words else 0.0)


def _content(found: re.Match[str]) -> str:
    escaped, blank = found.groups()
    return re.sub(r"\\(.)", r"\1", escaped if escaped is not None else blank).translate(_HIDDEN)
