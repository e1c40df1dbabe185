"""From a recipe to modules in the hub: the four stages in order, each skipped where it is done."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed

from modenc.base_model import BaseModel, resolve_base
from modenc.errors import LanguageError, RecipeError
from modenc.hub.layout import HubInfo, LanguageLayout
from modenc.hub.store import Hub
from modenc.languages import language_name, normalize_code
from modenc.recipe.settings import STAGES, LanguagePlan, Recipe
from modenc.storage import storing
from modenc.threads import set_threads
from modenc.train.alignment import align_language
from modenc.train.all_pairs import align_all_pairs
from modenc.train.comparison import log_comparison
from modenc.train.data_access import TrainingData
from modenc.train.hub_start import fill_hub
from modenc.train.language_adaptation import adapt_language
from modenc.train.lock import only_training_of
from modenc.train.processes import of_main_process, process_state
from modenc.train.publishing import TrainedLanguage, is_outdated, publish_language
from modenc.train.sentence_encoding import encode_sentences
from modenc.train.stage import (
    StageRecord,
    StageRun,
    begin,
    discard,
    finish,
    finished,
    make_ready,
    settings_of,
)
from modenc.train.stage_chain import stage_runs
from modenc.train.vocabulary import make_vocabulary

logger = logging.getLogger(__name__)

_KEPT = "finished stages, the last whole checkpoint and the hub are kept"


def train_recipe(
    recipe: Recipe,
    *,
    languages: Sequence[str] | None = None,
    stages: Sequence[str] | None = None,
    force: bool = False,
) -> dict[str, Path]:
    """Train the modules of a recipe's languages in its order, and publish them in its hub.

    A language that the pivot starts from is published without alignment first, and with it after the pivot.

    Args:
        recipe: a checked recipe.
        languages: only these codes, in any standard form (``kaz`` for ``kk``); all by default.
        stages: only these stages; earlier ones must be done already.
        force: redo stages even where their fingerprint says they are done.

    Returns:
        Language → its folder in the hub; without those that ``run.publish`` kept out of it.

    Raises:
        LanguageError: a language is not in the recipe, or none at all.
        RecipeError: a stage is unknown, or one it builds on is not done, or another training is at work on
            one of the languages, in the same work folder or for the same hub.
        DataError: the data cannot be used.
        HubError: a hub cannot be used, or what others build on is neither there nor trained by the recipe.
        StorageError: a disk is full or read-only.
    """
    languages = [normalize_code(lang) for lang in languages or ()]
    if unknown := set(languages) - set(recipe.plans):
        raise LanguageError(
            f"recipe {recipe.name!r} has no language {', '.join(sorted(unknown))}; "
            f"it has {', '.join(recipe.plans)}"
        )
    if wrong := set(stages or ()) - set(STAGES):
        raise RecipeError(f"unknown stage {', '.join(sorted(wrong))}; stages are {', '.join(STAGES)}")
    fill_hub(recipe, languages or None)
    plans = [plan for lang, plan in recipe.plans.items() if not languages or lang in languages]
    base = resolve_base(plans[0].base.model)
    hub = _hub_for(plans[0], base)
    due = list(stages or STAGES)
    together = "alignment" in due and _aligned_together(recipe, plans)
    if together:
        due.remove("alignment")
    folders: dict[str, Path | None] = {}
    for plan, part in _jobs(recipe, plans, due):
        logger.info("%s (%s)", plan.lang, language_name(plan.lang))
        with storing(plan.run.work_dir, _KEPT), only_training_of(plan.lang, plan.run.work_dir, hub):
            wanted = _Wanted(part, together, force)
            folders[plan.lang] = _train_language(recipe, plan, base, hub, wanted)
    if together:
        with storing(plans[0].run.work_dir, _KEPT), ExitStack() as held:
            for plan in plans:
                held.enter_context(only_training_of(plan.lang, plan.run.work_dir, hub))
            folders = _align_together(recipe, plans, base, hub, force=force)
    return {lang: folder for lang, folder in folders.items() if folder is not None}


def _jobs(
    recipe: Recipe, plans: Sequence[LanguagePlan], stages: Sequence[str]
) -> Iterator[tuple[LanguagePlan, Sequence[str]]]:
    """What to train in turn: a language that the pivot starts from is aligned once the pivot is there."""
    to_align = []
    for plan in plans:
        if plan.lang not in recipe.before_pivot():
            yield plan, stages
        else:
            if early := [stage for stage in stages if stage != "alignment"]:
                yield plan, early
            if "alignment" in stages:
                to_align.append(plan)
        if plan is plans[-1] or plan.lang == recipe.pivot:
            yield from ((waiting, ("alignment",)) for waiting in to_align)
            to_align = []


def _aligned_together(recipe: Recipe, plans: Sequence[LanguagePlan]) -> bool:
    """Whether the languages are aligned all with all.

    Raises:
        RecipeError: they are, but some are left out.
    """
    if not plans[0].aligned_with_all():
        return False
    if len(plans) < len(recipe.plans):
        raise RecipeError(
            "alignment.partners = 'all' trains all languages of the recipe in one; leave --lang out, or "
            f"choose stages before it: {' '.join(f'--stage {stage}' for stage in STAGES[:-1])}"
        )
    return True


def _hub_for(plan: LanguagePlan, base: BaseModel) -> Hub:
    info = HubInfo(
        base_id=base.id,
        base_fingerprint=base.fingerprint,
        hidden_size=base.hidden_size,
        pivot=plan.pivot,
        pooling=plan.base.pooling,
        prompt=plan.base.prompt,
        max_length=plan.base.max_length,
    )
    with process_state().main_process_first():
        return Hub.create(plan.hub, info)


@dataclass(frozen=True)
class _Wanted:
    """What is to be done for one language."""

    stages: Sequence[str]
    together: bool
    """Whether the alignment of all languages with each other follows."""
    force: bool


def _train_language(
    recipe: Recipe, plan: LanguagePlan, base: BaseModel, hub: Hub, wanted: _Wanted
) -> Path | None:
    logger.info(" threads: %d", set_threads(plan.run.threads))
    data = TrainingData(plan, recipe.plans)
    records: dict[str, StageRecord] = {}
    before: LanguageLayout | None = None
    changed = False
    for run, fingerprint in stage_runs(plan, base, hub, data):
        stage = run.name
        due = stage in wanted.stages
        record = finished(run.folder, fingerprint)
        if record is not None and not (wanted.force and due):
            logger.info(" %s: done before, skipped", stage)
        elif not due:
            later = set(wanted.stages) & set(STAGES[STAGES.index(stage) :])
            if later or (wanted.together and stage != "alignment"):
                raise _not_done(recipe, plan, stage, together=wanted.together)
            break
        else:
            record = _run_stage(run, fingerprint, force=wanted.force)
            changed = True
        records[stage] = record
        before = LanguageLayout(run.modules)
    published = True
    if before is not None and (changed or is_outdated(hub, plan.lang, records)):
        published = publish_language(recipe, hub, TrainedLanguage(plan, before, records, data))
    elif process_state().is_main_process and (known := hub.card(plan.lang).comparison):
        log_comparison(plan.lang, known)
    # The next language may need these modules: no process goes on before they are there.
    published = of_main_process(published)
    there = plan.run.publish == "always" or plan.lang in hub.languages()
    return hub.layout(plan.lang).root if published and there else None


def _not_done(recipe: Recipe, plan: LanguagePlan, stage: str, *, together: bool) -> RecipeError:
    command = f"modenc train {recipe.name}" + ("" if together else f" --lang {plan.lang}")
    return RecipeError(
        f"{plan.lang}: stage {stage} is not done with the present settings and data, "
        f"and a later stage needs it; run: {command}"
    )


def _align_together(
    recipe: Recipe, plans: Sequence[LanguagePlan], base: BaseModel, hub: Hub, *, force: bool
) -> dict[str, Path | None]:
    """One training for the alignment stage of all languages, which is done when all of them are.

    Raises:
        RecipeError: an earlier stage of a language is not done; nothing was begun.
    """
    chains = {
        plan.lang: list(stage_runs(plan, base, hub, TrainingData(plan, recipe.plans))) for plan in plans
    }
    earlier = {
        plan.lang: {run.name: finished(run.folder, mark) for run, mark in chains[plan.lang][:-1]}
        for plan in plans
    }
    for plan in plans:
        for stage, record in earlier[plan.lang].items():
            if record is None:
                raise _not_done(recipe, plan, stage, together=True)
    runs = {lang: chain[-1][0] for lang, chain in chains.items()}
    joined = hashlib.sha256("\n".join(chain[-1][1] for chain in chains.values()).encode()).hexdigest()
    records = {lang: finished(run.folder, joined) for lang, run in runs.items()}
    folder, state = plans[0].run.work_dir / "all_pairs", process_state()
    logger.info("all with all: alignment")
    if not force and all(records.values()):
        logger.info(" alignment: done before, skipped")
    else:
        if state.is_main_process:
            make_ready(folder, joined, force=force)
            for run in runs.values():
                begin(run, joined, force=True)
        state.wait_for_everyone()
        set_seed(plans[0].run.seed)
        metrics = {**align_all_pairs(runs, folder), "threads": torch.get_num_threads()}
        for lang, run in runs.items():
            records[lang] = aligned = StageRecord(joined, settings_of(run.plan, "alignment"), metrics)
            if state.is_main_process:
                finish(run, aligned)
        state.wait_for_everyone()
    folders: dict[str, Path | None] = {}
    pivot = LanguageLayout(runs[recipe.pivot].modules)
    for plan in plans:
        published = True
        done = {**earlier[plan.lang], "alignment": records[plan.lang]}
        found = {stage: record for stage, record in done.items() if record is not None}
        run = runs[plan.lang]
        if is_outdated(hub, plan.lang, found):
            trained = TrainedLanguage(plan, LanguageLayout(run.modules), found, run.data)
            published = publish_language(recipe, hub, trained, pivot)
        folders[plan.lang] = hub.path / plan.lang if published else None
    if state.is_main_process:
        discard(folder)
    return of_main_process(folders)


def _run_stage(run: StageRun, fingerprint: str, *, force: bool) -> StageRecord:
    state = process_state()
    if state.is_main_process:
        begin(run, fingerprint, force=force)
        # What was built on this stage's old result is not done any more, forced or not.
        for later in STAGES[STAGES.index(run.name) + 1 :]:
            discard(run.folder.parent / later)
    state.wait_for_everyone()
    logger.info(" %s: %s", run.name, _summary(run))
    work: dict[str, Callable[[StageRun], dict[str, Any]]] = {
        "vocabulary": _vocabulary,
        "language_adaptation": adapt_language,
        "sentence_encoding": encode_sentences,
        "alignment": align_language,
    }
    # Here, so that a new adapter's weights do not hang on what was trained before it in the same process.
    set_seed(run.plan.run.seed)
    metrics = {**work[run.name](run), "threads": torch.get_num_threads()}
    record = StageRecord(fingerprint, settings_of(run.plan, run.name), metrics)
    if state.is_main_process:
        finish(run, record)
    state.wait_for_everyone()
    return record


def _summary(run: StageRun) -> str:
    if run.name == "sentence_encoding":
        return run.plan.sentence_encoding.summary()
    section = getattr(run.plan, run.name)
    return str(getattr(section, "objective", None) or getattr(section, "method", ""))


def _vocabulary(run: StageRun) -> dict[str, Any]:
    settings = run.plan.vocabulary
    if settings.method == "base" or not process_state().is_main_process:
        return {}
    vocabulary = make_vocabulary(
        settings,
        run.base.load_tokenizer(),
        run.base.load_body().get_input_embeddings().weight.detach().clone(),
        run.data.text.train,
        run.data.text.held_out,
        run.plan.base.prompt,
        run.folder / "focus",
        run.plan.run.seed,
    )
    vocabulary.save(run.modules, run.plan.vocabulary.storage)
    return vocabulary.report
