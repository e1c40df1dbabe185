"""The other papers' objectives (``objectives/``) as phases of training, for modules and for one whole model.

Both are given the same inputs. With modules the pivot's vectors come from a cache, with one model from
the model; an objective does not know which parameters move.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import set_seed

from modenc.data.pairs import ParallelRow
from modenc.errors import RecipeError
from modenc.recipe.paper_settings import data_for_alignment
from modenc.recipe.settings import AlignmentSettings, LanguagePlan, MonolithicSettings, OptimizerSettings
from modenc.training.data_access import TrainingData, drawn, sample
from modenc.training.dev import DevData
from modenc.training.mixing import announce_drawn
from modenc.training.objectives import options
from modenc.training.objectives.contrast import ContrastiveLoss
from modenc.training.objectives.crossconst import CrossConstLoss
from modenc.training.objectives.decoder import TargetTexts, TransformerSize, VectorDecoder
from modenc.training.objectives.emma_x import (
    ClassifierWarmup,
    EmmaXLoss,
    EmmaXOptions,
    EmmaXParts,
    EmmaXWarmup,
)
from modenc.training.objectives.vmsst import Sentences, SeparationOptions, SourceSeparation, VmsstLoss
from modenc.training.processes import rows_a_step
from modenc.training.stage import StageRun
from modenc.training.trainers import PartsAlone, train_parts, train_sentence_model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FrozenPivot:
    """The pivot's side, where it does not learn."""

    encode: Callable[[list[str]], Tensor]
    """Gives texts' unit vectors [texts, hidden]."""
    texts: list[str]
    """Its text without translations."""
    others: Callable[[], tuple[Tensor, Tensor]] | None = None
    """Unit vectors of other languages' translations and their counterparts, for EMMA-X's classifier."""


@dataclass(frozen=True)
class ObjectiveInputs:
    """What an objective's phases are made from; see :func:`objective_inputs`."""

    run: StageRun
    settings: AlignmentSettings | MonolithicSettings
    model: SentenceTransformer
    embeddings: nn.Embedding
    """The base's table; a monolithic model's own."""
    pairs: Mapping[str, list[ParallelRow]]
    """Language → translations."""
    texts: Mapping[str, list[str]]
    """Language → text without translations."""
    pivot: FrozenPivot | None = None
    """None where the model encodes the pivot too."""

    @property
    def plan(self) -> LanguagePlan:
        """The language's, or one model's first."""
        return self.run.plan

    def steps(self, exponent: float = 0.0) -> int:
        """Optimizer steps of all phases together, of languages that are :func:`drawn` with ``exponent``."""
        optimizer = self.settings.optimizer
        if optimizer.steps:
            return optimizer.steps
        sizes = [len(rows) for rows in (self.pairs or self.texts).values() if rows]
        # Until the language with the most rows for its share was read whole.
        rows: float = max(size ** (1 - exponent) for size in sizes) * sum(size**exponent for size in sizes)
        return max(math.ceil(optimizer.epochs * round(rows) / self.rows_a_step()), 1)

    def rows_a_step(self) -> int:
        """Rows that one optimizer step reads, in all processes."""
        return rows_a_step(self.settings.optimizer)

    def embed(self, ids: Tensor) -> Tensor:
        """The table's rows of pieces [batch, length], wherever the table is: [batch, length, hidden]."""
        table = self.embeddings
        embedded: Tensor = table(ids.to(table.weight.device))
        return embedded

    def vectors(self, texts: list[str]) -> Tensor | None:
        """The frozen pivot's unit vectors of texts [texts, hidden]."""
        return None if self.pivot is None else self.pivot.encode(texts)


def objective_inputs(
    run: StageRun,
    settings: AlignmentSettings | MonolithicSettings,
    model: SentenceTransformer,
    data: Mapping[str, TrainingData],
    pivot: FrozenPivot | None = None,
) -> ObjectiveInputs:
    """The inputs of an objective, with what it reads of the learning languages' ``data``."""
    reads = data_for_alignment(settings.objective, run.plan.emma_x)
    pairs, texts = {}, {}
    for lang, part in data.items():
        if "parallel" in reads and lang != part.plan.pivot and part.plan.data.parallel:
            pairs[lang] = part.parallel.train
        if "text" in reads and part.plan.data.text:
            texts[lang] = part.text.train
    body = model[0].body if pivot is None else run.base.load_body().requires_grad_(False)
    return ObjectiveInputs(run, settings, model, body.get_input_embeddings(), pairs, texts, pivot)


@dataclass(frozen=True)
class Phase:
    """One training run: of the model and the parts that its loss has, or of :class:`PartsAlone`."""

    name: str
    steps: int
    data: Dataset
    loss: nn.Module
    learning_rate: float | None = None
    """Of the loss's parts."""
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
    rows: list[int]
    """Each pair's row in ``distinct``."""


