"""Interface messages made into sentences: placeholders, mark-up and accelerator keys removed."""

from __future__ import annotations

import html
import re

# What a placeholder becomes, the same on both sides of a pair.
_WORDS = ("X", "Y", "Z")
_NUMBERS = ("5", "8")

_PLACEHOLDER = re.compile(
    r"%\((?P<named>[^()%]+)\)[#0\- +]*\d*(?:\.\d+)?(?P<named_type>[a-zA-Z])"
    r"|%(?:(?P<position>\d+)\$)?[#0\-+]*\d*(?:\.\d+)?(?P<type>[diouxXeEfFgGcrsa])(?![a-zA-Z])"
    r"|\{\{\s*(?P<template>[\w.|]+)\s*\}\}"
    r"|\$?\{(?P<braced>\w*)(?:[.!\[][^{}:]*)?(?::[^{}]*?(?P<braced_type>[a-zA-Z])?)?\}"
)
# Stands for "%%" until what looks like a placeholder is gone: Turkish writes "%%%(n)d".
_PERCENT = "\0"
_BREAK = re.compile(r"<\s*/?\s*(?:br|p|li|ul|ol|div|tr|td|h\d)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_ASIAN_ACCELERATOR = re.compile(r" ?[(（][&_][A-Za-z0-9][)）]")
_ACCELERATOR = re.compile(r"[&_](?=[^\W_])")
_LEFT_OVER = re.compile(r"[{}<>]|%[(a-zA-Z]|&\w+;")
_SPACE = re.compile(r"\s+")


def clean_pair(message: str, translation: str) -> tuple[str, str] | None:
    """A message and its translation as plain sentences, or None where they cannot be made so.

    The same filler takes a placeholder's place on both sides (``%(name)s`` → ``X``, ``%d`` → ``5``).
    None where the placeholders of the two differ or are too many, where code remains, where there
    are no letters, and where the translation is the message itself.
    """
    fillers = _fillers(message)
    if fillers is None or fillers != _fillers(translation):
        return None
    sides = tuple(_clean(text, fillers) for text in (message, translation))
    if any(_LEFT_OVER.search(side) or not any(map(str.isalpha, side)) for side in sides):
        return None
    source, target = (side.replace(_PERCENT, "%") for side in sides)
    if source.casefold() == target.casefold() or ("_" in source) != ("_" in target):
        return None
    return source, target


def _fillers(text: str) -> dict[str, str] | None:
    """Placeholder → its filler; None where there are more of them than fillers."""
    fillers: dict[str, str] = {}
    words, numbers = list(_WORDS), list(_NUMBERS)
    for name, is_number in sorted(_placeholders(text)):
        free = numbers if is_number else words
        if not free:
            return None
        fillers[name] = free.pop(0)
    return fillers


def _placeholders(text: str) -> set[tuple[str, bool]]:
    """Name and kind of every placeholder; those without a name are named by their place."""
    return {
        (_name(match, place), _is_number(match))
        for place, match in enumerate(_PLACEHOLDER.finditer(text.replace("%%", _PERCENT)), start=1)
    }


def _name(match: re.Match[str], place: int) -> str:
    named = match["named"] or match["template"] or match["braced"]
    return named or match["position"] or str(place)


def _is_number(match: re.Match[str]) -> bool:
    return (match["named_type"] or match["type"] or match["braced_type"] or "s") in "diouxXeEfFgG"


def _clean(text: str, fillers: dict[str, str]) -> str:
    place = 0

    def filler(match: re.Match[str]) -> str:
        nonlocal place
        place += 1
        return fillers[_name(match, place)]

    text = _PLACEHOLDER.sub(filler, text.replace("%%", _PERCENT))
    text = _TAG.sub("", _BREAK.sub(" ", text))
    text = _ASIAN_ACCELERATOR.sub("", _SPACE.sub(" ", html.unescape(text)))
    # More than one mark is no accelerator but a name such as my_long_name.
    if len(_ACCELERATOR.findall(text)) == 1:
        text = _ACCELERATOR.sub("", text)
    return _SPACE.sub(" ", text).strip()
