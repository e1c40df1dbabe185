r"""Apertium's stream format: conversion of texts to it, and of its output to translations.

Characters with a meaning in the format are escaped (``\/``), and characters that the programs must not change
are put in brackets (``[*]``). So an unescaped ``*``, ``@`` or ``#`` in the output is a mark of a word that
the analyzer, the bilingual dictionary or the generator does not know, and an unescaped ``/`` separates
alternatives.
"""

from __future__ import annotations

import re

from modenc.texts import normalize
from modenc.translation.steps import Translation

_ESCAPED = re.compile(r"[\\^$/<>{}\[\]@]")
# Escapes of ``*`` and ``#`` are lost in the output, and the last program drops ``~``.
_BLANK = re.compile(r"[*#~]")
_SENTENCE_END = re.compile(r"[.!?…։؟۔।॥။。！？][\"'»”’)\]]*$")
_OPAQUE = re.compile(r"\\(.)|\[((?:\\.|[^\]\\])*)\]", re.DOTALL)
# Special characters of the text itself become private ones until marks and alternatives are handled.
_HIDDEN = {ord(character): 0xF0000 + number for number, character in enumerate("*#@/")}
_SHOWN = {hidden: character for character, hidden in _HIDDEN.items()}
_MARKS = re.compile(r"[*#@]+(?=\S)")
_ALTERNATIVES = re.compile(r"([^\s/]+)(?:/[^\s/]+)+")


def to_stream(text: str) -> str:
    """Convert a text, one line, to Apertium's format, with an end of sentence.

    Without that end, words would move into the next text.
    """
    # Apertium's way to end a sentence without a full stop; its reader removes both. Other sentences end with
    # the blank alone, without which a program would wait for more input.
    end = "[]" if _SENTENCE_END.search(text) else ".[]"
    return _BLANK.sub(r"[\g<0>]", _ESCAPED.sub(r"\\\g<0>", text)) + end


def from_stream(answer: str, text: str) -> Translation:
    """Convert a pipeline's answer to the translation of ``text``.

    Marks of unknown words are counted and removed, and the first of several alternatives (``a/b``) is chosen.
    """
    visible = _OPAQUE.sub(_content, answer).rstrip()
    if not _SENTENCE_END.search(text):
        visible = visible.removesuffix(".")
    chosen = _ALTERNATIVES.sub(r"\1", visible)
    words = [word for word in chosen.split() if any(map(str.isalnum, word))]
    marked = sum(bool(_MARKS.search(word)) for word in words)
    shown = _MARKS.sub("", chosen).translate(_SHOWN)
    return Translation(normalize(shown), marked / len(words) if words else 0.0)


def _content(found: re.Match[str]) -> str:
    escaped, blank = found.groups()
    return re.sub(r"\\(.)", r"\1", escaped if escaped is not None else blank).translate(_HIDDEN)