def run_phases(inputs: ObjectiveInputs, dev: DevData) -> dict[str, Any]:
    """Train phase after phase; each goes on from its own last checkpoint, or is passed over when done.

    Returns:
        The last phase's metrics as :func:`~modenc.training.trainers.train_sentence_model`'s, ``dev_before``
        the first one's, ``seconds`` and ``steps`` of all, and each phase's own under ``phases``.
    """
    by_name: dict[str, dict[str, Any]] = {}
    for number, phase in enumerate(_PHASES[inputs.settings.objective](inputs)):
        logger.info("  %s: %d steps, %d rows", phase.name, phase.steps, len(phase.data))
        # The trainers start from the run's seed: each phase has its own order of rows and noise.
        settings = replace(inputs.plan.run, seed=inputs.plan.run.seed + number)
        run = replace(inputs.run.phase(phase.name), plan=replace(inputs.plan, run=settings))
        set_seed(settings.seed)
        rate = phase.learning_rate if isinstance(phase.loss, PartsAlone) else phase.model_learning_rate
        optimizer = inputs.settings.optimizer
        optimizer = replace(optimizer, steps=phase.steps, learning_rate=rate or optimizer.learning_rate)
        if isinstance(phase.loss, PartsAlone):
            by_name[phase.name] = train_parts(optimizer, settings, run.folder, phase.loss, phase.data)
            continue
        by_name[phase.name] = train_sentence_model(
            run,
            optimizer,
            inputs.model,
            phase.data,
            phase.loss,
            dev,
            optimizer=_optimizer(optimizer, inputs.model, phase),
        )
    last = next(reversed(by_name.values()))
    before = [metrics["dev_before"] for metrics in by_name.values() if "dev_before" in metrics]
    return {
        **last,
        **({"dev_before": before[0]} if before else {}),
        **{name: sum(metrics[name] for metrics in by_name.values()) for name in ("seconds", "steps")},
        "phases": by_name,
    }


def _optimizer(settings: OptimizerSettings, model: nn.Module, phase: Phase) -> torch.optim.Optimizer:
    """AdamW with a rate of their own for the parts that are thrown away."""
    parts = getattr(phase.loss, "parts", nn.Module())
    groups = [
        {"params": [p for p in model.parameters() if p.requires_grad], "lr": settings.learning_rate},
        {"params": list(parts.parameters()), "lr": phase.learning_rate or settings.learning_rate},
    ]
    return torch.optim.AdamW([one for one in groups if one["params"]], weight_decay=settings.weight_decay)


def _contrastive(inputs: ObjectiveInputs) -> Iterator[Phase]:
    pairs = _translations(inputs, inputs.steps(), 0.0)
    loss = ContrastiveLoss(inputs.model, inputs.vectors(pairs.distinct), inputs.settings.scale)
    yield Phase("contrast", inputs.steps(), _dataset(inputs, pairs, [pairs.rows]), loss)


def _vmsst(inputs: ObjectiveInputs) -> Iterator[Phase]:
    plan, steps = inputs.plan, inputs.steps()
    pairs = _translations(inputs, steps, 0.0, decoded=True)
    texts = list(dict.fromkeys(pairs.texts))
    own = {text: number for number, text in enumerate(texts)}
    targets, table = _targets(inputs, [*texts, *pairs.distinct])
    settings, size = plan.vmsst, options(TransformerSize, plan.decoder)
    variant: Any = inputs.settings.objective  # one of its three, by _PHASES
    parts = SourceSeparation(
        variant, table, 1 + len(inputs.pairs), size, options(SeparationOptions, settings)
    )
    loss = VmsstLoss(
        inputs.model,
        parts,
        Sentences(targets, len(texts), inputs.embed),
        inputs.vectors(pairs.distinct),
        scale=inputs.settings.scale,
        elbo_weight=settings.elbo_weight,
        joint_weight=settings.joint_weight,
        kl_steps=settings.kl_steps if settings.kl else 0,
    )
    yield from _decoder_alone(inputs, parts, loss.pivot_reconstruction_loss, len(pairs.distinct))
    labels = [[own[text] for text in pairs.texts], pairs.rows, [1 + lang for lang in pairs.languages]]
    yield Phase("translation", steps, _dataset(inputs, pairs, labels), loss, plan.decoder.learning_rate)


def _musr(inputs: ObjectiveInputs) -> Iterator[Phase]:
    plan = inputs.plan
    steps = inputs.steps(plan.musr.sampling_exponent)
    pairs = _translations(inputs, steps, plan.musr.sampling_exponent, decoded=True)
    targets, table = _targets(inputs, pairs.distinct)
    size = options(TransformerSize, plan.decoder)
    decoder = VectorDecoder(table, inputs.run.base.hidden_size, size, injection="input")
    pivot = inputs.vectors(pairs.distinct)
    first, second = (
        CrossConstLoss(
            inputs.model,
            decoder,
            targets,
            pivot,
            consistency=weight,
            copy_weight=plan.musr.copy_weight,
            smoothing=plan.decoder.label_smoothing,
        )
        for weight in (0.0, plan.musr.consistency)
    )
    yield from _decoder_alone(inputs, decoder, first.pivot_reconstruction_loss, len(pairs.distinct))
    data = _dataset(inputs, pairs, [pairs.rows])
    early = steps - round(steps * plan.musr.consistency_share)
    cut, rate = early * inputs.rows_a_step(), plan.decoder.learning_rate
    if early:
        yield Phase("translation", early, data.select(range(cut)), first, rate)
    if early < steps:
        yield Phase("crossconst", steps - early, data.select(range(cut, len(data))), second, rate)


