"""Stage 3: a LoRA on all linear layers (SE) learns which sentences mean the same; all else is frozen.

First it trains on pairs or on running text; then, with ``scored_steps``, on scored pairs by CoSENT (Su,
2022), as Sentence-BERT trains on NLI first and on STS then (Reimers and Gurevych, 2019, section 4): batches
of both kinds in turn would undo each other. At last, with ``keep_ranking_steps``, scored pairs take turns
with passages, on which the bare base's ranking is kept; more than some 100 steps do more harm than good.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import CoSENTLoss, MultipleNegativesRankingLoss

from modenc.data.kinds import ParaphraseRow
from modenc.recipe.settings import FRESH
from modenc.training.adapters_io import ALL_LINEAR_LAYERS, add_lora, load_lora, save_lora, scaled_adapter
from modenc.training.body_module import encoder_of, sentence_model
from modenc.training.data_access import draw_passages, sample
from modenc.training.dev import DevEvaluator
from modenc.training.objectives.distillation import RankingDistillationLoss
from modenc.training.stage import Stage, published_adapter
from modenc.training.trainers import train_sentence_model


def train_sentence_encoding(stage: Stage) -> dict[str, Any]:
    """Train SE on the body with LA merged, and write ``se/``; returns metrics."""
    settings = stage.plan.sentence_encoding
    start = None if settings.start == FRESH else published_adapter(stage, settings.start)
    if not stage.plan.trains_encoding():
        if start is not None:
            shutil.copytree(start, stage.modules / "se")
        return {}
    composed, tokenizer = stage.body_and_tokenizer(dropout=settings.dropout)
    body = add_lora(composed, settings.lora, ALL_LINEAR_LAYERS)
    if start is not None:
        load_lora(body, start)
    model = sentence_model(body, tokenizer, stage.plan, settings.max_length)
    kept = partial(scaled_adapter, body, settings.strength)
    dev = DevEvaluator(
        sts=[stage.data.sts],
        search=stage.data.search,
        max_length=stage.plan.base.max_length,
        weights=kept,
    )
    metrics: dict[str, Any] = {}
    if settings.objective != "none":
        loss = MultipleNegativesRankingLoss(model, scale=settings.scale)
        metrics = train_sentence_model(stage, settings.optimizer, model, _objective_rows(stage), loss, dev)
    if settings.scored_steps:
        optimizer = replace(settings.optimizer, steps=settings.scored_steps)
        loss = CoSENTLoss(model, scale=settings.scale)
        phase = stage.with_phase_folder("scored")
        found = train_sentence_model(phase, optimizer, model, _scored_pairs(stage), loss, dev)
        metrics = _with_phase(metrics, "scored", found)
    if settings.keep_ranking_steps:
        metrics = _with_phase(metrics, "ranking", _keep_ranking(stage, model, dev))
    with kept():
        save_lora(body, stage.modules / "se", stage.base.id)
    return metrics


def _with_phase(metrics: dict[str, Any], name: str, phase: dict[str, Any]) -> dict[str, Any]:
    """Add a phase's metrics under its name; the stage's own steps and seconds cover all phases."""
    sums = {key: metrics.get(key, 0) + phase[key] for key in ("steps", "seconds")}
    last = {"dev_after": phase["dev_after"]} if "dev_after" in phase else {}
    return {**phase, **metrics, name: phase, **sums, **last}


def _keep_ranking(stage: Stage, model: SentenceTransformer, dev: DevEvaluator) -> dict[str, Any]:
    settings = stage.plan.sentence_encoding
    optimizer = replace(settings.optimizer, steps=settings.keep_ranking_steps)
    passages = draw_passages(stage.data.passages.train, optimizer, 2, stage.plan.run.seed)
    encode = encoder_of(stage.base, stage.plan, settings.max_length)
    teacher = [torch.from_numpy(encode(passages[side])) for side in ("query", "passage")]
    losses = {
        "scored": CoSENTLoss(model, scale=settings.scale),
        "passages": RankingDistillationLoss(model, *teacher, weight=settings.keep_ranking_weight),
    }
    return train_sentence_model(
        stage.with_phase_folder("ranking"),
        optimizer,
        model,
        {"scored": _scored_pairs(stage), "passages": passages},
        losses,
        dev,
    )


def _scored_pairs(stage: Stage) -> Dataset:
    return _columns(stage.data.scored_pairs.train, "sentence1", "sentence2", "score")


def _objective_rows(stage: Stage) -> Dataset:
    """Make the data set of the objective: paraphrases, or sentences for SimCSE.

    SimCSE (Gao et al., 2021) shows a sentence twice; dropout makes the two vectors differ.
    """
    settings, seed = stage.plan.sentence_encoding, stage.plan.run.seed
    if settings.objective == "mnrl":
        return paraphrase_set(stage.data.paraphrases.train, seed)
    lines = list(dict.fromkeys(stage.data.text.train))
    lines = sample(lines, settings.optimizer.steps * settings.optimizer.rows_a_step(), seed)
    return Dataset.from_dict({"anchor": lines, "positive": lines})


def paraphrase_set(rows: Sequence[ParaphraseRow], seed: int) -> Dataset:
    """Make a data set of pairs, or of triplets if a row has a hard negative: the others get any of these.

    MNRL compares each anchor with the negatives of all rows of a batch, whosever they are.
    """
    negatives = [row.negative for row in rows if row.negative is not None]
    if not negatives:
        return _columns(rows, "anchor", "positive")
    draw = random.Random(seed)
    filled = [
        row if row.negative is not None else row._replace(negative=draw.choice(negatives)) for row in rows
    ]
    return _columns(filled, "anchor", "positive", "negative")


def _columns(rows: Sequence[object], *names: str) -> Dataset:
    return Dataset.from_dict({name: [getattr(row, name) for row in rows] for name in names})
