"""From a recipe to modules in the hub: each language's four stages in order, skipping finished ones."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed

from modenc.base_model import BaseModel, resolve_base
from modenc.errors import LanguageError, RecipeError
from modenc.hub.layout import HubInfo
from modenc.hub.store import Hub
from modenc.languages import language_name, listed_codes, normalize_code
from modenc.recipe.checks import unknown_language
from modenc.recipe.plan import Recipe
from modenc.recipe.settings import STAGES, summarize
from modenc.storage import disk_errors
from modenc.training.alignment import train_alignment
from modenc.training.all_pairs import align_all_pairs
from modenc.training.data_access import TrainingData
from modenc.training.language_adaptation import train_language_adaptation
from modenc.training.publishing import publish_language
from modenc.training.sentence_encoding import train_sentence_encoding
from modenc.training.stage import (
    Stage,
    begin,
    discard,
    finish,
    iterate_stages,
    read_finished,
    refuse_several_processes,
    training_lock,
)
from modenc.training.vocabulary import train_vocabulary

logger = logging.getLogger(__name__)

_KEPT = "finished stages, the last whole checkpoint and the hub are kept"


def train(
    recipe: Recipe,
    *,
    languages: str | Iterable[str] | None = None,
    force: bool = False,
) -> dict[str, Path]:
    """Train the modules of a recipe's languages in its order, and publish them in its hub.

    A language is published when all stages of its plan are done: until then the hub keeps the modules that it
    has.

    Args:
        recipe: a recipe of ``load_recipe``.
        languages: only this code or these, in any standard form (``kaz`` for ``kk``); all by default.
        force: train stages again even where their fingerprint says they are done.

    Returns:
        Language → its folder in the hub.

    Raises:
        LanguageError: a language is not in the recipe, or none is given.
        RecipeError: another training holds one of the languages in the same work folder.
        DataError: the data cannot be used.
        HubError: a hub cannot be used, or a language that others build on is neither there nor trained.
        StorageError: a disk is full or read-only.

    Examples:
        >>> from modenc import load_recipe, train
        >>> folders = train(load_recipe("my_recipe.toml"))
    """
    training, chosen = _prepare(recipe, languages)
    folders: dict[str, Path] = {}
    with training.locked(chosen):
        for job in training.jobs(chosen, force=force):
            folders |= training.run(job)
    return folders


@dataclass(frozen=True)
class StageJob:
    """A stage of one language, or the alignment of all pairs, as a unit of work that may run anywhere."""

    languages: tuple[str, ...]
    stage: str
    after: tuple[int, ...]
    """Positions of the jobs whose results it needs."""


def stage_jobs(
    recipe: Recipe,
    *,
    languages: str | Iterable[str] | None = None,
    force: bool = False,
) -> list[StageJob]:
    """List the work of :func:`train` as jobs for :func:`run_stage_job`; open or create the hub.

    Each job comes after those that it needs. Jobs that do not need each other may run at the same time. The
    arguments and errors are those of :func:`train`; with ``force`` the stages' folders are removed now, so
    that a job can be run again.
    """
    training, chosen = _prepare(recipe, languages)
    with training.locked(chosen):
        return training.jobs(chosen, force=force)


def run_stage_job(recipe: Recipe, job: StageJob, *, wait: float = 0) -> dict[str, Path]:
    """Run a job of :func:`stage_jobs`; an interrupted one goes on from its last checkpoint.

    Args:
        recipe: the recipe that the jobs were made from.
        job: its ``after`` must be done.
        wait: seconds that an earlier process with the same job may take to end.

    Returns:
        After the last stage, language → its folder in the hub; otherwise nothing.
    """
    base = resolve_base(recipe.plans[job.languages[0]].base.model)
    training = _Training(recipe, Hub.open(recipe.hub), base)
    with training.locked(job.languages, wait):
        return training.run(job)


def _prepare(recipe: Recipe, languages: str | Iterable[str] | None) -> tuple[_Training, list[str]]:
    """Choose languages, by default all, in the recipe's order; open or create the hub.

    The pivot and the languages that others start from are copied into it from ``hub.start_from`` where it
    lacks them and this does not train them.
    """
    refuse_several_processes()
    for line in recipe.warnings:
        logger.warning("warning: %s", line)
    given = listed_codes(recipe.plans if languages is None else languages)
    chosen = {normalize_code(lang) for lang in given}
    if not chosen:
        raise LanguageError("languages: expected at least one, found none; leave it out to train all")
    for lang in sorted(chosen - set(recipe.plans)):
        raise LanguageError(unknown_language(lang, recipe.plans))
    plans = [plan for lang, plan in recipe.plans.items() if lang in chosen]
    if plans[0].aligns_all_pairs() and len(plans) < len(recipe.plans):
        raise RecipeError(
            "alignment.partners = 'all' trains all languages of the recipe in one; leave --lang out"
        )
    base, settings = resolve_base(plans[0].base.model), plans[0].base
    info = HubInfo(
        base_id=base.id,
        base_fingerprint=base.fingerprint,
        hidden_size=base.hidden_size,
        pivot=recipe.pivot,
        pooling=settings.pooling,
        prompt=settings.prompt,
        max_length=settings.max_length,
    )
    hub = Hub.create(recipe.hub, info)
    needed = {lang for plan in plans for lang in plan.builds_on()}
    if recipe.start_from is not None:
        for lang in sorted({recipe.pivot, *needed} - chosen - set(hub.languages())):
            hub.install(recipe.start_from, lang)
            logger.info("%s: copied from %s", lang, recipe.start_from)
    for lang in sorted(needed - chosen):
        hub.folder(lang)  # raises an error now, not after hours of training
    return _Training(recipe, hub, base), [plan.lang for plan in plans]


class _Training:
    """Runs jobs of a recipe; keeps the data of the last one's languages, which the next may read again."""

    def __init__(self, recipe: Recipe, hub: Hub, base: BaseModel) -> None:
        self.recipe, self.hub, self.base = recipe, hub, base
        self.data: dict[str, TrainingData] = {}

    def locked(self, languages: Iterable[str], wait: float = 0) -> ExitStack:
        """Lock languages in their work folders, as a context; RecipeError where one is held."""
        with ExitStack() as stack:
            for lang in languages:
                work = self.recipe.plans[lang].run.work_dir
                stack.enter_context(disk_errors(work, _KEPT))
                stack.enter_context(training_lock(work / lang, wait))
            return stack.pop_all()

    def jobs(self, languages: Sequence[str], *, force: bool) -> list[StageJob]:
        """List the jobs of locked languages; with ``force``, discard what their stages made before."""
        plans = [self.recipe.plans[lang] for lang in languages]
        if force:
            for plan in plans:
                for name in STAGES:
                    discard(plan.run.work_dir / plan.lang / name)
        all_pairs = plans[0].aligns_all_pairs()
        blocks: list[tuple[tuple[str, ...], tuple[str, ...]]]
        blocks = [((lang,), STAGES[:-1] if all_pairs else STAGES) for lang in languages]
        if all_pairs:
            blocks.append((tuple(languages), STAGES[-1:]))
        jobs: list[StageJob] = []
        last: dict[str, int] = {}
        for together, names in blocks:
            for name in names:
                # A job first checks that the earlier stages are done. Their fingerprints cover the modules
                # that they read from the hub, so these must be published before this job, too.
                earlier, needed = STAGES[: STAGES.index(name) + 1], set(together)
                for plan in (self.recipe.plans[lang] for lang in together):
                    needed |= {lang for stage in earlier for lang, *_ in plan.modules_needed(stage)}
                after = {last[lang] for lang in needed if lang in last}
                if name != names[0]:
                    after.add(len(jobs) - 1)
                jobs.append(StageJob(together, name, tuple(sorted(after))))
            last.update(dict.fromkeys(together, len(jobs) - 1))
        return jobs

    def run(self, job: StageJob) -> dict[str, Path]:
        """Train a job's stage unless it is done, and publish its languages after the last stage."""
        plans = [self.recipe.plans[lang] for lang in job.languages]
        # Other languages' data are forgotten, since they may fill the memory.
        own = self.recipe.plans.get(self.recipe.pivot)
        self.data = {plan.lang: self.data.get(plan.lang) or TrainingData(plan, own) for plan in plans}
        stages, before = dict[str, Stage](), dict[str, dict[str, dict[str, Any]]]()
        for plan in plans:
            before[plan.lang] = {}
            for stage in iterate_stages(self.base, self.hub, self.data[plan.lang]):
                if stage.name == job.stage:
                    stages[plan.lang] = stage
                    break
                before[plan.lang][stage.name] = self._finished(stage, job)
        pivot = None
        if job.stage == "alignment" and plans[0].aligns_all_pairs():
            # In one order, whatever the recipe's is.
            stages = dict(sorted(stages.items()))
            joined = "\n".join(stage.fingerprint for stage in stages.values())
            joined = hashlib.sha256(joined.encode()).hexdigest()
            stages = {lang: replace(stage, fingerprint=joined) for lang, stage in stages.items()}
            pivot = stages[self.recipe.pivot].modules
        finished = _train_stages(stages)
        if job.stage != STAGES[-1]:
            return {}
        return {
            lang: publish_language(
                self.recipe, self.hub, stages[lang], before[lang] | {job.stage: finished[lang]}, pivot=pivot
            )
            for lang in job.languages
        }

    def _finished(self, stage: Stage, job: StageJob) -> dict[str, Any]:
        """Return the card's entry of a stage that a job needs; RecipeError if it is not done."""
        entry, plan = read_finished(stage), stage.plan
        if entry is None:
            only = "" if plan.aligns_all_pairs() else f" --lang {plan.lang}"
            raise RecipeError(
                f"{plan.lang}: stage {stage.name} is not done with the present settings and data, and "
                f"{job.stage} needs it; run: modenc train {self.recipe.name}{only}"
            )
        return entry


