"""Stage 4 of all languages at once: every pair of them is aligned, the pivot's with an adapter, too."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle, permutations
from pathlib import Path
from typing import Any

from datasets import Dataset

from modenc.errors import RecipeError
from modenc.recipe.settings import AlignmentSettings, OptimizerSettings
from modenc.train.adapters_io import add_parallel_adapter, save_parallel_adapter
from modenc.train.body_module import sentence_model
from modenc.train.frozen import pack_frozen
from modenc.train.objectives.all_pairs import AllPairs, Side
from modenc.train.processes import process_state, rows_a_step
from modenc.train.stage import StageRun
from modenc.train.trainers import BodyTrainer, run_trainer, training_arguments

logger = logging.getLogger(__name__)

Batch = dict[str, Any]


def align_all_pairs(runs: Mapping[str, StageRun], folder: Path) -> dict[str, Any]:
    """Train all languages' CLA together, each on its body with LA and SE folded in; write every ``cla/``.

    Args:
        runs: language → its alignment stage, begun.
        folder: for checkpoints.

    Returns:
        The metrics, the same for all.

    Raises:
        RecipeError: no two languages share enough meanings for a batch.
    """
    plan = next(iter(runs.values())).plan
    settings, optimizer = plan.alignment, plan.alignment.optimizer
    sides = {
        kind: _sides(runs, kind)
        for kind in ("paraphrase", "parallel")
        if settings.objective in (kind, "joint")
    }
    batches = batches_of_pairs(sides, settings, plan.run.seed)
    models = {}
    for lang, run in runs.items():
        body = run.body_before()
        models[lang] = sentence_model(body, run.tokenizer_before(), run.plan, settings.max_length)
        add_parallel_adapter(body, settings.reduction_factor)
        pack_frozen(body)
    together = AllPairs(models, sides, settings)
    # A row is a batch, so that it stays within one pair of languages.
    trainer = BodyTrainer(
        model=together,
        args=training_arguments(
            replace(optimizer, steps=len(batches) // batches_a_step(optimizer), batch_size=1),
            plan.run,
            folder,
            sentences=False,
            evaluate=False,
        ),
        train_dataset=Dataset.from_list(batches),
    )
    metrics = vars(run_trainer(trainer)) | {"sets": _seen(batches, sides, optimizer.batch_size)}
    if process_state().is_main_process:
        for lang, run in runs.items():
            save_parallel_adapter(models[lang][0].body, run.modules / "cla", run.base.id)
    return metrics


def _seen(
    batches: list[Batch], sides: Mapping[str, Mapping[str, Mapping[int, Side]]], size: int
) -> dict[str, dict[str, int]]:
    """Kind and pair of languages → how many meanings its batches hold, once and again; logged."""
    kinds = list(sides)
    seen: dict[str, dict[str, int]] = {}
    for batch in batches:
        kind, (asked, answering) = kinds[batch["kind"]], batch["pair"]
        languages = list(sides[kind])
        figures = seen.setdefault(f"{kind} {languages[asked]}-{languages[answering]}", {"rows_seen": 0})
        figures["rows_seen"] += size
    logger.info("  meanings read: %s", {name: figures["rows_seen"] for name, figures in seen.items()})
    return seen


def _sides(runs: Mapping[str, StageRun], kind: str) -> dict[str, dict[int, Side]]:
    """Language → meaning → how it says it; a meaning is numbered by the pivot's sentence for it."""
    said = {lang: (_parallel if kind == "parallel" else _paraphrases)(run) for lang, run in runs.items()}
    meanings = list(dict.fromkeys(meaning for found in said.values() for meaning in found))
    for lang, run in runs.items():
        if kind == "parallel" and lang == run.plan.pivot:
            said[lang] = {meaning: Side(meaning, meaning) for meaning in meanings}
    number = {meaning: count for count, meaning in enumerate(meanings)}
    return {lang: {number[meaning]: side for meaning, side in found.items()} for lang, found in said.items()}


