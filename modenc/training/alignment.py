"""Stage 4: a parallel adapter (CLA) pulls the language onto the frozen pivot; all else is frozen."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import PreTrainedModel

from modenc.errors import RecipeError
from modenc.recipe.paper_settings import data_for_alignment
from modenc.recipe.settings import PAPER_SECTIONS
from modenc.training.adapters_io import add_parallel_adapter, save_parallel_adapter, scaled_adapter
from modenc.training.body_module import Vectors, sentence_model
from modenc.training.data_access import sample
from modenc.training.frozen import pack_frozen
from modenc.training.objective_inputs import FrozenPivot, objective_inputs
from modenc.training.onto_pivot import dev_with_pivot, evaluated_across, learn_from_pivot
from modenc.training.phases import run_phases
from modenc.training.pivot import FrozenLanguage
from modenc.training.processes import process_state
from modenc.training.stage import StageRun


def align_language(run: StageRun) -> dict[str, Any]:
    """Train CLA as the recipe says, on the body with LA and SE folded in, and write ``cla/``."""
    settings, plan = run.plan.alignment, run.plan
    if settings.objective == "none" or plan.lang == plan.pivot:
        return {}
    pivot = FrozenLanguage(run)
    body = run.body_before()
    model = sentence_model(body, run.tokenizer_before(), plan, settings.max_length)
    learn = _learn_paper_objective if settings.objective in PAPER_SECTIONS else _learn_pivot_alignment
    metrics = learn(run, pivot, body, model)
    if process_state().is_main_process:
        with scaled_adapter(body, settings.strength):
            save_parallel_adapter(body, run.modules / "cla", run.base.id)
    return metrics


def _learn_pivot_alignment(
    run: StageRun, pivot: FrozenLanguage, body: PreTrainedModel, model: SentenceTransformer
) -> dict[str, Any]:
    settings = run.plan.alignment

    def attach() -> None:
        add_parallel_adapter(body, settings.reduction_factor)
        pack_frozen(body)

    strength = partial(scaled_adapter, body, settings.strength)
    return learn_from_pivot(run, settings, pivot, model, attach, strength)


def _learn_paper_objective(
    run: StageRun, pivot: FrozenLanguage, body: PreTrainedModel, model: SentenceTransformer
) -> dict[str, Any]:
    settings, plan = run.plan.alignment, run.plan
    add_parallel_adapter(body, settings.reduction_factor)
    pack_frozen(body)
    reads = data_for_alignment(settings.objective, plan.emma_x)
    frozen = FrozenPivot(
        encode=lambda texts: torch.from_numpy(pivot.encode(texts, settings.max_length)),
        texts=run.data.of_others[plan.pivot].text.train if "text" in reads else [],
        others=partial(_others, run, pivot) if plan.emma_x.warmup_languages else None,
    )
    inputs = objective_inputs(run, settings, model, {plan.lang: run.data}, frozen)
    dev = dev_with_pivot(run, pivot, settings.max_length)
    return run_phases(
        inputs,
        dev,
        initial_weights_eligible=evaluated_across(dev),
        evaluation_context=partial(scaled_adapter, body, settings.strength),
    )


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
