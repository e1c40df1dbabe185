"""Multilingual sentence embeddings with adapters for each language."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modenc.base_model import resolve_base
    from modenc.encoder import ModularEncoder
    from modenc.errors import ModencError
    from modenc.evaluation.evaluate import evaluate
    from modenc.exporting.export import export
    from modenc.hub.store import Hub
    from modenc.langid import Identification
    from modenc.languages import normalize_code
    from modenc.recipe.loader import load_recipe
    from modenc.recipe.plan import Recipe
    from modenc.training.pipeline import train

__all__ = [
    "Hub",
    "Identification",
    "ModencError",
    "ModularEncoder",
    "Recipe",
    "evaluate",
    "export",
    "load_recipe",
    "normalize_code",
    "resolve_base",
    "train",
]

_HOMES = {
    "Hub": "modenc.hub.store",
    "Identification": "modenc.langid",
    "ModencError": "modenc.errors",
    "ModularEncoder": "modenc.encoder",
    "Recipe": "modenc.recipe.plan",
    "evaluate": "modenc.evaluation.evaluate",
    "export": "modenc.exporting.export",
    "load_recipe": "modenc.recipe.loader",
    "normalize_code": "modenc.languages",
    "resolve_base": "modenc.base_model",
    "train": "modenc.training.pipeline",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``import modenc`` stays quick."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("modenc")
        except PackageNotFoundError:  # used from a checkout
            return "0+unknown"
    if name not in _HOMES:
        raise AttributeError(f"module 'modenc' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