def _parallel(run: StageRun) -> dict[str, Side]:
    if run.plan.lang == run.plan.pivot:
        return {}
    return {row.pivot: Side(row.text, row.text) for row in run.data.parallel.train}


def _paraphrases(run: StageRun) -> dict[str, Side]:
    """The language's own triplets, found by the sentence that a cross-lingual row shares with them."""
    own = run.data.paraphrases.train
    if run.plan.lang == run.plan.pivot:
        return {row.positive: Side(row.anchor, row.positive, row.negative) for row in own}
    by_anchor = {row.anchor: Side(row.anchor, row.positive, row.negative) for row in own}
    return {
        row.pivot: by_anchor.get(row.text, Side(row.text, None)) for row in run.data.cross_paraphrases.train
    }


def batches_of_pairs(
    sides: Mapping[str, Mapping[str, Mapping[int, Side]]], settings: AlignmentSettings, seed: int
) -> list[Batch]:
    """The training set: kinds of data in turn, and within each every ordered pair of languages in turn.

    As many batches as each language but the pivot would be given alone; with ``steps`` 0, as many as read
    the pair of languages with most data ``epochs`` times, in each kind, and the others again meanwhile.
    They are whole optimizer steps, one at least.

    Raises:
        RecipeError: no two languages share enough meanings for a batch.
    """
    optimizer, rng = settings.optimizer, random.Random(seed)
    decks = []
    for number, (kind, said) in enumerate(sides.items()):
        languages = list(said)
        piles = []
        few = []
        for asked, answering in permutations(range(len(languages)), 2):
            answers = said[languages[answering]]
            shared = [
                meaning
                for meaning in said[languages[asked]]
                if meaning in answers and answers[meaning].answer is not None
            ]
            if len(shared) >= optimizer.batch_size:
                piles.append(_pile(number, (asked, answering), shared, optimizer.batch_size, rng))
            elif shared:
                few.append(f"{languages[asked]}-{languages[answering]} ({len(shared)})")
        if not piles:
            raise RecipeError(
                f"alignment.partners: expected {optimizer.batch_size} meanings or more of {kind} data that "
                "two languages share by their pivot sentences, found none such; use a smaller "
                "alignment.optimizer.batch_size, or partners = 'pivot'"
            )
        if few:
            logger.warning(
                "  %s: never read, with fewer shared meanings than a batch of %d: %s",
                kind,
                optimizer.batch_size,
                ", ".join(few),
            )
        decks.append((cycle(piles), len(piles) * max(pile.count for pile in piles)))
    languages_learning = len(next(iter(sides.values()))) - 1
    count = optimizer.steps * batches_a_step(optimizer) * languages_learning
    if not count:
        count = round(optimizer.epochs * len(decks) * max(size for _, size in decks))
    # Whole optimizer steps, one at least.
    count = max(count // batches_a_step(optimizer), 1) * batches_a_step(optimizer)
    return [next(next(deck).batches) for _, (deck, _) in zip(range(count), cycle(decks), strict=False)]


def batches_a_step(optimizer: OptimizerSettings) -> int:
    """Batches that one optimizer step reads, in all processes together."""
    return rows_a_step(optimizer) // optimizer.batch_size


@dataclass(frozen=True)
class _Pile:
    """Endless batches of one pair of languages."""

    batches: Iterator[Batch]
    count: int
    """Batches before one comes again."""


def _pile(kind: int, pair: tuple[int, int], shared: list[int], size: int, rng: random.Random) -> _Pile:
    def deal() -> Iterator[Batch]:
        while True:
            rng.shuffle(shared)
            for start in range(0, len(shared) - size + 1, size):
                yield {"kind": kind, "pair": list(pair), "meanings": shared[start : start + size]}

    return _Pile(deal(), len(shared) // size)
