"""The other papers' objectives (``objectives/``) as phases of training, for modules and for one whole model.

Both are given the same material. With modules the pivot's vectors come from a cache, with one model from
the model; an objective does not know which parameters move.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, set_seed

from modenc.data.pairs import ParallelRow
from modenc.errors import RecipeError
from modenc.recipe.settings import LanguagePlan, OptimizerSettings
from modenc.train.data_access import drawn, sample
from modenc.train.dev import DevData
from modenc.train.mixing import announce_drawn
from modenc.train.objectives.crossconst import CrossConstLoss
from modenc.train.objectives.decoder import TargetTexts, VectorDecoder
from modenc.train.objectives.emma_x import ClassifierWarmup, EmmaXLoss, EmmaXParts, EmmaXWarmup
from modenc.train.objectives.vmsst import ContrastiveLoss, Sentences, SourceSeparation, VmsstLoss
from modenc.train.processes import rows_a_step
from modenc.train.stage import StageRun
from modenc.train.trainers import PartsAlone, train_parts, train_sentence_model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Material:
    """What phases are made from."""

    run: StageRun
    objective: str
    optimizer: OptimizerSettings
    scale: float
    """Inverse temperature of ``contrastive``."""
    model: SentenceTransformer
    hidden: int
    """Size of its vectors."""
    tokenizer: PreTrainedTokenizerFast
    """The base's: cuts what decoders write."""
    embeddings: nn.Embedding
    """The base's table; a monolithic model's own."""
    pairs: Mapping[str, list[ParallelRow]]
    """Language → translations."""
    texts: Mapping[str, list[str]]
    """Language → text without translations."""
    pivot_texts: list[str]
    """The pivot's text without translations."""
    frozen: Callable[[list[str]], Tensor] | None = None
    """The pivot's unit vectors of texts; None where the model encodes the pivot too."""
    others: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Unit vectors of other languages' translations and their counterparts, for EMMA-X's classifier."""

    @property
    def plan(self) -> LanguagePlan:
        """The language's, or one model's first."""
        return self.run.plan

    def steps(self, exponent: float = 0.0) -> int:
        """Optimiser steps of all phases together, of languages that are :func:`drawn` with ``exponent``."""
        optimizer = self.optimizer
        if optimizer.steps:
            return optimizer.steps
        sizes = [len(rows) for rows in (self.pairs or self.texts).values() if rows]
        # Until the language with the most rows for its share was read whole.
        rows: float = max(size ** (1 - exponent) for size in sizes) * sum(size**exponent for size in sizes)
        return max(math.ceil(optimizer.epochs * round(rows) / self.rows_a_step()), 1)

    def rows_a_step(self) -> int:
        """Rows that one optimiser step reads, in all processes."""
        return rows_a_step(self.optimizer)

    def embed(self, ids: Tensor) -> Tensor:
        """The table's rows of pieces [batch, length], wherever the table is: [batch, length, hidden]."""
        table = self.embeddings
        embedded: Tensor = table(ids.to(table.weight.device))
        return embedded


@dataclass(frozen=True)
class Phase:
    """One training run: of the model and the parts that its loss has, or of the parts ``alone``."""

    name: str
    steps: int
    data: Dataset
    loss: nn.Module
    learning_rate: float | None = None
    """Of the loss's parts."""
    alone: bool = False
    model_learning_rate: float | None = None
    """Of the model; None: the optimizer's."""


@dataclass(frozen=True)
class _Translations:
    """Translations as rows of numbers."""

    texts: list[str]
    pivots: list[str]
    languages: list[int]
    distinct: list[str]
    """The pivot's sentences, each once; behind the pairs' own those that only the decoder reads."""

    def rows(self) -> list[int]:
        """Each pair's row in ``distinct``."""
        row = {text: number for number, text in enumerate(self.distinct)}
        return [row[text] for text in self.pivots]


