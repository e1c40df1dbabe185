"""The hub that a recipe trains into, with the languages of another hub that its own ones build on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from modenc.base_model import BaseModel
from modenc.hub.layout import HubInfo
from modenc.hub.store import Hub
from modenc.recipe.settings import FRESH, LanguagePlan, Recipe
from modenc.training.processes import process_state

logger = logging.getLogger(__name__)


def prepare_hub(recipe: Recipe, plans: Sequence[LanguagePlan], base: BaseModel) -> Hub:
    """Open the recipe's hub, or make it, and copy into it what ``hub.start_from`` has to give.

    Copied are the pivot and the languages whose adapter is copied, where they are not trained and the hub
    lacks them.

    Args:
        recipe: a checked recipe.
        plans: those of the languages to train.
        base: the base of all of them.

    Raises:
        HubError: a hub is of another base or use of it, or ``hub.start_from`` lacks a language.
        StorageError: the disk is full or read-only.
    """
    plan = plans[0]
    info = HubInfo(
        base_id=base.id,
        base_fingerprint=base.fingerprint,
        hidden_size=base.hidden_size,
        pivot=plan.pivot,
        pooling=plan.base.pooling,
        prompt=plan.base.prompt,
        max_length=plan.base.max_length,
    )
    needed = {lang for plan in plans for lang in (plan.pivot, plan.sentence_encoding.start)}
    needed -= {FRESH, *(plan.lang for plan in plans)}
    with process_state().main_process_first():
        if recipe.start_from is not None:
            there = Hub.open(recipe.hub) if (recipe.hub / "hub.json").is_file() else None
            missing = needed - set(there.languages() if there else ())
            if missing:
                source = Hub.open(recipe.start_from)
                hub = there or Hub.create(recipe.hub, replace(source.info, pivot=recipe.pivot))
                for lang in sorted(missing):
                    hub.install(source.path, lang)
                    logger.info("%s: copied from %s", lang, recipe.start_from)
        return Hub.create(recipe.hub, info)
