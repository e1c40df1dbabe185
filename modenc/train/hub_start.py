"""What a recipe builds on and does not train, copied into its hub from another one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from modenc.hub.store import Hub
from modenc.recipe.settings import FRESH, Recipe
from modenc.train.processes import process_state

logger = logging.getLogger(__name__)


def fill_hub(recipe: Recipe, languages: Sequence[str] | None) -> list[str]:
    """Copy into the recipe's hub what ``hub.start_from`` has of the languages that others build on.

    These are the pivot and the languages whose adapter is copied, where the recipe does not train them and
    the hub lacks them. The hub is made where there is none.

    Args:
        recipe: a checked recipe.
        languages: codes of those to train; None: all of the recipe.

    Returns:
        The codes that were copied.

    Raises:
        HubError: there is no such hub, or it is of another base than the recipe's hub.
        StorageError: the disk is full or read-only.
    """
    if recipe.start_from is None:
        return []
    plans = [plan for lang, plan in recipe.plans.items() if languages is None or lang in languages]
    needed = {plan.pivot for plan in plans} | {plan.sentence_encoding.start for plan in plans} - {FRESH}
    wanted = sorted(needed - {plan.lang for plan in plans})
    copied: list[str] = []
    with process_state().main_process_first():
        there = Hub.open(recipe.hub) if (recipe.hub / "hub.json").is_file() else None
        missing = [lang for lang in wanted if there is None or lang not in there.languages()]
        if missing:
            source = Hub.open(recipe.start_from)
            hub = there or Hub.create(recipe.hub, replace(source.info, pivot=recipe.pivot))
            for lang in missing:
                hub.install(source.path, lang)
                logger.info("%s: copied from %s", lang, recipe.start_from)
                copied.append(lang)
    return copied
