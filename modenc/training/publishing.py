"""Trained modules are compared with the base and put into the hub, with a card about their training."""

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
from modenc.hub.card import Card, loses
from modenc.hub.files import files_below, sha256
from modenc.hub.layout import README_FILE, HubInfo, LanguageLayout
from modenc.hub.store import Hub
from modenc.languages import language_name
from modenc.recipe.settings import FRESH, STAGES, LanguagePlan, Recipe
from modenc.training.base_comparison import compare_with_base, log_comparison
from modenc.training.processes import of_main_process, process_state
from modenc.training.stage import Stage, StageRecord

logger = logging.getLogger(__name__)

_KINDS_OF_ENCODING = ("text", "paraphrases", "scored_pairs", "passages")
_PACKAGES = ("modenc", "torch", "transformers", "sentence-transformers", "peft", "adapters", "deepfocus")


@dataclass(frozen=True)
class TrainedLanguage:
    """A language's modules after its last finished stage."""

    stage: Stage
    """The last finished stage."""
    records: Mapping[str, StageRecord]
    """Stage → its record, for the stages that are done."""
    changed: bool
    """Whether a stage was trained now."""
    early: bool = False
    """Whether the hub gets it though its alignment is left, since a language before that starts from it."""

    def left(self) -> list[str]:
        """List the stages that are still to be trained."""
        return [name for name in STAGES if name not in self.records and not self.stage.plan.skips(name)]


def publish_language(
    recipe: Recipe, hub: Hub, trained: TrainedLanguage, pivot: LanguageLayout | None = None
) -> Path | None:
    """Compare modules with the base and put them into the hub, unless it has them already.

    While stages are left, the hub keeps what it has. ``pivot`` are the pivot's modules that they were trained
    with, by default those in the hub. All processes wait for the main one, since the next language may need
    these modules.

    Returns:
        The language's folder in the hub, in the work folder while stages are left, None where
        ``run.publish`` keeps the modules out.
    """
    lang, published = trained.stage.plan.lang, True
    if trained.left() and not trained.early and of_main_process(_waits(recipe, hub, trained)):
        return trained.stage.modules.root
    if process_state().is_main_process:
        card = hub.card(lang) if lang in hub.languages() else None
        sources = _sources(hub, trained)
        if card is None or trained.changed or _is_outdated(card, trained, sources):
            comparison = compare_with_base(trained.stage.data, trained.stage.modules, pivot)
            published = trained.stage.plan.run.publish == "always" or not loses(comparison)
            if published:
                _publish(recipe, hub, trained, sources, comparison)
            else:
                kept = "it has none of this language" if card is None else "the modules that are there stay"
                logger.warning(
                    "  %s: not put into the hub %s (run.publish = 'unless_worse'); %s. The trained stages "
                    "stay in %s: train again with better data or settings, or publish them as they are with "
                    "run.publish=always",
                    lang, hub.path, kept, trained.stage.plan.run.work_dir / lang,
                )  # fmt: skip
        elif card.comparison:
            log_comparison(lang, card.comparison)
    return hub.path / lang if of_main_process(published) else None


def _waits(recipe: Recipe, hub: Hub, trained: TrainedLanguage) -> bool:
    """Check whether the hub gets an unfinished language only when it is finished, and say so.

    If another language starts from its adapter, a hub without alignment of it gets it at once, since the
    other may have to be trained before this one's alignment.
    """
    lang, left = trained.stage.plan.lang, trained.left()
    card = hub.card(lang) if lang in hub.languages() else None
    is_start = any(plan.sentence_encoding.start == lang for plan in recipe.plans.values())
    is_early = card is None or card.stages.keys() == set(STAGES[:-1])
    if is_start and is_early and "sentence_encoding" in trained.records:
        return False
    news = card is None or trained.changed or _is_outdated(card, trained, [])
    if news and process_state().is_main_process:
        kept = "not in the hub" if card is None else "the hub keeps its modules"
        done = f"{', '.join(left)} {'is' if len(left) == 1 else 'are'} done"
        logger.warning("%s: %s until %s", lang, kept, done)
    return True


def _is_outdated(card: Card, trained: TrainedLanguage, sources: list[dict[str, Any]]) -> bool:
    """Check whether a card is of other modules, or says something else about their data."""
    there = {name: card.stages.get(name, {}).get("fingerprint") for name in trained.records}
    if there != {name: record.fingerprint for name, record in trained.records.items()}:
        return True
    # A training by force has the same fingerprints, and may have been killed before this.
    found = {name: sha256(path) for name, path in files_below(trained.stage.modules.root)}
    published = {name: record["sha256"] for name, record in card.files.items() if name != README_FILE}
    if trained.left():
        return not found.items() <= published.items()
    return found != published or card.data != sources


def _publish(
    recipe: Recipe,
    hub: Hub,
    trained: TrainedLanguage,
    sources: list[dict[str, Any]],
    comparison: dict[str, dict[str, float]],
) -> None:
    plan = trained.stage.plan
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
        shutil.copytree(
            trained.stage.modules.root, staging, dirs_exist_ok=True, copy_function=shutil.copyfile
        )
        hub.publish(staging, card)
    logger.info(" in the hub: %s", hub.folder(plan.lang))


def _sources(hub: Hub, trained: TrainedLanguage) -> list[dict[str, Any]]:
    sources = {
        (source.role, source.source): vars(source)
        for name in trained.records
        for rows in trained.stage.data.used_by(name)
        for source in rows.sources
    }
    start = trained.stage.plan.sentence_encoding.start
    if "sentence_encoding" in trained.records and start != FRESH:
        # The copied adapter comes with its own sources.
        sources |= {
            (entry["role"], entry["source"]): entry
            for entry in hub.card(start).data
            if entry["role"] in _KINDS_OF_ENCODING
        }
    return list(sources.values())


def _scores(records: Mapping[str, StageRecord]) -> dict[str, float]:
    return {
        f"{name}_{when}_{metric}": round(float(value), 2)
        for name, record in records.items()
        for when in ("dev_before", "dev_after")
        for metric, value in record.metrics.get(when, {}).items()
        if math.isfinite(value)
    }


def prepare_hub(recipe: Recipe, plans: Sequence[LanguagePlan], base: BaseModel) -> Hub:
    """Open or create the recipe's hub, and copy missing languages into it from ``hub.start_from``.

    The pivot and the languages of ``sentence_encoding.start`` are copied where ``plans`` do not train them
    and the hub lacks them.

    Raises:
        HubError: a hub is for another base, prompt or pooling, or ``hub.start_from`` lacks a language.
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
