"""Stage 4: a parallel adapter (CLA) pulls the language onto the frozen pivot; all else is frozen.

Where a recipe asks for it, stage 2 learns new embeddings and LA in the same way: :func:`learn_from_pivot`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.data.pairs import CrossRow, CrossScoredRow
from modenc.errors import RecipeError
from modenc.hub.store import Hub
from modenc.recipe.settings import PAPER_SECTIONS, AlignmentSettings
from modenc.training.adapters_io import (
    add_parallel_adapter,
    pack_frozen,
    save_parallel_adapter,
    scaled_adapter,
)
from modenc.training.body_module import Vectors, cached_vectors, content_key, encode_texts, sentence_model
from modenc.training.data_access import TrainingData, sample
from modenc.training.dev import DevData, Scaled
from modenc.training.objectives import options
from modenc.training.objectives.alignment import AlignmentOptions, PivotAlignmentLoss, ScoredAlignmentLoss
from modenc.training.phases import FrozenPivot, objective_inputs, run_phases
from modenc.training.processes import process_state, rows_a_step
from modenc.training.stage import StageRun, published_modules
from modenc.training.trainers import train_sentence_model


def align_language(run: StageRun) -> dict[str, Any]:
    """Train CLA as the recipe says, on the body with LA and SE folded in, and write ``cla/``."""
    settings, plan = run.plan.alignment, run.plan
    if settings.objective == "none" or plan.lang == plan.pivot:
        return {}
    pivot = FrozenLanguage(run)
    body = run.body_before()
    model = sentence_model(body, run.tokenizer_before(), plan, settings.max_length)
    scaled = partial(scaled_adapter, body, settings.strength)

    def attach() -> None:
        add_parallel_adapter(body, settings.reduction_factor)
        pack_frozen(body)

    if settings.objective in PAPER_SECTIONS:
        attach()
        metrics = _learn_paper_objective(run, pivot, model, scaled)
    else:
        metrics = learn_from_pivot(run, settings, pivot, model, attach, scaled)
    if process_state().is_main_process:
        with scaled():
            save_parallel_adapter(body, run.modules / "cla", run.base.id)
    return metrics


class FrozenLanguage:
    """Encodes sentences with modules in the hub, with or without alignment; each list once, then from disk.

    ``lang`` is the pivot by default.
    """

    def __init__(self, run: StageRun, lang: str | None = None, *, align: bool = False) -> None:
        self.run = run
        self.lang = lang or run.plan.pivot
        self.align = align
        self.layout = published_modules(run, self.lang)
        self.fingerprint = Hub.open(run.plan.hub).card(self.lang).fingerprint()

    def encode(self, texts: list[str], max_length: int) -> Vectors:
        """Unit vectors [texts, hidden] of sentences cut at ``max_length`` tokens."""
        key = content_key(self.fingerprint, str(self.align), str(max_length), *texts)

        def encoded() -> Vectors:
            base = self.run.base
            modules = read_modules(self.layout, base.hidden_size)
            body = compose(base.load_body(), modules, align=self.align)
            tokenizer = modules.tokenizer or base.load_tokenizer()
            return encode_texts(sentence_model(body, tokenizer, self.run.plan, max_length), texts)

        with process_state().main_process_first():
            return cached_vectors(self.run.caches / f"{self.lang}-{key}.npy", encoded)


def _learn_paper_objective(
    run: StageRun, pivot: FrozenLanguage, model: SentenceTransformer, scaled: Scaled
) -> dict[str, Any]:
    settings, plan = run.plan.alignment, run.plan
    frozen = FrozenPivot(
        encode=lambda texts: torch.from_numpy(pivot.encode(texts, settings.max_length)),
        texts=run.data.of_others[plan.pivot].text.train if "text" in plan.reads("alignment") else [],
        others=partial(_others, run, pivot) if plan.emma_x.warmup_languages else None,
    )
    inputs = objective_inputs(run, settings, model, {plan.lang: run.data}, frozen)
    return run_phases(inputs, dev_with_pivot(run, pivot, settings.max_length, scaled))


def _others(run: StageRun, pivot: FrozenLanguage) -> tuple[Tensor, Tensor]:
    """Vectors of the translations of ``emma_x.warmup_languages``, and of their counterparts."""
    length = run.plan.alignment.max_length
    needed = run.plan.alignment.optimizer.batch_size * 100
    sides: list[tuple[Vectors, Vectors]] = []
    for lang in run.plan.emma_x.warmup_languages:
        frozen = FrozenLanguage(run, lang, align=True)
        if "cla" not in frozen.layout.present():
            raise RecipeError(
                f"emma_x.warmup_languages: expected {lang} in the hub with its alignment, found none; "
                f"train it first: modenc train {run.plan.recipe} --lang {lang}"
            )
        rows = sample(run.data.of_others[lang].parallel.train, needed, run.plan.run.seed)
        own = frozen.encode([row.text for row in rows], length)
        sides.append((own, pivot.encode([row.pivot for row in rows], length)))
    left, right = (torch.from_numpy(np.concatenate(side)) for side in zip(*sides, strict=True))
    return left, right


def learn_from_pivot(
    run: StageRun,
    settings: AlignmentSettings,
    pivot: FrozenLanguage,
    model: SentenceTransformer,
    attach: Callable[[], torch.optim.Optimizer | None],
    scaled: Scaled,
) -> dict[str, Any]:
    """Train a language's model on translations, paraphrases and scored pairs, against the pivot's vectors.

    Args:
        run: the stage.
        settings: objective, losses, steps.
        pivot: encodes the pivot's sentences.
        model: the language's, as it is before it learns.
        attach: puts in place what learns, and may give it an optimizer of its own.
        scaled: gives the model the weights that are published.

    Returns the metrics of :func:`~modenc.training.trainers.train_sentence_model`.
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
    weights, losses = options(AlignmentOptions, settings), dict[str, nn.Module]()
    for name in sets:
        kind = "mnrl" if name == "paraphrase" else settings.parallel_loss
        losses[name] = (
            ScoredAlignmentLoss(model, vectors, weights)
            if name == "scored"
            else PivotAlignmentLoss(model, vectors, weights, losses=kind, before=before)
        )
    return train_sentence_model(
        run,
        settings.optimizer,
        model,
        sets,
        losses,
        dev_with_pivot(run, pivot, settings.max_length, scaled),
        optimizer=optimizer,
        drawn_from={name: len(found) for name, found in _all_rows(run.data, settings.objective).items()},
    )


def alignment_rows(data: TrainingData, settings: AlignmentSettings, seed: int) -> dict[str, list[Any]]:
    """No more rows than the steps can use in all processes.

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


def dev_with_pivot(run: StageRun, pivot: FrozenLanguage, length: int, scaled: Scaled) -> DevData:
    """The language's development sets, with the pivot's vectors of sentences cut at ``length`` tokens."""
    cross, held_out = run.data.dev.cross_sts, run.data.held_out_translations()
    return DevData(
        sts=run.data.dev.sts,
        cross_sts_texts=[(row[1], row[2]) for row in cross],
        cross_sts_pivot=pivot.encode([row[0] for row in cross], length) if cross else None,
        parallel_texts=[row.text for row in held_out],
        parallel_pivot=pivot.encode([row.pivot for row in held_out], length) if held_out else None,
        # Alignment seldom helps within the language: by that alone, the start would always win.
        start_may_win=bool(cross or held_out),
        weights=scaled,
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
