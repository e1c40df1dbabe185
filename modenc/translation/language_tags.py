"""Language tags of translation models: ``kaz_Cyrl``, ``__kk__``, ``<2kk>``, ``>>kaz<<``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from langcodes import Language

from modenc.errors import LanguageError
from modenc.languages import find_code, normalize_code, script_of_code

_MOST_SHOWN = 40


class _Family(NamedTuple):
    """A family of models with the same form of language tags."""

    name: str
    tag: re.Pattern[str]
    """Pattern of a language's token; its group is the code."""
    in_text: bool
    """Whether the target's tag precedes the source text, and the source has no tag. Otherwise the encoder's
    input begins with the source's tag, and the decoder's with the target's."""


_FAMILIES = {
    "nllb": _Family("NLLB", re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"), in_text=False),
    "m2m100": _Family("M2M100", re.compile(r"__([a-z]{2,3})__"), in_text=False),
    "t5": _Family("MADLAD", re.compile(r"<2([a-z]{2,3}(?:_\w+)?)>"), in_text=True),
    "marian": _Family("Marian", re.compile(r">>([a-z]{2,3}(?:_\w+)?)<<"), in_text=True),
}
"""Start of the tokenizer's class name, in lower case → family."""


class LanguageTags(NamedTuple):
    """Language tags of one step of one model."""

    before_text: str
    """Prefix of each text."""
    source: str | None
    """The tokenizer's ``src_lang``."""
    target: str | None
    """First token of the translation."""


def language_tags(tokenizer: Any, source: str, target: str, model: str) -> LanguageTags:
    """Find the tags that make a model translate from one language to another.

    Both are language codes in any standard form, or the model's own tags; ``model`` is its name in messages.

    Raises:
        LanguageError: the model is of no supported family, or lacks a language.
    """
    kind = type(tokenizer).__name__
    family = next((known for start, known in _FAMILIES.items() if kind.lower().startswith(start)), None)
    if family is None:
        names = ", ".join(known.name for known in _FAMILIES.values())
        raise LanguageError(
            f"{model}: expected a translation model of {names}, found a tokenizer of class {kind}; "
            "choose a model of one of these families"
        )
    # M2M100's tags are outside the vocabulary.
    tokens = [*tokenizer.get_vocab(), *getattr(tokenizer, "lang_token_to_id", ())]
    tags = {found.group(1): token for token in tokens if (found := family.tag.fullmatch(token))}
    if not tags and family.name == "Marian":
        return LanguageTags("", None, None)  # a model of one target language has no tags
    wanted = _choose(target, tags, model)
    if family.in_text:
        return LanguageTags(f"{tags[wanted]} ", None, None)
    return LanguageTags("", _choose(source, tags, model), tags[wanted])


def _choose(code: str, tags: Iterable[str], model: str) -> str:
    """Choose the model's tag for a code: the code or a tag of its language, best in its usual script."""
    if code in (known := sorted(tags)):
        return code
    wanted = normalize_code(code)
    found = [tag for tag in known if find_code(tag) == wanted]
    if not found:
        shown = ", ".join(known[:_MOST_SHOWN]) + (" …" if len(known) > _MOST_SHOWN else "")
        raise LanguageError(f"{model}: expected a language that it has, found {code!r}; it has {shown}")
    script = Language.get(code.replace("_", "-")).maximize().script
    return min(found, key=lambda tag: (script_of_code(tag) not in (None, script), tag))
