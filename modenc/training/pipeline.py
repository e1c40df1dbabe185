"""From a recipe to modules in the hub: the four stages in order, each skipped where it is done."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import set_seed

from modenc.base_model import BaseModel, resolve_base
from modenc.errors import LanguageError, RecipeError
from modenc.hub.store import Hub
from modenc.languages import language_name, normalize_code
from modenc.recipe.settings import STAGES, LanguagePlan, Recipe
from modenc.storage import disk_errors
from modenc.threads import set_threads
from modenc.training.alignment import align_language
from modenc.training.all_pairs import align_all_pairs
from modenc.training.data_access import TrainingData
from modenc.training.language_adaptation import adapt_language
from modenc.training.processes import language_lock, process_state
from modenc.training.publishing import TrainedLanguage, prepare_hub, publish_language
from modenc.training.sentence_encoding import encode_sentences
from modenc.training.stage import (
    StageRecord,
    StageRun,
    begin,
    discard,
    finish,
    finished,
    make_ready,
    modules_read,
    stage_runs,
)
from modenc.training.vocabulary import make_vocabulary

logger = logging.getLogger(__name__)

_ALL_PAIRS = "all_pairs"
_KEPT = "finished stages, the last whole checkpoint and the hub are kept"


def train(
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
        force: train stages again even where their fingerprint says they are done.

    Returns:
        Language → its folder in the hub; without those that ``run.publish`` kept out of it.

    Raises:
        LanguageError: a language is not in the recipe.
        RecipeError: a stage is unknown, or one it builds on is not done, or another training holds one of
            the languages, in the same work folder or for the same hub.
        DataError: the data cannot be used.
        HubError: a hub cannot be used, or a language that others build on is neither there nor trained.
        StorageError: a disk is full or read-only.

    Examples:
        >>> from modenc import load_recipe, train
        >>> folders = train(load_recipe("my_recipe.toml"))
    """
    training, plans, due = _begun(recipe, languages, stages, force=force)
    together = _together(plans, due)
    folders = training.together(plans, due) if together else training.one_by_one(plans, due)
    return {lang: folder for lang, folder in folders.items() if folder is not None}


@dataclass(frozen=True)
class TrainingStep:
    """A stage of one language, or of all that are aligned with each other; may have a process of its own."""

    languages: tuple[str, ...]
    stage: str
    publishes: bool
    """Whether the languages go into the hub after it."""
    after: tuple[int, ...]
    """Positions of the steps whose results it needs."""


def training_steps(
    recipe: Recipe,
    *,
    languages: Sequence[str] | None = None,
    stages: Sequence[str] | None = None,
    force: bool = False,
) -> list[TrainingStep]:
    """What :func:`train` would do, as steps for :func:`train_step`; opens or makes the hub.

    Each step comes after those that it needs. Steps that do not need each other may run at the same time,
    and all together leave in the hub what :func:`train` does. The arguments and errors are those of
    :func:`train`; with ``force`` the stages' folders are removed now, so that a step can be run again.
    """
    training, plans, due = _begun(recipe, languages, stages, force=force)
    together = _together(plans, due)
    with ExitStack() as locks:
        for plan in plans:
            locks.enter_context(language_lock(plan.lang, plan.run.work_dir, training.hub))
        if force:
            folders = [plan.run.work_dir / plan.lang / stage for plan in plans for stage in due]
            for folder in [*folders, *([plans[0].run.work_dir / _ALL_PAIRS] if together else [])]:
                discard(folder)
    early = [stage for stage in due if stage != "alignment"]
    jobs = [(plan, early) for plan in plans if early] if together else _jobs(recipe, plans, due)
    steps: list[TrainingStep] = []
    published: dict[str, int] = {}
    for plan, wanted in jobs:
        names = [stage for stage in STAGES if stage in wanted]
        for stage in names:
            # Earlier stages are looked at again, to see that they are done: they must find what they read.
            upto = STAGES[: STAGES.index(stage) + 1]
            read = {lang for one in upto for lang, _ in modules_read(plan, one)}
            after = {published[lang] for lang in read | {plan.lang} if lang in published}
            if stage != names[0]:
                after.add(len(steps) - 1)
            steps.append(TrainingStep((plan.lang,), stage, stage == names[-1], tuple(sorted(after))))
        published[plan.lang] = len(steps) - 1
    if together:
        everything = tuple(plan.lang for plan in plans)
        steps.append(TrainingStep(everything, "alignment", True, tuple(sorted(published.values()))))
    return steps


