"""How a translation model is told its languages: ``kaz_Cyrl``, ``__kk__``, ``<2kk>``, ``>>kaz<<``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from langcodes import Language

from modenc.errors import LanguageError
from modenc.languages import normalize_code, script_of_code

_MOST_SHOWN = 40


@dataclass(frozen=True)
class Family:
    """Models that are told their languages in one way."""

    name: str
    tag: re.Pattern[str]
    """A token of the vocabulary that is a language's; its group is the code."""
    in_text: bool
    """The target's tag is put before the source text, and the source is not told; else each side of the
    model begins with its own."""
    may_lack: bool = False
    """Models of one target language have no tags."""


_FAMILIES = {
    "nllb": Family("NLLB", re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"), in_text=False),
    "m2m100": Family("M2M100", re.compile(r"__([a-z]{2,3})__"), in_text=False),
    "t5": Family("MADLAD", re.compile(r"<2([a-z]{2,3}(?:_\w+)?)>"), in_text=True),
    "marian": Family("Marian", re.compile(r">>([a-z]{2,3}(?:_\w+)?)<<"), in_text=True, may_lack=True),
}
"""By what a tokenizer's class is called."""


@dataclass(frozen=True)
class LanguageTags:
    """The languages of one step of one model."""

    before_text: str
    """Put before each text."""
    source: str | None
    """What the tokenizer takes as ``src_lang``."""
    target: str | None
    """The token that the translation begins with."""


def language_tags(tokenizer: Any, source: str, target: str, model: str) -> LanguageTags:
    """What tells a model to translate from one language to another.

    Args:
        tokenizer: the model's.
        source: a language code in any standard form; a model's own tag is taken as it is.
        target: the same.
        model: what messages call the model.

    Raises:
        LanguageError: the model is of no family that is known here, or lacks a language.
    """
    family = _family(tokenizer, model)
    # M2M100's are outside the vocabulary.
    tokens = [*tokenizer.get_vocab(), *getattr(tokenizer, "lang_token_to_id", ())]
    tags = {found.group(1): token for token in tokens if (found := family.tag.fullmatch(token))}
    if not tags and family.may_lack:
        return LanguageTags("", None, None)
    wanted = _chosen(target, tags, model)
    if family.in_text:
        return LanguageTags(f"{tags[wanted]} ", None, None)
    return LanguageTags("", _chosen(source, tags, model), tags[wanted])


def _family(tokenizer: Any, model: str) -> Family:
    kind = type(tokenizer).__name__
    for start, family in _FAMILIES.items():
        if kind.lower().startswith(start):
            return family
    known = ", ".join(family.name for family in _FAMILIES.values())
    raise LanguageError(
        f"{model}: expected a translation model of {known}, found a tokenizer of class {kind}; of other "
        "models it is not known how they are told their languages"
    )


def _chosen(code: str, tags: Iterable[str], model: str) -> str:
    """The model's tag for a code: itself, or of those of its language the one in its usual script."""
    if code in (known := sorted(tags)):
        return code
    wanted = normalize_code(code)
    found = [tag for tag in known if wanted in _normalized(tag)]
    if not found:
        shown = ", ".join(known[:_MOST_SHOWN]) + (" …" if len(known) > _MOST_SHOWN else "")
        raise LanguageError(f"{model}: expected a language that it has, found {code!r}; it has {shown}")
    script = Language.get(code.replace("_", "-")).maximize().script
    return min(found, key=lambda tag: (script_of_code(tag) not in (None, script), tag))


def _normalized(tag: str) -> Iterator[str]:
    try:
        yield normalize_code(tag)
    except LanguageError:
        return  # a token that only looks like a language's
