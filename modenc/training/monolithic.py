"""The paper's baselines (section 4, "Monolithic Baselines"): all parameters of one model, all languages.

They train on the same data and losses as the modular stages, so that a comparison is about the method alone.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Dense, Transformer
from torch import nn
from transformers import set_seed

from modenc.base_model import BaseModel, resolve_base
from modenc.data.kinds import ParaphraseRow
from modenc.data.training_sets import TrainingSet
from modenc.errors import RecipeError
from modenc.recipe.plan import PHASED_OBJECTIVES, READS, LanguagePlan, Recipe
from modenc.storage import disk_errors, whole_folder
from modenc.training.body_module import sentence_model
from modenc.training.data_access import TrainingData
from modenc.training.dev import DevEvaluator
from modenc.training.phases import run_phases
from modenc.training.sentence_encoding import paraphrase_set
from modenc.training.stage import (
    Stage,
    discard,
    prepare_folder,
    refuse_several_processes,
    stage_settings,
    training_lock,
)
from modenc.training.trainers import train_sentence_model

logger = logging.getLogger(__name__)

_KEPT = "the last whole checkpoint is kept"

PROJECTED = ("bitranslation", "vmsst", "vmsst_contrastive")
"""Objectives whose sentence vector is a linear projection of the pooled states (VMSST, section 5)."""


def train_monolithic(recipe: Recipe, output: Path) -> dict[str, Any]:
    """Train one model as ``recipe``'s ``monolithic`` section says, and save it for sentence-transformers.

    Args:
        recipe: a recipe of ``load_recipe``; its languages' data are used, its hub is not touched.
        output: the model's folder, which is made when the training is done.

    Returns:
        Each phase's metrics, by its name.

    Raises:
        RecipeError: a language has settings of its own for the one model, the objective needs data that no
            language has, ``output`` holds other files, or another such training runs in the same work folder.
        StorageError: the disk is full or read-only.
        DataError: the data cannot be used.
    """
    refuse_several_processes()
    output = output.resolve()
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise RecipeError(f"{output}: expected no such folder, or an empty one; found files; name another")
    with disk_errors(output.parent, _KEPT):
        output.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=output.parent):
            pass  # what cannot be written is said now, not after hours of training
    plans = recipe.plans
    _check(plans)
    plan = next(iter(plans.values()))
    settings, base = plan.monolithic, resolve_base(plan.base.model)
    logger.info("threads: %d", torch.get_num_threads())
    set_seed(plan.run.seed)
    body = base.load_body().requires_grad_(True)
    tokenizer = base.load_tokenizer()
    model = sentence_model(body, tokenizer, plan, settings.max_length)
    if settings.objective in PROJECTED:
        model.append(_projection(model, base.hidden_size))
    data = {lang: TrainingData(plan) for lang, plan in plans.items()}
    dev = DevEvaluator(sts=[own.sts for own in data.values()])
    work = plan.run.work_dir / "monolithic"
    with disk_errors(plan.run.work_dir, _KEPT), training_lock(plan.run.work_dir):
        _begin(work, base, plan, data)
        stage = Stage("monolithic", plan, base, data[plan.lang], work, None)
        if settings.objective in PHASED_OBJECTIVES:
            metrics = {str(settings.objective): run_phases(stage, settings, model, data, dev)}
        else:
            metrics = _learn_paraphrases(stage, model, data, dev)
        with disk_errors(output.parent, _KEPT), whole_folder(output) as folder:
            _save(model, tokenizer, plan, folder, metrics)
        discard(work)
    return metrics


def _check(plans: Mapping[str, LanguagePlan]) -> None:
    """Check that all languages have the same settings of the one model, and that some have its data."""
    settings = {lang: stage_settings(plan, "monolithic") for lang, plan in plans.items()}
    (first, wanted), *others = settings.items()
    for lang, found in others:
        if found != wanted:
            raise RecipeError(
                f"languages.{lang}: expected the same settings of one model for all languages, found others "
                f"than {first!r} has; set them at the top of the recipe"
            )
    plan = plans[first]
    objective = plan.monolithic.objective
    if objective in PHASED_OBJECTIVES:
        needs = [(str(objective), name) for name in plan.objective_reads("monolithic")]
    else:
        needs = [(phase, name) for phase in objective.split("+") for name in READS["monolithic"][phase]]
    for choice, name in needs:
        owners = [one for one in plans.values() if choice != "pivot" or one.lang == one.pivot]
        if not any(getattr(one.data, name) for one in owners):
            owner = " of the pivot" if choice == "pivot" else ""
            raise RecipeError(
                f"monolithic.objective: {choice!r} needs data.{name}{owner}, found none in any language; "
                "add sources or choose another objective"
            )


def _learn_paraphrases(
    stage: Stage, model: SentenceTransformer, data: dict[str, TrainingData], dev: DevEvaluator
) -> dict[str, Any]:
    settings = stage.plan.monolithic
    metrics: dict[str, Any] = {}
    for phase in settings.objective.split("+"):
        logger.info("%s", phase)
        metrics[phase] = train_sentence_model(
            stage.with_phase_folder(phase),
            settings.optimizer,
            model,
            _sets(phase, data),
            MultipleNegativesRankingLoss(model, scale=settings.scale),
            dev,
        )
    return metrics


def _projection(model: SentenceTransformer, hidden: int) -> Dense:
    """Make VMSST's linear map from pooled states to the semantic variable's mean.

    It starts as a factor that brings the base's vectors to the length √hidden, where the prior has its mass.
    """
    with torch.inference_mode():
        lengths = model.encode(["."], convert_to_tensor=True).norm(dim=-1)
    weight = torch.eye(hidden) * float(hidden**0.5 / lengths.mean())
    return Dense(
        hidden, hidden, activation_function=nn.Identity(), init_weight=weight, init_bias=torch.zeros(hidden)
    )


def _begin(work: Path, base: BaseModel, plan: LanguagePlan, data: dict[str, TrainingData]) -> None:
    """Prepare the work folder: keep checkpoints of the same settings and data, remove others."""
    content = {
        "settings": stage_settings(plan, "monolithic"),
        "base": [base.fingerprint, plan.base.prompt, plan.base.pooling],
        "seed": plan.run.seed,
        "dev": [sorted(own.sts) for own in data.values()],
        "evaluate_every": any(own.sts for own in data.values()) and plan.run.evaluate_every,
        "data": {lang: [rows.fingerprint for rows in _sets_read(own)] for lang, own in data.items()},
    }
    prepare_folder(work, hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest())


def _sets_read(data: TrainingData) -> list[TrainingSet[Any]]:
    """List the data that the model trains on, of one language."""
    plan = data.plan
    reads = plan.objective_reads("monolithic")
    if plan.monolithic.objective == "pivot" and plan.lang != plan.pivot:
        reads = ()
    return [getattr(data, name) for name in reads if getattr(plan.data, name)]


def _sets(phase: str, data: dict[str, TrainingData]) -> dict[str, Dataset]:
    """Make a data set of each language; they take turns, so that each language gives as many batches."""
    sets: dict[str, Dataset] = {}
    for lang, own in data.items():
        plan, rows = own.plan, []
        if phase == "cross":
            rows = [ParaphraseRow(*row) for row in own.cross_paraphrases.train]
        elif phase == "monolingual" or lang == plan.pivot:
            rows = own.paraphrases.train
        if rows:
            sets[lang] = paraphrase_set(rows, plan.run.seed)
    return sets


def _save(
    model: SentenceTransformer, tokenizer: Any, plan: LanguagePlan, target: Path, metrics: dict[str, Any]
) -> None:
    with TemporaryDirectory(dir=target.parent) as body:
        model[0].body.save_pretrained(body)
        tokenizer.save_pretrained(body)
        transformer = Transformer(body, max_seq_length=plan.base.max_length)
    saved = SentenceTransformer(
        modules=[transformer, *list(model)[1:]],
        prompts={"text": plan.base.prompt},
        default_prompt_name="text",
    )
    saved.save(str(target), create_model_card=False)
    settings = stage_settings(plan, "monolithic")
    threads = torch.get_num_threads()
    about = {"settings": settings, "seed": plan.run.seed, "threads": threads, "metrics": metrics}
    (target / "training.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
