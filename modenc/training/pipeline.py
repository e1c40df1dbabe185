"""From a recipe to modules in the hub: each language's four stages in order, skipping finished ones."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import set_seed

from modenc.base_model import BaseModel, resolve_base
from modenc.errors import LanguageError, RecipeError
from modenc.hub.store import Hub
from modenc.languages import language_name, listed_codes, normalize_code
from modenc.recipe.loader import check_recipe
from modenc.recipe.settings import STAGES, LanguagePlan, Recipe
from modenc.storage import disk_errors
from modenc.training.alignment import train_alignment
from modenc.training.all_pairs import align_all_pairs
from modenc.training.data_access import TrainingData
from modenc.training.language_adaptation import train_language_adaptation
from modenc.training.processes import environment_kept, process_state, training_lock
from modenc.training.publishing import TrainedLanguage, prepare_hub, publish_language
from modenc.training.sentence_encoding import train_sentence_encoding
from modenc.training.stage import (
    Stage,
    StageRecord,
    begin,
    discard,
    finish,
    iterate_stages,
    modules_needed,
    prepare_folder,
    read_stage_record,
)
from modenc.training.vocabulary import train_vocabulary

logger = logging.getLogger(__name__)

_ALL_PAIRS = "all_pairs"
_KEPT = "finished stages, the last whole checkpoint and the hub are kept"


@environment_kept()
def train(
    recipe: Recipe,
    *,
    languages: str | Iterable[str] | None = None,
    stages: str | Iterable[str] | None = None,
    force: bool = False,
) -> dict[str, Path]:
    """Train the modules of a recipe's languages in its order, and publish them in its hub.

    A language is published when all stages of its plan are done: until then the hub keeps the modules that it
    has. Where the pivot starts from another language's adapter, that language is published twice: before the
    pivot, without alignment, and after it, with alignment.

    Args:
        recipe: a recipe of ``load_recipe``.
        languages: only this code or these, in any standard form (``kaz`` for ``kk``); all by default.
        stages: only this stage or these; earlier ones must be done already. Stages between and after them
            that have nothing to do (``objective = "none"``) are done, too.
        force: train stages again even where their fingerprint says they are done.

    Returns:
        Language → its folder in the hub, or in the work folder while stages of it are left; without those
        that ``run.publish`` kept out of the hub.

    Raises:
        LanguageError: a language is not in the recipe, or none is given.
        RecipeError: a stage is unknown, none is given, or one it builds on is not done, or another training
            holds one of the languages in the same work folder; ``RecipeIssues`` as ``load_recipe`` raises it,
            for files that were not checked then, and modules that are missing by now.
        DataError: the data cannot be used.
        HubError: a hub cannot be used, or a language that others build on is neither there nor trained.
        StorageError: a disk is full or read-only.

    Examples:
        >>> from modenc import load_recipe, train
        >>> folders = train(load_recipe("my_recipe.toml"))
    """
    training, plans, chosen = _prepare(recipe, languages, stages, force=force)
    folders = training.train(plans, chosen)
    return {lang: folder for lang, folder in folders.items() if folder is not None}


@dataclass(frozen=True)
class StageJob:
    """A stage of one language, or the alignment of all pairs, as a unit of work that may run anywhere."""

    languages: tuple[str, ...]
    stage: str
    publishes: bool
    """Whether the languages go into the hub after it, if all of their stages are done."""
    after: tuple[int, ...]
    """Positions of the jobs whose results it needs."""
    early: bool = False
    """Whether the hub gets them though their alignment is left, since a job before that needs them."""


def stage_jobs(
    recipe: Recipe,
    *,
    languages: str | Iterable[str] | None = None,
    stages: str | Iterable[str] | None = None,
    force: bool = False,
) -> list[StageJob]:
    """List the work of :func:`train` as jobs for :func:`run_stage_job`; open or create the hub.

    Each job comes after those that it needs. Jobs that do not need each other may run at the same time,
    and all of them leave in the hub what :func:`train` does. The arguments and errors are those of
    :func:`train`; with ``force`` the stages' folders are removed now, so that a job can be run again.
    """
    training, plans, chosen = _prepare(recipe, languages, stages, force=force)
    all_pairs = _aligns_all_pairs(plans, chosen)
    with ExitStack() as locks:
        for plan in plans:
            locks.enter_context(training_lock(plan.run.work_dir / plan.lang))
        # A job would find what is missing when jobs before it have discarded modules.
        if set(chosen) != set(STAGES):
            for plan in plans:
                training.due(plan, chosen, TrainingData(plan, recipe.plans))
        if force:
            folders = [plan.run.work_dir / plan.lang / name for plan in plans for name in chosen]
            for folder in [*folders, *([plans[0].run.work_dir / _ALL_PAIRS] if all_pairs else [])]:
                discard(folder)
    jobs: list[StageJob] = []
    published: dict[str, int] = {}
    for plan, names, early in _stage_order(recipe, plans, chosen):
        names = [name for name in STAGES if name in names]
        for name in names:
            # A job first checks that the earlier stages are done. Their fingerprints cover the modules that
            # they read from the hub, so these must be published before this job, too.
            upto = STAGES[: STAGES.index(name) + 1]
            needed = {lang for one in upto for lang, _ in modules_needed(plan, one)}
            after = {published[lang] for lang in needed | {plan.lang} if lang in published}
            if name != names[0]:
                after.add(len(jobs) - 1)
            last = name == names[-1]
            jobs.append(StageJob((plan.lang,), name, last, tuple(sorted(after)), last and early))
        published[plan.lang] = len(jobs) - 1
    if all_pairs:
        everything = tuple(plan.lang for plan in plans)
        jobs.append(StageJob(everything, "alignment", True, tuple(sorted(published.values()))))
    return jobs


@environment_kept()
def run_stage_job(recipe: Recipe, job: StageJob, *, wait: float = 0) -> dict[str, Path | None]:
    """Run a job of :func:`stage_jobs`; an interrupted one goes on from its last checkpoint.

    Args:
        recipe: the recipe that the jobs were made from.
        job: its ``after`` must be done.
        wait: seconds that an earlier process with the same job may take to end.

    Returns:
        For a job that publishes, language → its folder as :func:`train` returns it; None where
        ``run.publish`` kept it out.
    """
    plans = [recipe.plans[lang] for lang in job.languages]
    training = _Training(recipe, resolve_base(plans[0].base.model), Hub.open(recipe.hub), wait=wait)
    if _aligns_all_pairs(plans, (job.stage,)):
        return training.train_all_pairs(plans, (job.stage,))
    folder = training.train_language(plans[0], (job.stage,), publish=job.publishes, early=job.early)
    return {plans[0].lang: folder} if job.publishes else {}


def _prepare(
    recipe: Recipe,
    languages: str | Iterable[str] | None,
    stages: str | Iterable[str] | None,
    *,
    force: bool,
) -> tuple[_Training, list[LanguagePlan], tuple[str, ...]]:
    """Check the chosen languages and stages, and open the hub; all are chosen by default."""
    for line in recipe.left_out:
        logger.info("%s", line)
    chosen = [normalize_code(lang) for lang in listed_codes(recipe.plans if languages is None else languages)]
    names = (stages,) if isinstance(stages, str) else STAGES if stages is None else tuple(stages)
    if not chosen:
        raise LanguageError("languages: expected at least one, found none; leave it out to train all")
    if not names:
        raise RecipeError("stages: expected at least one, found none; leave it out to train all")
    if unknown := set(chosen) - set(recipe.plans):
        raise LanguageError(
            f"recipe {recipe.name!r} has no language {', '.join(sorted(unknown))}; "
            f"it has {', '.join(recipe.plans)}"
        )
    if wrong := set(names) - set(STAGES):
        raise RecipeError(f"unknown stage {', '.join(sorted(wrong))}; stages are {', '.join(STAGES)}")
    plans = [plan for lang, plan in recipe.plans.items() if lang in chosen]
    if _aligns_all_pairs(plans, names) and len(plans) < len(recipe.plans):
        raise RecipeError(
            "alignment.partners = 'all' trains all languages of the recipe in one; leave --lang out, or "
            f"choose stages before it: {' '.join(f'--stage {name}' for name in STAGES[:-1])}"
        )
    # A single stage may not need the other languages.
    check_recipe(recipe, [plan.lang for plan in plans], need_others=stages is None)
    base = resolve_base(plans[0].base.model)
    return _Training(recipe, base, prepare_hub(recipe, plans, base), force), plans, names


def _aligns_all_pairs(plans: Sequence[LanguagePlan], stages: Sequence[str]) -> bool:
    return "alignment" in stages and plans[0].aligns_all_pairs()


@dataclass(frozen=True)
class _Training:
    recipe: Recipe
    base: BaseModel
    hub: Hub
    force: bool = False
    wait: float = 0

    def train(self, plans: Sequence[LanguagePlan], stages: Sequence[str]) -> dict[str, Path | None]:
        """Train and publish language after language, or all of them with all pairs aligned at the end."""
        if _aligns_all_pairs(plans, stages):
            return self.train_all_pairs(plans, stages)
        return {
            plan.lang: self.train_language(plan, names, early=early)
            for plan, names, early in _stage_order(self.recipe, plans, stages)
        }

    def train_language(
        self, plan: LanguagePlan, stages: Sequence[str], *, publish: bool = True, early: bool = False
    ) -> Path | None:
        """Train a language's stages and publish it; ``early`` is that of :class:`TrainedLanguage`."""
        work = plan.run.work_dir
        with disk_errors(work, _KEPT), training_lock(work / plan.lang, self.wait):
            trained = self.train_stages(plan, stages)
            if early:
                trained = replace(trained, early=True)
            return publish_language(self.recipe, self.hub, trained) if publish else None

    def train_all_pairs(self, plans: Sequence[LanguagePlan], stages: Sequence[str]) -> dict[str, Path | None]:
        """Train languages, align all pairs of them, and publish them."""
        work = plans[0].run.work_dir
        with disk_errors(work, _KEPT), ExitStack() as locks:
            for plan in plans:
                locks.enter_context(training_lock(plan.run.work_dir / plan.lang, self.wait))
            unaligned = []
            for plan in plans:
                unaligned.append(self.train_stages(plan, stages))
                if _others_start_from(plan, plans):
                    publish_language(self.recipe, self.hub, replace(unaligned[-1], early=True))
            aligned = self._align_all_pairs(unaligned, work / _ALL_PAIRS)
            pivot = aligned[self.recipe.pivot].stage.modules
            return {
                lang: publish_language(self.recipe, self.hub, trained, pivot)
                for lang, trained in aligned.items()
            }

    def train_stages(self, plan: LanguagePlan, stages: Sequence[str]) -> TrainedLanguage:
        """Train a language's stages, without the alignment of all pairs; raises what :meth:`due` does."""
        logger.info("%s (%s)", plan.lang, language_name(plan.lang))
        if plan.run.threads:
            torch.set_num_threads(plan.run.threads)
        logger.info(" threads: %d", torch.get_num_threads())
        records: dict[str, StageRecord] = {}
        changed = False
        for stage, record in self.due(plan, stages, TrainingData(plan, self.recipe.plans)):
            if record is not None:
                logger.info(" %s: done before, skipped", stage.name)
            else:
                begin(stage, force=self.force)
                logger.info(" %s: %s", stage.name, _summary(plan, stage.name))
                # Here, so that a new adapter's weights do not depend on what the process trained before.
                set_seed(plan.run.seed)
                record, changed = finish(stage, _STAGE_FUNCTIONS[stage.name](stage)), True
            records[stage.name] = record
        return TrainedLanguage(stage, records, changed)

    def due(
        self, plan: LanguagePlan, stages: Sequence[str], data: TrainingData
    ) -> list[tuple[Stage, StageRecord | None]]:
        """List the stages up to the last that is done or to be trained; the latter have no record.

        RecipeError where a stage that is not chosen would have to be trained, and a later one needs it.
        """
        found: list[tuple[Stage, StageRecord | None]] = []
        again = False
        for index, stage in enumerate(iterate_stages(plan, self.base, self.hub, data)):
            if stage.name == "alignment" and plan.aligns_all_pairs():
                break
            record, chosen = read_stage_record(stage), stage.name in stages
            if again or (self.force and chosen) or record is None:
                if not chosen and not (plan.skips(stage.name) and set(stages) & set(STAGES[:index])):
                    if not set(stages) & set(STAGES[index:]):
                        break
                    why = "not done with the present settings and data"
                    why = why if record is None else "to be trained again after the one before it"
                    only = "" if plan.aligns_all_pairs() else f" --lang {plan.lang}"
                    raise RecipeError(
                        f"{plan.lang}: stage {stage.name} is {why}, and a later stage "
                        f"needs it; run: modenc train {self.recipe.name}{only}"
                    )
                record, again = None, True
            found.append((stage, record))
        return found

    def _align_all_pairs(
        self, unaligned: Sequence[TrainedLanguage], folder: Path
    ) -> dict[str, TrainedLanguage]:
        """Align all pairs of languages in one training, unless it is done for all of them."""
        last = [
            list(iterate_stages(one.stage.plan, self.base, self.hub, one.stage.data))[-1] for one in unaligned
        ]
        # In one order, whatever the recipe's is.
        last.sort(key=lambda stage: stage.plan.lang)
        joined = hashlib.sha256("\n".join(stage.fingerprint for stage in last).encode()).hexdigest()
        stages = {stage.plan.lang: replace(stage, fingerprint=joined) for stage in last}
        records = {lang: record for lang, stage in stages.items() if (record := read_stage_record(stage))}
        logger.info("all pairs: alignment")
        changed = self.force or len(records) < len(stages)
        if changed:
            if process_state().is_main_process:
                prepare_folder(folder, joined, force=self.force)
            for stage in stages.values():
                begin(stage, force=True)
            set_seed(stages[self.recipe.pivot].plan.run.seed)
            metrics = align_all_pairs(stages, folder)
            records = {lang: finish(stage, metrics) for lang, stage in stages.items()}
        else:
            logger.info(" alignment: done before, skipped")
        if process_state().is_main_process:
            discard(folder)
        return {
            (lang := one.stage.plan.lang): TrainedLanguage(
                stages[lang], {**one.records, "alignment": records[lang]}, changed
            )
            for one in unaligned
        }