def train_step(recipe: Recipe, step: TrainingStep, *, wait: float = 0) -> dict[str, Path | None]:
    """Run a step of :func:`training_steps`; one that was interrupted goes on from its last checkpoint.

    Args:
        recipe: as there.
        step: all that it comes after must be done.
        wait: seconds that a process which was given the step before may take to end.

    Returns:
        Of a step that publishes, language → its folder in the hub; None where ``run.publish`` kept it out.
    """
    plans = [recipe.plans[lang] for lang in step.languages]
    training = _Training(recipe, resolve_base(plans[0].base.model), Hub.open(recipe.hub), wait=wait)
    if _together(plans, (step.stage,)):
        return training.together(plans, (step.stage,))
    return training.one_by_one(plans, (step.stage,), publish=step.publishes)


def _begun(
    recipe: Recipe, languages: Sequence[str] | None, stages: Sequence[str] | None, *, force: bool
) -> tuple[_Training, list[LanguagePlan], tuple[str, ...]]:
    """The training, the plans of the chosen languages and the stages that are due, all checked."""
    chosen = [normalize_code(lang) for lang in languages or recipe.plans]
    if unknown := set(chosen) - set(recipe.plans):
        raise LanguageError(
            f"recipe {recipe.name!r} has no language {', '.join(sorted(unknown))}; "
            f"it has {', '.join(recipe.plans)}"
        )
    if wrong := set(stages or ()) - set(STAGES):
        raise RecipeError(f"unknown stage {', '.join(sorted(wrong))}; stages are {', '.join(STAGES)}")
    plans = [plan for lang, plan in recipe.plans.items() if lang in chosen]
    due = tuple(stages or STAGES)
    if _together(plans, due) and len(plans) < len(recipe.plans):
        raise RecipeError(
            "alignment.partners = 'all' trains all languages of the recipe in one; leave --lang out, or "
            f"choose stages before it: {' '.join(f'--stage {stage}' for stage in STAGES[:-1])}"
        )
    base = resolve_base(plans[0].base.model)
    return _Training(recipe, base, prepare_hub(recipe, plans, base), force), plans, due


def _together(plans: Sequence[LanguagePlan], due: Sequence[str]) -> bool:
    """Whether all languages are aligned with each other in one training."""
    return "alignment" in due and plans[0].aligned_with_all()


