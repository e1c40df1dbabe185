"""Trained modules into the hub: compared with the base, and with a card that says how they were made."""

from __future__ import annotations

import hashlib
import logging
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modenc.base_model import BaseModel
from modenc.hub.card import Card
from modenc.hub.comparison import loses
from modenc.hub.layout import HubInfo, LanguageLayout
from modenc.hub.store import Hub
from modenc.languages import language_name
from modenc.recipe.settings import FRESH, LanguagePlan, Recipe
from modenc.training.comparison import compare_with_base, log_comparison
from modenc.training.processes import of_main_process, process_state
from modenc.training.stage import StageRecord, StageRun

logger = logging.getLogger(__name__)

_ROLES_OF_ENCODING = ("text", "paraphrases", "scored_pairs")
_PACKAGES = ("modenc", "torch", "transformers", "sentence-transformers", "peft", "adapters", "deepfocus")


@dataclass(frozen=True)
class TrainedLanguage:
    """A language's modules after its last finished stage."""

    run: StageRun
    """That stage."""
    records: Mapping[str, StageRecord]
    """Stage → its record, for the stages that are done."""
    changed: bool
    """Whether a stage was trained now."""

    @property
    def modules(self) -> LanguageLayout:
        """Its files."""
        return LanguageLayout(self.run.modules)


def publish_language(
    recipe: Recipe, hub: Hub, trained: TrainedLanguage, pivot: LanguageLayout | None = None
) -> Path | None:
    """Compare modules with the base and put them into the hub, unless it has them already.

    ``pivot`` are the pivot's modules that they were trained with, if not those in the hub.

    Returns:
        The language's folder in the hub; None where ``run.publish`` keeps the modules out. All processes get
        it, once the main one is done: the next language may need these modules.
    """
    lang, published = trained.run.plan.lang, True
    if process_state().is_main_process:
        card = hub.card(lang) if lang in hub.languages() else None
        if card is None or trained.changed or _is_outdated(card, trained.records):
            comparison = compare_with_base(trained.run.data, trained.modules, pivot)
            published = trained.run.plan.run.publish == "always" or not loses(comparison)
            if published:
                _publish(recipe, hub, trained, comparison)
            else:
                kept = "it has none of this language" if card is None else "the modules that are there stay"
                logger.warning(
                    "  %s: not put into the hub %s (run.publish = 'unless_worse'); %s. The trained stages "
                    "stay in %s: train again with better data or settings, or publish them as they are with "
                    "run.publish=always",
                    lang, hub.path, kept, trained.run.plan.run.work_dir / lang,
                )  # fmt: skip
        elif card.comparison:
            log_comparison(lang, card.comparison)
    return hub.path / lang if of_main_process(published) else None


def _is_outdated(card: Card, records: Mapping[str, StageRecord]) -> bool:
    """Whether the hub has a language from stages with other fingerprints."""
    return any(
        card.stages.get(stage, {}).get("fingerprint") != record.fingerprint
        for stage, record in records.items()
    )


def _publish(
    recipe: Recipe, hub: Hub, trained: TrainedLanguage, comparison: dict[str, dict[str, float]]
) -> None:
    plan, sources = trained.run.plan, _sources(hub, trained)
    card = Card(
        lang=plan.lang,
        name=language_name(plan.lang),
        base_id=hub.info.base_id,
        base_fingerprint=hub.info.base_fingerprint,
        stages={name: vars(record) for name, record in trained.records.items()},
        data=sources,
        licenses=sorted({source["license"] for source in sources if source["license"]}),
        scores=_scores(trained.records),
        recipe=recipe.name,
        recipe_hash=hashlib.sha256(recipe.text.encode()).hexdigest(),
        seed=plan.run.seed,
        versions={package: version(package) for package in _PACKAGES},
        files={},
        created=datetime.now(UTC).date().isoformat(),
        comparison=comparison,
    )
    with hub.staging(plan.lang) as staging:
        # Contents without permissions: safetensors writes files that only their owner may read.
        shutil.copytree(trained.modules.root, staging, dirs_exist_ok=True, copy_function=shutil.copyfile)
        hub.publish(staging, card)
    logger.info(" in the hub: %s", hub.layout(plan.lang).root)


def _sources(hub: Hub, trained: TrainedLanguage) -> list[dict[str, Any]]:
    """What the modules were trained on, without repeats."""
    sources = {
        (source.role, source.source): vars(source)
        for stage in trained.records
        for part in trained.run.data.used_by(stage)
        for source in part.sources
    }
    start = trained.run.plan.sentence_encoding.start
    if "sentence_encoding" in trained.records and start != FRESH:
        # The copied adapter comes with what it was trained on.
        sources |= {
            (entry["role"], entry["source"]): entry
            for entry in hub.card(start).data
            if entry["role"] in _ROLES_OF_ENCODING
        }
    return list(sources.values())


def _scores(records: Mapping[str, StageRecord]) -> dict[str, float]:
    return {
        f"{stage}_{when}_{metric}": round(float(value), 2)
        for stage, record in records.items()
        for when in ("dev_before", "dev_after")
        for metric, value in record.metrics.get(when, {}).items()
        if math.isfinite(value)
    }


def prepare_hub(recipe: Recipe, plans: Sequence[LanguagePlan], base: BaseModel) -> Hub:
    """Open the recipe's hub, or make it, and copy into it what ``hub.start_from`` has to give.

    Copied are the pivot and the languages whose adapter is copied, where they are not trained and the hub
    lacks them.

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