def run_phases(
    material: Material,
    dev: DevData,
    *,
    start_counts: bool,
    as_published: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> dict[str, Any]:
    """Train phase after phase; each goes on from its own last checkpoint, or is passed over when done.

    Returns:
        The last phase's metrics as :func:`~modenc.train.trainers.train_sentence_model`'s, ``dev_before`` the
        first one's, ``seconds`` and ``steps`` of all, and each phase's own under ``phases``.
    """
    by_name: dict[str, dict[str, Any]] = {}
    start: dict[str, Any] = {}
    for number, phase in enumerate(_PHASES[material.objective](material)):
        logger.info("  %s: %d steps, %d rows", phase.name, phase.steps, len(phase.data))
        folder = material.run.checkpoints / phase.name
        folder.mkdir(parents=True, exist_ok=True)
        # The trainers start from the run's seed: each phase has its own order of rows and noise.
        settings = replace(material.plan.run, seed=material.plan.run.seed + number)
        run = replace(material.run, folder=folder, plan=replace(material.plan, run=settings))
        set_seed(settings.seed)
        if phase.alone:
            rate = phase.learning_rate or material.optimizer.learning_rate
            optimizer = replace(material.optimizer, steps=phase.steps, learning_rate=rate)
            by_name[phase.name] = train_parts(optimizer, settings, folder, phase.loss, phase.data)
            continue
        rate = phase.model_learning_rate or material.optimizer.learning_rate
        optimizer = replace(material.optimizer, steps=phase.steps, learning_rate=rate)
        metrics = train_sentence_model(
            run,
            optimizer,
            material.model,
            phase.data,
            phase.loss,
            dev,
            start_counts=start_counts,
            as_published=as_published,
            optimizer=_optimizer(optimizer, material.model, phase),
        )
        start = start or {key: metrics[key] for key in ("dev_before",) if key in metrics}
        by_name[phase.name] = metrics
    last = next(reversed(by_name.values()))
    return {
        **last,
        **start,
        "seconds": sum(metrics["seconds"] for metrics in by_name.values()),
        "steps": sum(metrics["steps"] for metrics in by_name.values()),
        "phases": by_name,
    }


def _optimizer(settings: OptimizerSettings, model: nn.Module, phase: Phase) -> torch.optim.Optimizer:
    """AdamW with a rate of their own for the parts that are thrown away."""
    parts = getattr(phase.loss, "parts", nn.Module())
    groups = [
        {"params": [p for p in model.parameters() if p.requires_grad], "lr": settings.learning_rate},
        {"params": list(parts.parameters()), "lr": phase.learning_rate or settings.learning_rate},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], weight_decay=settings.weight_decay
    )


def _contrastive(material: Material) -> Iterator[Phase]:
    pairs = _translations(material, material.steps(), 0.0)
    loss = ContrastiveLoss(material.model, _vectors(material, pairs.distinct), material.scale)
    yield Phase("contrast", material.steps(), _dataset(material, pairs, [pairs.rows()]), loss)


def _vmsst(material: Material) -> Iterator[Phase]:
    plan, steps = material.plan, material.steps()
    pairs = _translations(material, steps, 0.0, decoded=True)
    texts = list(dict.fromkeys(pairs.texts))
    own = {text: number for number, text in enumerate(texts)}
    targets = _targets(material, [*texts, *pairs.distinct])
    parts = SourceSeparation(
        material.objective,  # type: ignore[arg-type]  # one of its three, by _PHASES
        _table(material, targets),
        1 + len(material.pairs),
        plan.decoder,
        plan.vmsst,
    )
    loss = VmsstLoss(
        material.model,
        parts,
        Sentences(targets, len(texts), material.embed),
        _vectors(material, pairs.distinct),
        plan.vmsst,
        material.scale,
    )
    yield from _decoder_alone(material, parts, loss.copies, len(pairs.distinct))
    labels = [[own[text] for text in pairs.texts], pairs.rows(), [1 + lang for lang in pairs.languages]]
    yield Phase("translation", steps, _dataset(material, pairs, labels), loss, plan.decoder.learning_rate)


def _musr(material: Material) -> Iterator[Phase]:
    plan = material.plan
    steps = material.steps(plan.musr.sampling_exponent)
    pairs = _translations(material, steps, plan.musr.sampling_exponent, decoded=True)
    targets = _targets(material, pairs.distinct)
    decoder = VectorDecoder(_table(material, targets), material.hidden, plan.decoder, injection="input")
    pivot = _vectors(material, pairs.distinct)
    first, second = (
        CrossConstLoss(
            material.model,
            decoder,
            targets,
            pivot,
            consistency=weight,
            copy_weight=plan.musr.copy_weight,
            smoothing=plan.decoder.label_smoothing,
        )
        for weight in (0.0, plan.musr.consistency)
    )
    yield from _decoder_alone(material, decoder, first.copies, len(pairs.distinct))
    data = _dataset(material, pairs, [pairs.rows()])
    early = steps - round(steps * plan.musr.consistency_share)
    cut, rate = early * material.rows_a_step(), plan.decoder.learning_rate
    if early:
        yield Phase("translation", early, data.select(range(cut)), first, rate)
    if early < steps:
        yield Phase("crossconst", steps - early, data.select(range(cut, len(data))), second, rate)


