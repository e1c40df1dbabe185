r"""Stage 4 with ``partners = "all"``: all pairs of languages are aligned, and the pivot learns a CLA, too.

No language is frozen (modular_sentence_encoders, section 6.1): in a batch of items that languages a and b
share, with unit vectors q_i of a's sentences and c_j of b's (and of its hard negatives),

    paraphrase: L = -mean_i log( exp(τ q_i·c_i) / Σ_j exp(τ q_i·c_j) )
    parallel:   L = mean_i (1 - q_i·c_i), or the same ranking, or their sum

and both languages' adapters learn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, cycle, permutations
from typing import Any, cast

from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from modenc.data.kinds import ParaphraseRow
from modenc.errors import RecipeError
from modenc.recipe.settings import AlignmentSettings
from modenc.training.adapters_io import add_parallel_adapter, save_parallel_adapter
from modenc.training.body_module import sentence_model
from modenc.training.objectives.contrast import ranking_loss
from modenc.training.objectives.pivot_loss import cosine_distance, sum_of_terms
from modenc.training.stage import Stage
from modenc.training.trainers import train_body

ItemRows = Mapping[str, Mapping[int, ParaphraseRow]]
"""Language → id of an item, which languages share → the language's sentences of it. ``positive`` may be the
``anchor`` itself, and is empty where none is known."""
Batch = dict[str, Any]


class AllPairsModel(nn.Module):
    """Sentence models of all languages, with the loss of a batch of one pair of languages.

    Args:
        models: language → its model.
        texts: kind of data → language → id of an item → the language's sentences.
        settings: τ, the loss of translations, and whether queries are also ranked for each target.
    """

    def __init__(
        self,
        models: Mapping[str, SentenceTransformer],
        texts: Mapping[str, ItemRows],
        settings: AlignmentSettings,
    ) -> None:
        super().__init__()
        self.models = nn.ModuleDict(dict(models))
        self.languages = list(models)
        self.kinds = list(texts)
        self.texts = texts
        self.settings = settings

    def forward(self, kind: Tensor, pair: Tensor, items: Tensor) -> dict[str, Tensor]:
        """Compute the loss of a batch: ``kind`` [1], ``pair`` of languages [1, 2], ``items`` [1, batch]."""
        name = self.kinds[int(kind)]
        query_lang, target_lang = (self.languages[number] for number in pair[0].tolist())
        ids = items[0].tolist()
        queries = [self.texts[name][query_lang][item].anchor for item in ids]
        found = [self.texts[name][target_lang][item] for item in ids]
        negatives = [texts.negative for texts in found if texts.negative is not None]
        left = self._encode(query_lang, queries)
        right = self._encode(target_lang, [*(texts.positive for texts in found), *negatives])
        loss = sum_of_terms(
            self.settings.parallel_loss if name == "parallel" else "mnrl",
            cosine=lambda: cosine_distance(left, right[: len(left)]),
            mnrl=lambda: ranking_loss(
                self.settings.scale * left @ right.T, symmetric=self.settings.symmetric
            ),
        )
        return {"loss": loss}

    def _encode(self, lang: str, texts: Sequence[str]) -> Tensor:
        model = cast(SentenceTransformer, self.models[lang])
        device = next(model.parameters()).device
        features = {name: tensor.to(device) for name, tensor in model.preprocess(list(texts)).items()}
        return nn.functional.normalize(model(features)["sentence_embedding"], dim=-1)


def align_all_pairs(stages: Mapping[str, Stage]) -> dict[str, Any]:
    """Train all languages' CLA in one training, on bodies with LA and SE merged; write every ``cla/``.

    ``stages`` has each language's alignment, begun; the pivot's is given the checkpoints. Returns the
    metrics, the same for all; RecipeError where no two languages share enough items for a batch.
    """
    pivot = stages[next(iter(stages.values())).plan.pivot]
    plan, settings, optimizer = pivot.plan, pivot.plan.alignment, pivot.plan.alignment.optimizer
    texts = {kind: _item_texts(stages, kind) for kind in plan.objective_reads("alignment")}
    batches = batches_of_pairs(texts, settings, plan.run.seed)
    models = {}
    for lang, stage in stages.items():
        body, tokenizer = stage.body_and_tokenizer(dropout=settings.dropout)
        models[lang] = sentence_model(body, tokenizer, stage.plan, settings.max_length)
        add_parallel_adapter(body, settings.reduction_factor)
    # A row of the data set is a whole batch, so that a batch stays within one pair of languages.
    rows = replace(optimizer, steps=len(batches) // optimizer.gradient_accumulation, batch_size=1)
    metrics = train_body(pivot, rows, AllPairsModel(models, texts, settings), Dataset.from_list(batches))
    for lang, stage in stages.items():
        save_parallel_adapter(models[lang][0].body, stage.modules / "cla", stage.base.id)
    return metrics


def _item_texts(stages: Mapping[str, Stage], kind: str) -> dict[str, dict[int, ParaphraseRow]]:
    """Collect language → item id → texts; texts that share a sentence of the pivot are of one item."""
    read = _parallel if kind == "parallel" else _paraphrases
    found = {lang: read(stage) for lang, stage in stages.items()}
    ids = {text: number for number, text in enumerate(dict.fromkeys(chain(*found.values())))}
    for lang, stage in stages.items():
        if kind == "parallel" and lang == stage.plan.pivot:
            found[lang] = {text: ParaphraseRow(text, text) for text in ids}
    return {lang: {ids[text]: texts for text, texts in items.items()} for lang, items in found.items()}


def _parallel(stage: Stage) -> dict[str, ParaphraseRow]:
    if stage.plan.lang == stage.plan.pivot:
        return {}
    return {row.pivot: ParaphraseRow(row.text, row.text) for row in stage.data.parallel.train}


def _paraphrases(stage: Stage) -> dict[str, ParaphraseRow]:
    """Find the language's triplet for each cross-lingual row, by the sentence that both share."""
    own = stage.data.paraphrases.train
    if stage.plan.lang == stage.plan.pivot:
        return {row.positive: row for row in own}
    by_anchor = {row.anchor: row for row in own}
    cross = stage.data.cross_paraphrases.train
    return {row.pivot: by_anchor.get(row.text, ParaphraseRow(row.text, "")) for row in cross}