def _stage_order(
    recipe: Recipe, plans: Sequence[LanguagePlan], stages: Sequence[str]
) -> Iterator[tuple[LanguagePlan, Sequence[str], bool]]:
    """Yield plans with the stages to train, without the alignment of all pairs.

    Languages that the pivot starts from are aligned after it. The third value says whether a language's
    alignment comes after a language that starts from it.
    """
    early = [name for name in stages if name != "alignment"]
    if _aligns_all_pairs(plans, stages):
        yield from ((plan, early, _others_start_from(plan, plans)) for plan in plans if early)
        return
    waits_for_pivot = any(plan.lang == recipe.pivot for plan in plans) and "alignment" in stages
    waiting: list[LanguagePlan] = []
    for plan in plans:
        if plan.lang not in recipe.before_pivot() or not waits_for_pivot:
            yield plan, stages, False
        else:
            waiting.append(plan)
            if early:
                yield plan, early, True
        if plan.lang == recipe.pivot:
            yield from ((one, ("alignment",), False) for one in waiting)


def _others_start_from(plan: LanguagePlan, plans: Sequence[LanguagePlan]) -> bool:
    return any(other.sentence_encoding.start == plan.lang for other in plans)


_STAGE_FUNCTIONS: dict[str, Callable[[Stage], dict[str, Any]]] = {
    "vocabulary": train_vocabulary,
    "language_adaptation": train_language_adaptation,
    "sentence_encoding": train_sentence_encoding,
    "alignment": train_alignment,
}


def _summary(plan: LanguagePlan, name: str) -> str:
    if name == "sentence_encoding":
        return plan.sentence_encoding.summary()
    section = getattr(plan, name)
    return str(section.method if name == "vocabulary" else section.objective)
