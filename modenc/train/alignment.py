"""Stage 4: a parallel adapter (CLA) pulls the language onto the frozen pivot; all else is frozen."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer
from torch import nn

from modenc.errors import DataError
from modenc.recipe.settings import AlignmentSettings
from modenc.train.adapters_io import add_parallel_adapter, save_parallel_adapter, weakened
from modenc.train.body_module import encode_texts, sentence_model
from modenc.train.data_access import TrainingData, sample
from modenc.train.dev import DevData
from modenc.train.objectives.alignment import PivotAlignmentLoss
from modenc.train.objectives.distillation import UNIT_GEOMETRY, DistillationLoss
from modenc.train.objectives.pivot_map import fit_pivot_map
from modenc.train.pivot import Pivot
from modenc.train.processes import process_state
from modenc.train.stage import StageRun
from modenc.train.trainers import train_sentence_model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AlignmentRow:
    """A sentence of the language, its counterpart in the pivot, and perhaps a hard negative there."""

    text: str
    pivot: str
    negative: str | None


def align_language(run: StageRun) -> dict[str, Any]:
    """Train CLA as the recipe says, on the body with LA and SE folded in, and write ``cla/``."""
    settings, plan = run.plan.alignment, run.plan
    if settings.objective == "none" or plan.lang == plan.pivot:
        return {}
    pivot = Pivot(run)
    body = run.body_before()
    model = sentence_model(body, run.tokenizer_before(), plan, settings.max_length)
    # Before there is an adapter: the language's vectors as stage 3 left them are part of the losses.
    sets, losses = (_towards_the_map if settings.objective == "map" else _towards_the_pivot)(
        run, model, pivot
    )
    add_parallel_adapter(body, settings.reduction_factor)
    dev = _dev(run, pivot)
    metrics = train_sentence_model(
        run,
        settings.optimizer,
        model,
        sets,
        losses,
        dev,
        # Alignment seldom helps within the language: judged by that alone, the start would always win.
        start_counts=dev.cross_sts_pivot is not None or dev.parallel_pivot is not None,
        as_published=partial(weakened, body, settings.strength),
    )
    if process_state().is_main_process:
        with weakened(body, settings.strength):
            save_parallel_adapter(body, run.modules / "cla", run.base.id)
    return metrics


def _towards_the_pivot(
    run: StageRun, model: SentenceTransformer, pivot: Pivot
) -> tuple[DatasetDict, dict[str, nn.Module]]:
    """Each sentence's target is its counterpart's vector."""
    settings = run.plan.alignment
    rows = alignment_rows(run.data, settings, run.plan.run.seed)
    logger.info("  %s", {name: len(part) for name, part in rows.items()})
    counterparts = [row.pivot for part in rows.values() for row in part]
    negatives = [row.negative for part in rows.values() for row in part if row.negative is not None]
    pivot_texts, pivot_row = _index([*counterparts, *negatives])
    texts, own_row = _index(row.text for part in rows.values() for row in part)
    vectors = torch.from_numpy(pivot.encode(pivot_texts, settings.max_length))
    before = torch.from_numpy(encode_texts(model, texts)) if settings.keep_weight else None
    kinds = {"paraphrase": "mnrl", "parallel": settings.parallel_loss}
    sets = DatasetDict({name: _dataset(part, pivot_row, own_row) for name, part in rows.items()})
    return sets, {name: PivotAlignmentLoss(model, vectors, before, settings, kinds[name]) for name in rows}


def _towards_the_map(
    run: StageRun, model: SentenceTransformer, pivot: Pivot
) -> tuple[DatasetDict, dict[str, nn.Module]]:
    """Each sentence's target is what the map onto the pivot makes of its own vector."""
    settings, seed = run.plan.alignment, run.plan.run.seed
    needed = _rows_needed(settings)
    rows = sample(run.data.parallel.train, max(settings.map_pairs, needed) if needed else 0, seed)
    known = rows[: settings.map_pairs]
    logger.info("  a map from %d of %d pairs", len(known), len(rows))
    texts, own_row = _index(row.text for row in rows)
    own = encode_texts(model, texts)
    try:
        onto_pivot = fit_pivot_map(
            own[[own_row[row.text] for row in known]],
            pivot.encode([row.pivot for row in known], settings.max_length),
            ridge=settings.map_ridge,
        )
    except ValueError as error:
        raise DataError(f"{run.plan.lang}: data.parallel: {error}") from error
    targets = torch.from_numpy(onto_pivot(own))
    sets = DatasetDict(map=Dataset.from_dict({"text": texts, "label": list(range(len(texts)))}))
    return sets, {"map": DistillationLoss(model, targets, geometry_weight=UNIT_GEOMETRY)}


def alignment_rows(
    data: TrainingData, settings: AlignmentSettings, seed: int
) -> dict[str, list[AlignmentRow]]:
    """The rows a run will see, by kind; no more than its steps can use."""
    needed = _rows_needed(settings)
    if settings.objective == "joint":
        needed = (needed + 1) // 2
    rows: dict[str, list[AlignmentRow]] = {}
    if settings.objective in ("joint", "paraphrase"):
        rows["paraphrase"] = [
            AlignmentRow(row.text, row.pivot, row.pivot_negative)
            for row in sample(data.cross_paraphrases.rows, needed, seed)
        ]
    if settings.objective in ("joint", "parallel"):
        rows["parallel"] = [
            AlignmentRow(row.text, row.pivot, None) for row in sample(data.parallel.train, needed, seed)
        ]
    return rows


def _rows_needed(settings: AlignmentSettings) -> int:
    optimizer = settings.optimizer
    return optimizer.steps * optimizer.batch_size * optimizer.gradient_accumulation


def _dev(run: StageRun, pivot: Pivot) -> DevData:
    length = run.plan.alignment.max_length
    cross = run.data.dev.cross_sts
    held_out = run.data.parallel.held_out if run.plan.data.parallel else []
    return DevData(
        sts=run.data.dev.sts,
        cross_sts_texts=[(row[1], row[2]) for row in cross],
        cross_sts_pivot=pivot.encode([row[0] for row in cross], length) if cross else None,
        parallel_texts=[row.text for row in held_out],
        parallel_pivot=pivot.encode([row.pivot for row in held_out], length) if held_out else None,
    )


def _index(texts: Any) -> tuple[list[str], dict[str, int]]:
    rows = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(rows), rows


def _dataset(rows: list[AlignmentRow], pivot_row: dict[str, int], own_row: dict[str, int]) -> Dataset:
    labels = [
        [pivot_row[row.pivot], -1 if row.negative is None else pivot_row[row.negative], own_row[row.text]]
        for row in rows
    ]
    return Dataset.from_dict({"text": [row.text for row in rows], "label": labels})