def _train_stages(stages: Mapping[str, Stage]) -> dict[str, dict[str, Any]]:
    """Train a stage of one language, or the alignment of all pairs of them, unless it is done."""
    # The pivot's folder has the checkpoints of all pairs until the others are finished.
    pivot_last = sorted(stages.values(), key=lambda stage: stage.plan.lang == stage.plan.pivot)
    name, plan = pivot_last[-1].name, pivot_last[-1].plan
    finished = {lang: entry for lang, stage in stages.items() if (entry := read_finished(stage))}
    all_pairs = name == "alignment" and plan.aligns_all_pairs()
    title = "all pairs" if all_pairs else f"{plan.lang} ({language_name(plan.lang)})"
    if len(finished) == len(stages):
        logger.info("%s: %s: done before, skipped", title, name)
        return finished
    summary = summarize(vars(getattr(plan, name)))
    logger.info("%s: %s: %s, %d threads", title, name, summary, torch.get_num_threads())
    for stage in stages.values():
        begin(stage)
    # Here, so that a new adapter's weights do not depend on what the process trained before.
    set_seed(plan.run.seed)
    metrics = align_all_pairs(stages) if all_pairs else _STAGE_FUNCTIONS[name](stages[plan.lang])
    return {stage.plan.lang: finish(stage, metrics) for stage in pivot_last}


_STAGE_FUNCTIONS: dict[str, Callable[[Stage], dict[str, Any]]] = {
    "vocabulary": train_vocabulary,
    "language_adaptation": train_language_adaptation,
    "sentence_encoding": train_sentence_encoding,
    "alignment": train_alignment,
}