def batches_of_pairs(texts: Mapping[str, ItemRows], settings: AlignmentSettings, seed: int) -> list[Batch]:
    """Make the training set: kinds of data take turns, and within each kind all ordered pairs of languages.

    There are ``steps`` optimizer steps for each language but the pivot. With ``steps`` 0, the pair of
    languages with most data is read ``epochs`` times, in each kind, and other pairs more often. Batches make
    whole optimizer steps, one at least. RecipeError where no two languages share enough items.
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
    a_step = optimizer.gradient_accumulation
    count = optimizer.steps * a_step * languages_learning
    if not count:
        count = round(optimizer.epochs * len(kinds) * max(passes))
    # Whole optimizer steps, one at least.
    count = max(count // a_step, 1) * a_step
    return [next(next(kind)) for _, kind in zip(range(count), cycle(kinds), strict=False)]


def _shared_items(kind: str, items: ItemRows, size: int) -> dict[tuple[int, int], list[int]]:
    """Find the items that pairs of languages share, at least a batch: (query's, target's number) → ids."""
    languages = list(items)
    pairs: dict[tuple[int, int], list[int]] = {}
    for query, target in permutations(range(len(languages)), 2):
        targets = items[languages[target]]
        shared = [item for item in items[languages[query]] if item in targets and targets[item].positive]
        if len(shared) >= size:
            pairs[query, target] = shared
    if not pairs:
        raise RecipeError(
            f"alignment.partners: expected two languages whose data.{kind} share {size} pivot sentences or "
            "more, found none; use a smaller alignment.optimizer.batch_size, or partners = 'pivot'"
        )
    return pairs


def _endless_batches(batch: Batch, shared: list[int], size: int, rng: random.Random) -> Iterator[Batch]:
    """Yield ``batch`` with ``size`` of the ids each time, in another order in each pass."""
    while True:
        rng.shuffle(shared)
        for start in range(0, len(shared) - size + 1, size):
            yield {**batch, "items": shared[start : start + size]}
