"""What each key of a recipe means, read from the text under the fields of the settings classes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import is_dataclass
from functools import cache
from typing import get_type_hints

from modenc.recipe import alignment_settings, optimizer_settings, paper_settings, settings
from modenc.recipe.draft import SECTIONS
from modenc.recipe.faults import Place

_WIDTH = 100


def explain(place: Place) -> str | None:
    """What the key or table at a place of a recipe means; None where nothing is known of it.

    What is said of a section holds in a language's own table too.
    """
    return explanations().get(place[2:] if place[:1] == ("languages",) else place)


@cache
def explanations() -> dict[Place, str]:
    """Place of a key or table → what it means, in lines short enough for a comment."""
    texts: dict[Place, str] = {
        ("name",): "Name of the recipe; folders are named so.",
        ("pivot",): "Code of the language that all others are aligned to.",
        ("hub",): "Where finished modules go: a folder of each language's.",
        ("hub", "path"): "The hub's folder; {recipe} is the recipe's name.",
        ("hub", "start_from"): "A hub that the pivot and the languages of `start` are copied from where the "
        "recipe does not train them and the hub lacks them.",
    }
    for name, section in SECTIONS.items():
        _collect(section, (name,), texts)
    return {place: _wrap(text) for place, text in texts.items()}


def source_keys() -> dict[str, str]:
    """Key of a source (an entry of ``data.text`` and its like) → what it means."""
    return {name: _wrap(text) for name, text in _documents()["Source"][1].items()}


def _collect(cls: type, place: Place, texts: dict[Place, str]) -> None:
    summary, fields = _documents()[cls.__name__]
    texts[place] = summary
    for name, hint in get_type_hints(cls).items():
        if is_dataclass(hint) and isinstance(hint, type):
            _collect(hint, (*place, name), texts)
        elif name in fields:
            texts[(*place, name)] = fields[name]


@cache
def _documents() -> dict[str, tuple[str, dict[str, str]]]:
    """Class name → its docstring's first paragraph, and field name → the text under the field."""
    documents = {}
    for module in (settings, optimizer_settings, alignment_settings, paper_settings):
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                summary = (ast.get_docstring(node) or "").split("\n\n")[0]
                documents[node.name] = (summary, _field_texts(node))
    return documents


def _field_texts(node: ast.ClassDef) -> dict[str, str]:
    texts = {}
    for statement, below in zip(node.body, node.body[1:], strict=False):
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