def _emma_x(inputs: ObjectiveInputs) -> Iterator[Phase]:
    plan, steps = inputs.plan, inputs.steps()
    settings, rate = plan.emma_x, plan.emma_x.classifier_learning_rate
    parts = EmmaXParts(inputs.model, inputs.run.base.hidden_size, options(EmmaXOptions, settings))
    early = round(steps * settings.warmup_share)
    if early and inputs.pivot is not None and inputs.pivot.others is not None:
        left, right = inputs.pivot.others()
        alone = PartsAlone(parts, ClassifierWarmup(parts, left, right))
        yield Phase("warmup", early, Dataset.from_dict({"rows": range(len(left))}), alone, rate)
    elif early:
        pairs = _translations(inputs, early, 0.0)
        loss = EmmaXWarmup(inputs.model, parts, inputs.vectors(pairs.distinct))
        yield Phase("warmup", early, _dataset(inputs, pairs, [pairs.rows]), loss, rate)
    parts.momentum.start_at(inputs.model)
    if early == steps:
        return
    count, seed = (steps - early) * inputs.rows_a_step(), plan.run.seed
    texts = drawn(inputs.texts, count, 0.0, seed)
    pivot = None if inputs.pivot is None else inputs.pivot.encode(sample(inputs.pivot.texts, count, seed))
    data = Dataset.from_dict({"text": texts})
    unpaired = EmmaXLoss(inputs.model, parts, pivot)
    own_rate = inputs.settings.optimizer.learning_rate * settings.unpaired_rate_share
    yield Phase("unpaired", steps - early, data, unpaired, rate, model_learning_rate=own_rate)


_PHASES: dict[str, Callable[[ObjectiveInputs], Iterator[Phase]]] = {
    "contrastive": _contrastive,
    **dict.fromkeys(("bitranslation", "vmsst", "vmsst_contrastive"), _vmsst),
    "musr": _musr,
    "emma_x": _emma_x,
}


def _translations(
    inputs: ObjectiveInputs, steps: int, exponent: float, *, decoded: bool = False
) -> _Translations:
    """As many as ``steps`` read, the languages mixed; ``decoded``: with what the decoder reads alone."""
    count = steps * inputs.rows_a_step()
    groups = {
        lang: [(number, row) for row in rows]
        for number, (lang, rows) in enumerate(sorted(inputs.pairs.items()))
    }
    rows = drawn(groups, count, exponent, inputs.plan.run.seed)
    announce_drawn(sorted(inputs.pairs), [number for number, _ in rows], groups)
    distinct = dict.fromkeys(row.pivot for _, row in rows)
    if decoded and inputs.pivot is not None:
        more = inputs.plan.decoder.pivot_steps * inputs.rows_a_step()
        others = drawn(groups, more, exponent, inputs.plan.run.seed + 1)
        distinct |= dict.fromkeys(row.pivot for _, row in others)
    pivots, row_of = [row.pivot for _, row in rows], {text: number for number, text in enumerate(distinct)}
    return _Translations(
        texts=[row.text for _, row in rows],
        pivots=pivots,
        languages=[number for number, _ in rows],
        distinct=list(distinct),
        rows=[row_of[text] for text in pivots],
    )


def _dataset(inputs: ObjectiveInputs, pairs: _Translations, labels: list[list[int]]) -> Dataset:
    columns: dict[str, Any] = {"text": pairs.texts}
    if inputs.pivot is None:
        columns["pivot"] = pairs.pivots
    return Dataset.from_dict({**columns, "label": [list(row) for row in zip(*labels, strict=True)]})


def _targets(inputs: ObjectiveInputs, texts: list[str]) -> tuple[TargetTexts, Tensor]:
    """What a decoder writes, and the base's embeddings of its pieces [pieces, hidden]; or a RecipeError."""
    decoder, base = inputs.plan.decoder, inputs.run.base
    if base.hidden_size % decoder.heads:
        raise RecipeError(
            f"decoder.heads: expected a divisor of the base's hidden size, {base.hidden_size}; "
            f"found {decoder.heads}"
        )
    targets = TargetTexts(texts, base.load_tokenizer(), decoder.max_length, decoder.max_pieces)
    return targets, inputs.embed(targets.pieces).detach()


def _decoder_alone(
    inputs: ObjectiveInputs, parts: nn.Module, copies: Callable[[Tensor], Tensor], rows: int
) -> Iterator[Phase]:
    """``pivot_steps`` of the decoder on the pivot's cached vectors, where they are frozen."""
    decoder = inputs.plan.decoder
    if inputs.pivot is not None and decoder.pivot_steps:
        loss = PartsAlone(parts, copies)
        data = Dataset.from_dict({"rows": range(rows)})
        yield Phase("decoder", decoder.pivot_steps, data, loss, decoder.learning_rate)
