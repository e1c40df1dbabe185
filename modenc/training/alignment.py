"""Stage 4: a parallel adapter (CLA) pulls the language onto the frozen pivot; all else is frozen.

With ``language_adaptation.objective = "pivot"`` stage 2 trains embeddings and LA in the same way, by
:func:`learn_from_pivot`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import nn

from modenc.data.kinds import CrossRow, CrossScoredRow
from modenc.hub.store import Hub
from modenc.recipe.plan import PHASED_OBJECTIVES
from modenc.recipe.settings import FRESH, AlignmentSettings
from modenc.training.adapters_io import (
    add_parallel_adapter,
    load_parallel_adapter,
    save_parallel_adapter,
    scaled_adapter,
)
from modenc.training.body_module import encode_texts, encoder_of, sentence_model
from modenc.training.data_access import TrainingData, draw_passages, sample
from modenc.training.dev import DevEvaluator, PublishedWeights
from modenc.training.objectives.distillation import CosineDistillationLoss
from modenc.training.objectives.pivot_loss import PivotAlignmentLoss, ScoredAlignmentLoss
from modenc.training.phases import run_phases
from modenc.training.stage import Stage, published_adapter
from modenc.training.trainers import train_sentence_model


def train_alignment(stage: Stage) -> dict[str, Any]:
    """Train CLA on the body with LA and SE merged, and write ``cla/``; returns metrics."""
    settings, plan = stage.plan.alignment, stage.plan
    if plan.skips("alignment"):
        return {}
    body, tokenizer = stage.body_and_tokenizer(dropout=settings.dropout)
    model = sentence_model(body, tokenizer, plan, settings.max_length)
    published_weights = partial(scaled_adapter, body, settings.strength)

    def attach() -> None:
        add_parallel_adapter(body, settings.reduction_factor)
        if settings.start != FRESH:
            load_parallel_adapter(body, published_adapter(stage, settings.start, "cla"))

    if settings.objective in PHASED_OBJECTIVES:
        attach()
        dev = dev_with_pivot(stage, published_weights)
        metrics = run_phases(stage, settings, model, {plan.lang: stage.data}, dev)
    else:
        metrics = learn_from_pivot(stage, settings, model, attach, published_weights)
    with published_weights():
        save_parallel_adapter(body, stage.modules / "cla", stage.base.id)
    return metrics


def learn_from_pivot(
    stage: Stage,
    settings: AlignmentSettings,
    model: SentenceTransformer,
    attach: Callable[[], torch.optim.Optimizer | None],
    published_weights: PublishedWeights,
) -> dict[str, Any]:
    """Train a language's model on translations, paraphrases and scored pairs, against the pivot's vectors.

    Args:
        stage: the stage.
        settings: objective, losses, steps.
        model: the language's model, before anything is trained.
        attach: adds the modules that train to the model; returns an optimizer for them, or None for AdamW.
        published_weights: a context in which the model has the weights that are published.

    Returns the metrics of :func:`~modenc.training.trainers.train_sentence_model`.
    """
    rows = alignment_rows(stage.data, settings, stage.plan.run.seed)
    unscored = [row for kind, found in rows.items() if kind != "cross_scored_pairs" for row in found]
    counterparts = [row.pivot for row in unscored]
    negatives = [row.pivot_negative for row in unscored if row.pivot_negative]
    pairs = [text for row in rows.get("cross_scored_pairs", []) for text in (row.pivot1, row.pivot2)]
    pivot_row = _numbered([*counterparts, *negatives, *pairs])
    own_row = _numbered(row.text for row in unscored)
    dev = dev_with_pivot(stage, published_weights)
    assert dev.pivot is not None  # dev_with_pivot sets it
    vectors = torch.from_numpy(dev.pivot(list(pivot_row)))
    before, kept = None, None
    if settings.keep_weight and stage.plan.keeps_passages():
        seed, turns = stage.plan.run.seed, len(rows) + 1
        kept = draw_passages(stage.data.passages.train, settings.optimizer, turns, seed)
        sides = (torch.from_numpy(encode_texts(model, kept[side])) for side in ("query", "passage"))
        keeping = CosineDistillationLoss(model, *sides, weight=settings.keep_weight)
    elif settings.keep_weight:
        before = torch.from_numpy(encode_texts(model, list(own_row)))
    optimizer = attach()
    sets: dict[str, Dataset] = {}
    losses: dict[str, nn.Module] = {}
    for kind, found in rows.items():
        if kind == "cross_scored_pairs":
            sets[kind] = _scored_dataset(found, pivot_row)
            losses[kind] = ScoredAlignmentLoss(model, vectors, settings)
        else:
            sets[kind] = _dataset(found, pivot_row, own_row)
            loss = "mnrl" if kind == "cross_paraphrases" else settings.parallel_loss
            losses[kind] = PivotAlignmentLoss(model, vectors, settings, losses=loss, before=before)
    if kept is not None:
        sets["passages"], losses["passages"] = kept, keeping
    return train_sentence_model(
        stage,
        settings.optimizer,
        model,
        sets,
        losses,
        dev,
        optimizer=optimizer,
    )


def alignment_rows(data: TrainingData, settings: AlignmentSettings, seed: int) -> dict[str, list[Any]]:
    """Sample as many rows of each kind as the steps can read.

    Returns the name of each kind → its rows.
    """
    reads, optimizer = data.plan.objective_reads("alignment"), settings.optimizer
    rows: dict[str, list[Any]] = {name: getattr(data, name).train for name in reads}
    # The kinds take turns batch by batch, and the first may have one batch more.
    kinds = len(rows) + bool(settings.keep_weight and data.plan.keeps_passages())
    turns = math.ceil(optimizer.steps * optimizer.gradient_accumulation / max(kinds, 1))
    needed = turns * optimizer.batch_size
    return {kind: sample(found, needed, seed) for kind, found in rows.items()}


def dev_with_pivot(stage: Stage, published_weights: PublishedWeights) -> DevEvaluator:
    """Collect the language's development sets; the pivot's modules in the hub encode its sentences."""
    data, plan = stage.data, stage.plan
    modules = Hub.open(plan.hub).version_folder(plan.pivot)
    return DevEvaluator(
        sts=[data.sts],
        search=data.search,
        cross_sts=data.cross_sts,
        cross_search=data.cross_search,
        parallel=data.parallel.held_out,
        pivot=encoder_of(stage.base, plan, plan.base.max_length, modules, align=False),
        max_length=plan.base.max_length,
        weights=published_weights,
    )


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


def _dataset(rows: list[CrossRow], pivot_row: dict[str, int], own_row: dict[str, int]) -> Dataset:
    labels = [
        [pivot_row[pivot], -1 if negative is None else pivot_row[negative], own_row[text]]
        for text, pivot, negative in rows
    ]
    return Dataset.from_dict({"text": [row.text for row in rows], "label": labels})


def _scored_dataset(rows: list[CrossScoredRow], pivot_row: dict[str, int]) -> Dataset:
    return Dataset.from_dict(
        {
            "sentence1": [row.sentence1 for row in rows],
            "sentence2": [row.sentence2 for row in rows],
            "label": [[pivot_row[row.pivot1], pivot_row[row.pivot2], row.score] for row in rows],
        }
    )
