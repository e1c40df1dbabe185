"""Reading a recipe: include, override, check everything at once, resolve for each language."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from modenc.errors import RecipeError
from modenc.recipe.build import build
from modenc.recipe.draft import SECTIONS, TOP_LEVEL, Draft, Look
from modenc.recipe.faults import Faults, RecipeFaults, TooManyFaults, dotted
from modenc.recipe.files import (
    DEFAULTS_FILE,
    find_recipe,
    merge,
    read_tables,
    recipes_folder,
    shipped_recipes,
)
from modenc.recipe.license_checks import left_out
from modenc.recipe.licenses import allowed_data
from modenc.recipe.overrides import apply_overrides
from modenc.recipe.settings import FRESH, LanguagePlan, Recipe, Source
from modenc.recipe.toml_text import to_toml

logger = logging.getLogger(__name__)

__all__ = ["default_section", "find_recipe", "load_recipe", "shipped_recipes"]


def load_recipe(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    check_files: bool = True,
    languages: Sequence[str] | None = None,
    need_others: bool = True,
    look: Look | None = None,
) -> Recipe:
    """Read a recipe by path or shipped name, and check all of it.

    Args:
        path: a TOML file, or the name of a shipped recipe such as ``turkic``.
        overrides: ``a.b=value``, strongest of all; see ``apply_overrides``.
        check_files: also check that data files, catalogue packages and the hub's pivot are there.
        languages: codes of those whose files are checked; all by default.
        need_others: whether the recipe's other languages that these build on must be in the hub.
        look: looks into the files too; what it finds is reported with all else.

    Returns:
        The recipe with one complete plan per language, in the order to train them in.

    Raises:
        RecipeError: no such recipe, no valid TOML; or, as ``RecipeFaults``, all that is wrong in it.
    """
    file = find_recipe(path)
    try:
        draft = _draft(file, overrides)
        checks = partial(draft.check_files, chosen=languages, need_others=need_others, look=look)
        plans = _checked(draft, checks if check_files else None)
        return _recipe(file, draft, plans)
    except RecursionError as error:
        raise RecipeError(
            f"{file}: expected a recipe, found tables within tables, or languages that start from one "
            "another, hundreds deep; nest less"
        ) from error


def _draft(file: Path, overrides: Sequence[str]) -> Draft:
    defaults = read_tables(recipes_folder() / DEFAULTS_FILE)
    draft = Draft(file.stem, defaults, merge(defaults, read_tables(file)))
    with suppress(TooManyFaults):
        draft.normalize_languages()
        apply_overrides(draft.tables, overrides, draft.faults)
    return draft


def _checked(
    draft: Draft, check_files: Callable[[dict[str, LanguagePlan]], None] | None
) -> dict[str, LanguagePlan]:
    plans: dict[str, LanguagePlan] = {}
    with suppress(TooManyFaults):
        if not draft.faults.full():
            draft.check_top_level()
            plans = draft.plans()
            draft.check_plans(plans)
            if check_files is not None:
                check_files(plans)
    if lines := draft.fault_lines():
        raise RecipeFaults(
            draft.name, lines, more=draft.faults.full(), warnings=draft.remark_lines("warning")
        )
    return plans


def _recipe(file: Path, draft: Draft, plans: dict[str, LanguagePlan]) -> Recipe:
    unused = {
        f"{dotted(place)}: {_called(source)} ({source.licence}) is left out, since data.licenses lacks it"
        for plan in plans.values()
        for place, source in left_out(plan)
    }
    for line in sorted(unused):
        logger.info("%s", line)
    allowed = {lang: replace(plan, data=allowed_data(plan.data)) for lang, plan in plans.items()}
    return Recipe(
        name=draft.name,
        path=file,
        pivot=draft.pivot,
        hub=draft.hub,
        plans=_in_order(allowed, draft.pivot),
        text=to_toml({"name": draft.name, **draft.tables}, order=TOP_LEVEL),
        start_from=draft.start_from,
        left_out=tuple(sorted(unused)),
        warnings=tuple(draft.remark_lines("warning")),
        notes=tuple(draft.remark_lines("note")),
    )


def _called(source: Source) -> str:
    return source.path or source.dataset or ", ".join(source.gettext)


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
