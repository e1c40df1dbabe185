"""What each key of a recipe means, read from the text under the fields of the settings classes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from typing import get_type_hints

from modenc.recipe.data_settings import Source
from modenc.recipe.issues import Place
from modenc.recipe.loader import Heading
from modenc.recipe.settings import SECTIONS

_WIDTH = 100


def explain(place: Place) -> str | None:
    """What the key or table at a place of a recipe means; None where nothing is known of it.

    What is said of a section holds in a language's own table too.
    """
    return explanations().get(place[2:] if place[:1] == ("languages",) else place)


@cache
def explanations() -> dict[Place, str]:
    """Place of a key or table → what it means, in lines short enough for a comment."""
    texts: dict[Place, str] = {}
    _collect(Heading, (), texts)
    for name, section in SECTIONS.items():
        _collect(section, (name,), texts)
    return {place: _wrap(text) for place, text in texts.items()}


def source_keys() -> dict[str, str]:
    """Key of a source (an entry of ``data.text`` and its like) → what it means."""
    return {name: _wrap(text) for name, text in _field_texts(Source).items()}


def _collect(cls: type, place: Place, texts: dict[Place, str]) -> None:
    texts[place] = (inspect.getdoc(cls) or "").split("\n\n")[0]
    texts |= {(*place, name): text for name, text in _field_texts(cls).items()}
    for name, hint in get_type_hints(cls).items():
        if is_dataclass(hint) and isinstance(hint, type):
            _collect(hint, (*place, name), texts)


def _field_texts(cls: type) -> dict[str, str]:
    """Field name → the text under the field."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    texts = {}
    for statement, below in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ()):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            texts[statement.target.id] = str(below.value.value)
    return texts


def _wrap(text: str) -> str:
    plain = " ".join(text.replace("``", "`").split())
    return "\n".join(textwrap.wrap(plain, _WIDTH, break_on_hyphens=False))
