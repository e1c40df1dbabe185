"""Reading a recipe: include, override, check everything at once, resolve for each language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modenc.errors import RecipeError
from modenc.recipe.build import build
from modenc.recipe.draft import SECTIONS, TOP_LEVEL, Draft
from modenc.recipe.faults import Faults, RecipeFaults, TooManyFaults
from modenc.recipe.files import (
    DEFAULTS_FILE,
    find_recipe,
    merge,
    read_tables,
    recipes_folder,
    shipped_recipes,
)
from modenc.recipe.overrides import apply_overrides
from modenc.recipe.settings import FRESH, LanguagePlan, Recipe
from modenc.recipe.toml_text import to_toml

__all__ = ["default_section", "find_recipe", "load_recipe", "shipped_recipes"]


def load_recipe(path: str | Path, overrides: Sequence[str] = (), *, check_files: bool = True) -> Recipe:
    """Read a recipe by path or shipped name, and check all of it.

    Args:
        path: a TOML file, or the name of a shipped recipe such as ``turkic``.
        overrides: ``a.b=value``, strongest of all; see ``apply_overrides``.
        check_files: also check that data files, catalogue packages and the hub's pivot are there.

    Returns:
        The recipe with one complete plan per language, in the order to train them in.

    Raises:
        RecipeError: no such recipe, no valid TOML; or, as ``RecipeFaults``, all that is wrong in it.
    """
    file = find_recipe(path)
    try:
        return _load(file, overrides, check_files)
    except RecursionError as error:
        raise RecipeError(
            f"{file}: expected a recipe, found tables within tables, or languages that start from one "
            "another, hundreds deep; nest less"
        ) from error


def _load(file: Path, overrides: Sequence[str], check_files: bool) -> Recipe:
    defaults = read_tables(recipes_folder() / DEFAULTS_FILE)
    draft = Draft(file.stem, defaults, merge(defaults, read_tables(file)))
    try:
        draft.normalize_languages()
        apply_overrides(draft.tables, overrides, draft.faults)
        draft.check_top_level()
        plans = draft.plans()
        draft.check_plans(plans, check_files)
    except TooManyFaults:
        plans = {}
    if lines := draft.fault_lines():
        raise RecipeFaults(draft.name, lines, more=draft.faults.full())
    return Recipe(
        name=draft.name,
        path=file,
        pivot=draft.pivot,
        hub=draft.hub,
        plans=_in_order(plans, draft.pivot),
        text=to_toml({"name": draft.name, **draft.tables}, order=TOP_LEVEL),
    )


def default_section(name: str) -> Any:
    """A recipe's section, such as ``data`` or ``decoder``, as the defaults have it."""
    return build(SECTIONS[name], read_tables(recipes_folder() / DEFAULTS_FILE)[name], (name,), Faults())


def _in_order(plans: dict[str, LanguagePlan], pivot: str) -> dict[str, LanguagePlan]:
    """The pivot before all that it does not start from, and each language after those it builds on."""
    ordered: dict[str, LanguagePlan] = {}

    def place(lang: str, waiting: tuple[str, ...]) -> None:
        if lang in waiting:
            circle = " and ".join(sorted(waiting[waiting.index(lang) :]))
            raise RecipeError(
                f"sentence_encoding.start: {circle} wait for each other; set one of them to {FRESH!r}"
                " (or leave it out of emma_x.warmup_languages)"
            )
        if lang in plans and lang not in ordered:
            plan = plans[lang]
            others = plan.emma_x.warmup_languages if plan.alignment.objective == "emma_x" else ()
            for other in (plan.sentence_encoding.start, *others):
                place(other, (*waiting, lang))
            ordered[lang] = plan

    for lang in sorted(plans, key=lambda lang: lang != pivot):
        place(lang, ())
    return ordered