def _emma_x(material: Material) -> Iterator[Phase]:
    plan, steps = material.plan, material.steps()
    settings, rate = plan.emma_x, plan.emma_x.classifier_learning_rate
    parts = EmmaXParts(material.model, material.hidden, settings)
    early = round(steps * settings.warmup_share)
    if early and material.others is not None:
        left, right = material.others()
        alone = PartsAlone(parts, ClassifierWarmup(parts, left, right))
        yield Phase("warmup", early, _row_numbers(len(left)), alone, rate, alone=True)
    elif early:
        pairs = _translations(material, early, 0.0)
        loss = EmmaXWarmup(material.model, parts, _vectors(material, pairs.distinct))
        yield Phase("warmup", early, _dataset(material, pairs, [pairs.rows()]), loss, rate)
    parts.momentum.start_at(material.model)
    if early == steps:
        return
    count, seed = (steps - early) * material.rows_a_step(), plan.run.seed
    texts = drawn(material.texts, count, 0.0, seed)
    pivot_texts = sample(material.pivot_texts, count, seed)
    pivot = _vectors(material, pivot_texts)
    data = Dataset.from_dict({"text": texts})
    unpaired = EmmaXLoss(material.model, parts, pivot)
    own_rate = material.optimizer.learning_rate * settings.unpaired_rate_share
    yield Phase("unpaired", steps - early, data, unpaired, rate, model_learning_rate=own_rate)


_PHASES: dict[str, Callable[[Material], Iterator[Phase]]] = {
    "contrastive": _contrastive,
    "bitranslation": _vmsst,
    "vmsst": _vmsst,
    "vmsst_contrastive": _vmsst,
    "musr": _musr,
    "emma_x": _emma_x,
}


def _translations(material: Material, steps: int, exponent: float, *, decoded: bool = False) -> _Translations:
    """As many as ``steps`` read, the languages mixed; ``decoded``: with what the decoder reads alone."""
    count = steps * material.rows_a_step()
    groups = {
        lang: [(number, row) for row in rows]
        for number, (lang, rows) in enumerate(sorted(material.pairs.items()))
    }
    rows = drawn(groups, count, exponent, material.plan.run.seed)
    announce_drawn(sorted(material.pairs), [number for number, _ in rows], groups)
    distinct = dict.fromkeys(row.pivot for _, row in rows)
    if decoded and material.frozen is not None:
        more = material.plan.decoder.pivot_steps * material.rows_a_step()
        others = drawn(groups, more, exponent, material.plan.run.seed + 1)
        distinct |= dict.fromkeys(row.pivot for _, row in others)
    return _Translations(
        texts=[row.text for _, row in rows],
        pivots=[row.pivot for _, row in rows],
        languages=[number for number, _ in rows],
        distinct=list(distinct),
    )


def _dataset(material: Material, pairs: _Translations, labels: list[list[int]]) -> Dataset:
    columns: dict[str, Any] = {"text": pairs.texts}
    if material.frozen is None:
        columns["pivot"] = pairs.pivots
    return Dataset.from_dict({**columns, "label": [list(row) for row in zip(*labels, strict=True)]})


def _vectors(material: Material, texts: list[str]) -> Tensor | None:
    return None if material.frozen is None else material.frozen(texts)


def _targets(material: Material, texts: list[str]) -> TargetTexts:
    decoder = material.plan.decoder
    return TargetTexts(texts, material.tokenizer, decoder.max_length, decoder.max_pieces)


def _table(material: Material, targets: TargetTexts) -> Tensor:
    """The base's embeddings of the written pieces [pieces, hidden].

    Raises:
        RecipeError: the decoder's heads do not share them evenly.
    """
    heads = material.plan.decoder.heads
    if material.hidden % heads:
        raise RecipeError(
            f"decoder.heads: expected a divisor of the base's hidden size, {material.hidden}; found {heads}"
        )
    return material.embed(targets.pieces).detach()


def _decoder_alone(
    material: Material, parts: nn.Module, copies: Callable[[Tensor], Tensor], rows: int
) -> Iterator[Phase]:
    """``pivot_steps`` of the decoder on the pivot's cached vectors, where they are frozen."""
    decoder = material.plan.decoder
    if material.frozen is not None and decoder.pivot_steps:
        loss = PartsAlone(parts, copies)
        yield Phase(
            "decoder", decoder.pivot_steps, _row_numbers(rows), loss, decoder.learning_rate, alone=True
        )


def _row_numbers(count: int) -> Dataset:
    return Dataset.from_dict({"rows": list(range(count))})
