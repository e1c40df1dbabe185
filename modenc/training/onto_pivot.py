"""What stages 2 and 4 have in common: a language's sentences are drawn to the frozen pivot's vectors.

Stage 4 learns a parallel adapter so, and stage 2, where a recipe asks, new embeddings and LA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.data.pairs import CrossRow, CrossScoredRow
from modenc.recipe.settings import AlignmentSettings
from modenc.training.body_module import encode_texts
from modenc.training.data_access import TrainingData, sample
from modenc.training.dev import DevData
from modenc.training.objectives.alignment import PivotAlignmentLoss
from modenc.training.objectives.scored_alignment import ScoredAlignmentLoss
from modenc.training.pivot import FrozenLanguage
from modenc.training.processes import process_state, rows_a_step
from modenc.training.stage import StageRun
from modenc.training.trainers import train_sentence_model


def learn_from_pivot(
    run: StageRun,
    settings: AlignmentSettings,
    pivot: FrozenLanguage,
    model: SentenceTransformer,
    attach: Callable[[], torch.optim.Optimizer | None],
    evaluation_context: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> dict[str, Any]:
    """Train a language's model on translations, paraphrases and scored pairs, against the pivot's vectors.

    Args:
        run: the stage.
        settings: objective, losses, steps.
        pivot: encodes the pivot's sentences.
        model: the language's, as it is before it learns.
        attach: puts in place what learns, and may give it an optimizer of its own.
        evaluation_context: as :func:`~modenc.training.trainers.train_sentence_model` takes it.

    Returns:
        That function's metrics.
    """
    rows = alignment_rows(run.data, settings, run.plan.run.seed)
    scored = rows.pop("scored", [])
    counterparts = [row.pivot for part in rows.values() for row in part]
    negatives = [row.pivot_negative for part in rows.values() for row in part if row.pivot_negative]
    pairs = [text for row in scored for text in (row.pivot1, row.pivot2)]
    pivot_row = _numbered([*counterparts, *negatives, *pairs])
    own_row = _numbered(row.text for part in rows.values() for row in part)
    vectors = torch.from_numpy(pivot.encode(list(pivot_row), settings.max_length))
    before = torch.from_numpy(encode_texts(model, list(own_row))) if settings.keep_weight else None
    optimizer = attach()
    sets = {name: {name: _dataset(part, pivot_row, own_row)} for name, part in rows.items()}
    if scored:
        sets = {"scored": {"scored": _scored_dataset(scored, pivot_row)}, **sets}
    dev = dev_with_pivot(run, pivot, settings.max_length)
    return train_sentence_model(
        run,
        settings.optimizer,
        model,
        sets,
        {name: _loss(name, model, vectors, before, settings) for name in sets},
        dev,
        initial_weights_eligible=evaluated_across(dev),
        evaluation_context=evaluation_context,
        optimizer=optimizer,
        drawn_from={name: len(found) for name, found in _all_rows(run.data, settings.objective).items()},
    )


def _loss(
    name: str, model: SentenceTransformer, vectors: Tensor, before: Tensor | None, settings: AlignmentSettings
) -> nn.Module:
    """The loss of a kind of rows."""
    if name == "scored":
        return ScoredAlignmentLoss(
            model,
            vectors,
            scale=settings.scale,
            scored_weight=settings.scored_weight,
            similarity_weight=settings.similarity_weight,
        )
    return PivotAlignmentLoss(
        model,
        vectors,
        losses="mnrl" if name == "paraphrase" else settings.parallel_loss,
        scale=settings.scale,
        random_negatives=settings.pivot_negatives,
        symmetric=settings.symmetric,
        similarity_weight=settings.similarity_weight,
        before=before,
        keep_weight=settings.keep_weight,
    )


def evaluated_across(dev: DevData) -> bool:
    """Alignment seldom helps within the language: evaluated by that alone, the start would always win."""
    return dev.cross_sts_pivot is not None or dev.parallel_pivot is not None


def alignment_rows(data: TrainingData, settings: AlignmentSettings, seed: int) -> dict[str, list[Any]]:
    """The rows a run will see, by kind; no more than its steps can use in all processes.

    Returns:
        ``paraphrase`` and ``parallel`` → cross-lingual rows, ``scored`` → cross-lingual pairs with scores.
    """
    needed = _rows_needed(settings)
    return {kind: sample(rows, needed, seed) for kind, rows in _all_rows(data, settings.objective).items()}


def _all_rows(data: TrainingData, objective: str) -> dict[str, list[Any]]:
    """Kind → its rows, but those with a side of a held-out translation: one table may serve both."""
    held_out = data.parallel.held_out if data.plan.data.parallel else []
    texts, pivots = {row.text for row in held_out}, {row.pivot for row in held_out}
    rows: dict[str, list[Any]] = {}
    if objective in ("joint", "paraphrase"):
        cross = data.cross_paraphrases.train
        rows["paraphrase"] = [row for row in cross if row.text not in texts and row.pivot not in pivots]
    if objective in ("joint", "parallel", "scored+parallel"):
        rows["parallel"] = [CrossRow(row.text, row.pivot, None) for row in data.parallel.train]
    if "scored" in objective:
        pairs = data.cross_scored_pairs.train
        rows["scored"] = [row for row in pairs if row.pivot1 not in pivots and row.pivot2 not in pivots]
    return rows


def _rows_needed(settings: AlignmentSettings) -> int:
    """How many rows of each kind the steps read; 0 for all."""
    optimizer = settings.optimizer
    if settings.objective not in ("joint", "scored+parallel"):
        return optimizer.steps * rows_a_step(optimizer)
    # Whole turns: the kinds alternate batch by batch, the first one ahead.
    turns = math.ceil(optimizer.steps * optimizer.gradient_accumulation / 2)
    needed: int = turns * optimizer.batch_size * process_state().num_processes
    return needed


def dev_with_pivot(run: StageRun, pivot: FrozenLanguage, length: int) -> DevData:
    """The language's development sets, with the pivot's vectors of sentences cut at ``length`` tokens."""
    cross = run.data.dev.cross_sts
    # A language whose translations are not to be used is not evaluated on them either.
    spared = run.plan.alignment.objective == "emma_x" and bool(run.plan.emma_x.warmup_languages)
    held_out = run.data.parallel.held_out if run.plan.data.parallel and not spared else []
    return DevData(
        sts=run.data.dev.sts,
        cross_sts_texts=[(row[1], row[2]) for row in cross],
        cross_sts_pivot=pivot.encode([row[0] for row in cross], length) if cross else None,
        parallel_texts=[row.text for row in held_out],
        parallel_pivot=pivot.encode([row.pivot for row in held_out], length) if held_out else None,
    )


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    """Text → its number, each once."""
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
