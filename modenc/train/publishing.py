"""Trained modules into the hub: compared with the base, and with a card that says how they came about."""

from __future__ import annotations

import hashlib
import logging
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from modenc.hub.card import Card
from modenc.hub.layout import LanguageLayout
from modenc.hub.store import Hub
from modenc.languages import language_name
from modenc.recipe.settings import FRESH, LanguagePlan, Recipe
from modenc.train.comparison import compare_with_base, held_back
from modenc.train.data_access import TrainingData
from modenc.train.processes import process_state
from modenc.train.stage import StageRecord

logger = logging.getLogger(__name__)

_ROLES_OF_ENCODING = ("text", "paraphrases", "scored_pairs")
_PACKAGES = ("modenc", "torch", "transformers", "sentence-transformers", "peft", "adapters", "deepfocus")


def is_outdated(hub: Hub, lang: str, records: Mapping[str, StageRecord]) -> bool:
    """Whether the hub lacks a language, or has it from stages with other fingerprints."""
    if lang not in hub.languages():
        return True
    published = hub.card(lang).stages
    return any(
        published.get(stage, {}).get("fingerprint") != record.fingerprint for stage, record in records.items()
    )


@dataclass(frozen=True)
class TrainedLanguage:
    """What a language's training came to."""

    plan: LanguagePlan
    modules: LanguageLayout
    records: Mapping[str, StageRecord]
    """Stage → its record, for the stages that are done."""
    data: TrainingData


def publish_language(
    recipe: Recipe, hub: Hub, trained: TrainedLanguage, pivot: LanguageLayout | None = None
) -> bool:
    """Compare modules with the base, and put them into the hub.

    Args:
        recipe: what they were trained by.
        hub: where they go.
        trained: the modules.
        pivot: the pivot's modules, where those in the hub are not the ones that were trained with.

    Returns:
        Whether ``run.publish`` let them in; True in all processes but the main one, which do nothing. Only
        the main process's answer counts.
    """
    if not process_state().is_main_process:
        return True
    plan, modules = trained.plan, trained.modules
    comparison = compare_with_base(trained.data, modules, pivot)
    if held_back(plan, comparison):
        return False
    sources = _sources(hub, trained)
    card = Card(
        lang=plan.lang,
        name=language_name(plan.lang),
        base_id=hub.info.base_id,
        base_fingerprint=hub.info.base_fingerprint,
        stages={name: vars(record) for name, record in trained.records.items()},
        data=sources,
        licences=sorted({source["licence"] for source in sources if source["licence"]}),
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
        # Contents alone: safetensors writes files that nobody else may read.
        shutil.copytree(modules.root, staging, dirs_exist_ok=True, copy_function=shutil.copyfile)
        hub.publish(staging, card)
    logger.info(" in the hub: %s", hub.layout(plan.lang).root)
    return True


def _sources(hub: Hub, trained: TrainedLanguage) -> list[dict[str, Any]]:
    """What the modules were trained on, without repeats."""
    sources = {
        (source.role, source.source): vars(source)
        for stage in trained.records
        for part in trained.data.used_by(stage)
        for source in part.sources
    }
    start = trained.plan.sentence_encoding.start
    if "sentence_encoding" in trained.records and start != FRESH:
        # The copied adapter carries what it was trained on.
        sources |= {
            (entry["role"], entry["source"]): entry
            for entry in hub.card(start).data
            if entry["role"] in _ROLES_OF_ENCODING
        }
    return list(sources.values())


def _scores(records: Mapping[str, StageRecord]) -> dict[str, float]:
    scores = {}
    for stage, record in records.items():
        for when in ("dev_before", "dev_after"):
            for metric, value in record.metrics.get(when, {}).items():
                if not math.isfinite(value):
                    continue
                scores[f"{stage}_{when}_{metric}"] = round(float(value), 2)
    return scores