@dataclass(frozen=True)
class _Training:
    """A recipe's training on a base into a hub."""

    recipe: Recipe
    base: BaseModel
    hub: Hub
    force: bool = False
    wait: float = 0

    def one_by_one(
        self, plans: Sequence[LanguagePlan], due: Sequence[str], *, publish: bool = True
    ) -> dict[str, Path | None]:
        """Train and publish language after language."""
        folders: dict[str, Path | None] = {}
        for plan, stages in _jobs(self.recipe, plans, due):
            work = plan.run.work_dir
            with disk_errors(work, _KEPT), language_lock(plan.lang, work, self.hub, self.wait):
                trained = self.train_stages(plan, stages)
                if publish:
                    folders[plan.lang] = publish_language(self.recipe, self.hub, trained)
        return folders

    def together(self, plans: Sequence[LanguagePlan], due: Sequence[str]) -> dict[str, Path | None]:
        """Train and publish language after language up to alignment, then align all with all."""
        work = plans[0].run.work_dir
        with disk_errors(work, _KEPT), ExitStack() as locks:
            for plan in plans:
                locks.enter_context(language_lock(plan.lang, plan.run.work_dir, self.hub, self.wait))
            unaligned = []
            for plan in plans:
                unaligned.append(self.train_stages(plan, due))
                publish_language(self.recipe, self.hub, unaligned[-1])
            aligned = self.align_all(unaligned, work / _ALL_PAIRS)
            pivot = aligned[self.recipe.pivot].modules
            return {
                lang: publish_language(self.recipe, self.hub, trained, pivot)
                for lang, trained in aligned.items()
            }

    def train_stages(self, plan: LanguagePlan, due: Sequence[str]) -> TrainedLanguage:
        """Train a language's due stages, but no alignment of all; RecipeError where an earlier one lacks."""
        logger.info("%s (%s)", plan.lang, language_name(plan.lang))
        logger.info(" threads: %d", set_threads(plan.run.threads))
        data = TrainingData(plan, self.recipe.plans)
        done: list[StageRun] = []
        records: dict[str, StageRecord] = {}
        changed = False
        for run in stage_runs(plan, self.base, self.hub, data):
            if run.name == "alignment" and plan.aligned_with_all():
                break
            record = finished(run)
            if record is not None and not (self.force and run.name in due):
                logger.info(" %s: done before, skipped", run.name)
            elif run.name in due:
                record, changed = _train_stage(run, force=self.force), True
            elif set(due) & set(STAGES[STAGES.index(run.name) :]):
                only = "" if plan.aligned_with_all() else f" --lang {plan.lang}"
                raise RecipeError(
                    f"{plan.lang}: stage {run.name} is not done with the present settings and data, and a "
                    f"later stage needs it; run: modenc train {self.recipe.name}{only}"
                )
            else:
                break
            done.append(run)
            records[run.name] = record
        return TrainedLanguage(done[-1], records, changed)

    def align_all(self, languages: Sequence[TrainedLanguage], folder: Path) -> dict[str, TrainedLanguage]:
        """Align all languages with each other in one training; it is done when it is done for all of them."""
        last = [list(stage_runs(one.run.plan, self.base, self.hub, one.run.data))[-1] for one in languages]
        joined = hashlib.sha256("\n".join(run.fingerprint for run in last).encode()).hexdigest()
        runs = {run.plan.lang: replace(run, fingerprint=joined) for run in last}
        records = {lang: record for lang, run in runs.items() if (record := finished(run))}
        logger.info("all with all: alignment")
        changed = self.force or len(records) < len(runs)
        if changed:
            if process_state().is_main_process:
                make_ready(folder, joined, force=self.force)
            for run in runs.values():
                begin(run, force=True)
            set_seed(last[0].plan.run.seed)
            metrics = align_all_pairs(runs, folder)
            records = {lang: finish(run, metrics) for lang, run in runs.items()}
        else:
            logger.info(" alignment: done before, skipped")
        if process_state().is_main_process:
            discard(folder)
        return {
            lang: TrainedLanguage(runs[lang], {**trained.records, "alignment": records[lang]}, changed)
            for lang, trained in zip(runs, languages, strict=True)
        }


def _jobs(
    recipe: Recipe, plans: Sequence[LanguagePlan], stages: Sequence[str]
) -> Iterator[tuple[LanguagePlan, Sequence[str]]]:
    """Plans with the stages to train, in order: what the pivot starts from is aligned after the pivot."""
    waiting: list[LanguagePlan] = []
    for plan in plans:
        if plan.lang not in recipe.before_pivot():
            yield plan, stages
        else:
            if early := [stage for stage in stages if stage != "alignment"]:
                yield plan, early
            if "alignment" in stages:
                waiting.append(plan)
        if plan is plans[-1] or plan.lang == recipe.pivot:
            yield from ((one, ("alignment",)) for one in waiting)
            waiting = []


_STAGE_FUNCTIONS: dict[str, Callable[[StageRun], dict[str, Any]]] = {
    "vocabulary": make_vocabulary,
    "language_adaptation": adapt_language,
    "sentence_encoding": encode_sentences,
    "alignment": align_language,
}


def _train_stage(run: StageRun, *, force: bool) -> StageRecord:
    """Train one stage from the modules of the stage before, and mark it as done."""
    begin(run, force=force)
    logger.info(" %s: %s", run.name, _summary(run.plan, run.name))
    # Here, so that a new adapter's weights do not depend on what the process trained before.
    set_seed(run.plan.run.seed)
    return finish(run, _STAGE_FUNCTIONS[run.name](run))


def _summary(plan: LanguagePlan, stage: str) -> str:
    if stage == "sentence_encoding":
        return plan.sentence_encoding.summary()
    section = getattr(plan, stage)
    return str(section.method if stage == "vocabulary" else section.objective)
