"""Stage 4 of all languages at once: every pair of them is aligned, the pivot's with an adapter, too."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, cycle, permutations
from pathlib import Path
from typing import Any

from datasets import Dataset

from modenc.errors import RecipeError
from modenc.recipe.settings import AlignmentSettings, OptimizerSettings
from modenc.training.adapters_io import add_parallel_adapter, pack_frozen, save_parallel_adapter
from modenc.training.body_module import sentence_model
from modenc.training.objectives.all_pairs import AllPairs, ItemTexts
from modenc.training.processes import process_state, rows_a_step
from modenc.training.stage import StageRun
from modenc.training.trainers import BodyTrainer, run_trainer, training_arguments

logger = logging.getLogger(__name__)

Batch = dict[str, Any]
Items = Mapping[str, Mapping[int, ItemTexts]]
"""Language → item id → the language's texts of it."""


def align_all_pairs(runs: Mapping[str, StageRun], folder: Path) -> dict[str, Any]:
    """Train all languages' CLA together, each on its body with LA and SE folded in; write every ``cla/``.

    ``runs`` has each language's alignment stage, begun; ``folder`` is for checkpoints. Returns metrics, the
    same for all; RecipeError where no two languages share enough items for a batch.
    """
    plan = next(iter(runs.values())).plan
    settings, optimizer = plan.alignment, plan.alignment.optimizer
    texts = {
        kind: _item_texts(runs, kind)
        for kind in ("paraphrase", "parallel")
        if settings.objective in (kind, "joint")
    }
    batches = batches_of_pairs(texts, settings, plan.run.seed)
    models = {}
    for lang, run in runs.items():
        body = run.body_before()
        models[lang] = sentence_model(body, run.tokenizer_before(), run.plan, settings.max_length)
        add_parallel_adapter(body, settings.reduction_factor)
        pack_frozen(body)
    losses = {"paraphrase": "mnrl", "parallel": settings.parallel_loss}
    # A row is a batch, so that it stays within one pair of languages.
    rows = replace(optimizer, steps=len(batches) // batches_a_step(optimizer), batch_size=1)
    trainer = BodyTrainer(
        model=AllPairs(models, texts, losses, scale=settings.scale, symmetric=settings.symmetric),
        args=training_arguments(rows, plan.run, folder, sentences=False, evaluate=False),
        train_dataset=Dataset.from_list(batches),
    )
    metrics = vars(run_trainer(trainer)) | {"sets": _seen(batches, texts, optimizer.batch_size)}
    if process_state().is_main_process:
        for lang, run in runs.items():
            save_parallel_adapter(models[lang][0].body, run.modules / "cla", run.base.id)
    return metrics


def _seen(batches: list[Batch], texts: Mapping[str, Items], size: int) -> dict[str, dict[str, int]]:
    """Kind and pair of languages → how many items its batches hold, once and again; logged."""
    kinds = list(texts)
    seen: Counter[str] = Counter()
    for batch in batches:
        kind, languages = kinds[batch["kind"]], list(texts[kinds[batch["kind"]]])
        query, target = batch["pair"]
        seen[f"{kind} {languages[query]}-{languages[target]}"] += size
    logger.info("  meanings read: %s", dict(seen))
    return {name: {"rows_seen": rows} for name, rows in seen.items()}


def _item_texts(runs: Mapping[str, StageRun], kind: str) -> dict[str, dict[int, ItemTexts]]:
    """Language → item id → its texts; an item is what one sentence of the pivot means."""
    read = _parallel if kind == "parallel" else _paraphrases
    found = {lang: read(run) for lang, run in runs.items()}
    ids = {text: number for number, text in enumerate(dict.fromkeys(chain(*found.values())))}
    for lang, run in runs.items():
        if kind == "parallel" and lang == run.plan.pivot:
            found[lang] = {text: ItemTexts(text, text) for text in ids}
    return {lang: {ids[text]: texts for text, texts in items.items()} for lang, items in found.items()}


def _parallel(run: StageRun) -> dict[str, ItemTexts]:
    if run.plan.lang == run.plan.pivot:
        return {}
    return {row.pivot: ItemTexts(row.text, row.text) for row in run.data.parallel.train}


def _paraphrases(run: StageRun) -> dict[str, ItemTexts]:
    """The language's own triplets, found by the sentence that a cross-lingual row shares with them."""
    own = run.data.paraphrases.train
    if run.plan.lang == run.plan.pivot:
        return {row.positive: ItemTexts(*row) for row in own}
    by_anchor = {row.anchor: ItemTexts(*row) for row in own}
    cross = run.data.cross_paraphrases.train
    return {row.pivot: by_anchor.get(row.text, ItemTexts(row.text, None)) for row in cross}


def batches_of_pairs(texts: Mapping[str, Items], settings: AlignmentSettings, seed: int) -> list[Batch]:
    """The training set: kinds of data in turn, and within each every ordered pair of languages in turn.

    As many batches as each language but the pivot would be given alone; with ``steps`` 0, as many as read
    the pair of languages with most data ``epochs`` times, in each kind, and the others again in the meantime.
    They are whole optimizer steps, one at least. RecipeError where no two languages share enough items.
    """
    optimizer, rng = settings.optimizer, random.Random(seed)
    kinds, passes = [], []
    for number, (kind, items) in enumerate(texts.items()):
        pairs = _shared_items(kind, items, optimizer.batch_size)
        passes.append(len(pairs) * max(len(shared) // optimizer.batch_size for shared in pairs.values()))
        batches = [
            _endless_batches({"kind": number, "pair": list(pair)}, shared, optimizer.batch_size, rng)
            for pair, shared in pairs.items()
        ]
        kinds.append(cycle(batches))
    languages_learning = len(next(iter(texts.values()))) - 1
    count = optimizer.steps * batches_a_step(optimizer) * languages_learning
    if not count:
        count = round(optimizer.epochs * len(kinds) * max(passes))
    # Whole optimizer steps, one at least.
    count = max(count // batches_a_step(optimizer), 1) * batches_a_step(optimizer)
    return [next(next(kind)) for _, kind in zip(range(count), cycle(kinds), strict=False)]


def _shared_items(kind: str, items: Items, size: int) -> dict[tuple[int, int], list[int]]:
    """Numbers of a query's and a target's language → ids of items that both have, enough for a batch."""
    languages = list(items)
    pairs: dict[tuple[int, int], list[int]] = {}
    few = []
    for query, target in permutations(range(len(languages)), 2):
        targets = items[languages[target]]
        shared = [
            item for item in items[languages[query]] if item in targets and targets[item].target is not None
        ]
        if len(shared) >= size:
            pairs[query, target] = shared
        elif shared:
            few.append(f"{languages[query]}-{languages[target]} ({len(shared)})")
    if not pairs:
        raise RecipeError(
            f"alignment.partners: expected {size} meanings or more of {kind} data that two languages share "
            "by their pivot sentences, found none such; use a smaller alignment.optimizer.batch_size, or "
            "partners = 'pivot'"
        )
    if few:
        message = "  %s: never read, with fewer shared meanings than a batch of %d: %s"
        logger.warning(message, kind, size, ", ".join(few))
    return pairs


def _endless_batches(batch: Batch, shared: list[int], size: int, rng: random.Random) -> Iterator[Batch]:
    """``batch`` with ``size`` of the ids each time, in another order in each pass."""
    while True:
        rng.shuffle(shared)
        for start in range(0, len(shared) - size + 1, size):
            yield {**batch, "items": shared[start : start + size]}


def batches_a_step(optimizer: OptimizerSettings) -> int:
    """Batches that one optimizer step reads, in all processes together."""
    return rows_a_step(optimizer) // optimizer.batch_size
