"""The other papers' objectives (``objectives/``) as phases of training, for modules and for one whole model.

Both get the same inputs. With modules the pivot's vectors are computed before, with one model by the model
itself; an objective does not know which parameters train.

An objective's phases come from a generator, and :func:`run_phases` trains each before it asks for the next.
Generators rely on this: EMMA-X's second phase starts from a copy of the model that its first phase trained.
So never collect phases in a list.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import set_seed

from modenc.data.kinds import CrossRow
from modenc.errors import RecipeError
from modenc.recipe.plan import LanguagePlan
from modenc.recipe.settings import AlignmentSettings, MonolithicSettings, OptimizerSettings
from modenc.training.body_module import Encode
from modenc.training.data_access import TrainingData, draw_rows, sample
from modenc.training.dev import DevEvaluator
from modenc.training.objectives.contrast import ContrastiveLoss
from modenc.training.objectives.crossconst import CrossConstLoss
from modenc.training.objectives.decoder import TargetTexts, VectorDecoder
from modenc.training.objectives.emma_x import EmmaXAuxiliary, EmmaXLoss, EmmaXWarmup, MomentumCopy
from modenc.training.objectives.vmsst import SourceSeparation, VmsstLoss
from modenc.training.stage import Stage
from modenc.training.trainers import AuxiliaryModel, train_body, train_sentence_model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ObjectiveInputs:
    """Data and models that an objective's phases are made from."""

    stage: Stage
    settings: AlignmentSettings | MonolithicSettings
    model: SentenceTransformer
    embeddings: nn.Embedding
    """Embeddings of the base, or of the monolithic model."""
    pairs: Mapping[str, list[CrossRow]]
    """Language → translations."""
    texts: Mapping[str, list[str]]
    """Language → text without translations."""
    encode_pivot: Encode | None = None
    """The frozen pivot; None where the model encodes the pivot too."""

    @property
    def plan(self) -> LanguagePlan:
        """Plan of the language, or of the first language of a monolithic model."""
        return self.stage.plan

    def steps(self, exponent: float = 0.0) -> int:
        """Count the optimizer steps of all phases; ``exponent`` as :func:`draw_rows` takes it."""
        optimizer = self.settings.optimizer
        if optimizer.steps:
            return optimizer.steps
        sizes = [len(rows) for rows in (self.pairs or self.texts).values() if rows]
        # Enough to read every row of the language that has the most rows for its share.
        rows: float = max(size ** (1 - exponent) for size in sizes) * sum(size**exponent for size in sizes)
        return max(math.ceil(optimizer.epochs * round(rows) / optimizer.rows_a_step()), 1)

    def embed(self, ids: Tensor) -> Tensor:
        """Embed piece ids [batch, length] on the table's device: [batch, length, hidden]."""
        table = self.embeddings
        embedded: Tensor = table(ids.to(table.weight.device))
        return embedded

    def vectors(self, texts: list[str]) -> Tensor | None:
        """Encode texts with the frozen pivot: unit vectors [texts, hidden]; None where it is not frozen."""
        return None if self.encode_pivot is None else torch.from_numpy(self.encode_pivot(texts))


@dataclass(frozen=True)
class Phase:
    """One training loop within a stage; ``loss`` is an :class:`AuxiliaryModel` if only that trains."""

    name: str
    steps: int
    data: Dataset
    loss: nn.Module
    learning_rate: float | None = None
    """Peak learning rate of the auxiliary modules; None: the optimizer's."""
    model_learning_rate: float | None = None
    """Peak learning rate of the model; None: the optimizer's."""


@dataclass(frozen=True)
class _Translations:
    """Translations of all languages, mixed, with their pivot sentences numbered."""

    texts: list[str]
    languages: list[int]
    distinct: list[str]
    """The pivot's sentences, each once: first those of the pairs, then those that only the decoder reads."""
    rows: list[int]
    """Each pair's row in ``distinct``."""


def run_phases(
    stage: Stage,
    settings: AlignmentSettings | MonolithicSettings,
    model: SentenceTransformer,
    data: Mapping[str, TrainingData],
    dev: DevEvaluator,
) -> dict[str, Any]:
    """Train phase after phase; each resumes from its own last checkpoint, or is skipped when it is done.

    Args:
        stage: the stage, or the monolithic model's only one.
        settings: its settings.
        model: the model that trains.
        data: language that learns → its data.
        dev: the data that choose the best weights; its ``pivot`` is the frozen one, or None where the model
            encodes the pivot too.

    Returns:
        The last phase's metrics, as :func:`~modenc.training.trainers.train_sentence_model` returns them, with
        the first phase's ``dev_before`` and the sums of ``seconds`` and ``steps``; each phase's metrics are
        under ``phases``.
    """
    reads = stage.plan.objective_reads(stage.name)
    pairs, texts = {}, {}
    for lang, own in data.items():
        if "parallel" in reads and lang != own.plan.pivot and own.plan.data.parallel:
            pairs[lang] = own.parallel.train
        if "text" in reads and own.plan.data.text:
            texts[lang] = own.text.train
    body = model[0].body if dev.pivot is None else stage.base.load_body().requires_grad_(False)
    table = body.get_input_embeddings()
    inputs = ObjectiveInputs(stage, settings, model, table, pairs, texts, dev.pivot)
    by_name: dict[str, dict[str, Any]] = {}
    for number, phase in enumerate(_PHASES[settings.objective](inputs)):
        logger.info("  %s: %d steps, %d rows", phase.name, phase.steps, len(phase.data))
        # The trainers start from this seed: each phase has its own order of rows and its own noise.
        run = replace(stage.plan.run, seed=stage.plan.run.seed + number)
        own_stage = replace(stage.with_phase_folder(phase.name), plan=replace(stage.plan, run=run))
        set_seed(run.seed)
        rate = phase.model_learning_rate or settings.optimizer.learning_rate
        optimizer = replace(settings.optimizer, steps=phase.steps, learning_rate=rate)
        if isinstance(phase.loss, AuxiliaryModel):
            by_name[phase.name] = train_body(own_stage, optimizer, phase.loss, phase.data)
        else:
            by_name[phase.name] = train_sentence_model(
                own_stage,
                optimizer,
                model,
                phase.data,
                phase.loss,
                dev,
                optimizer=_optimizer(optimizer, model, phase),
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
    """Make AdamW with a learning rate of its own for the loss's auxiliary modules."""
    auxiliary = getattr(phase.loss, "auxiliary", nn.Module())
    groups = [
        {"params": [p for p in model.parameters() if p.requires_grad], "lr": settings.learning_rate},
        {"params": list(auxiliary.parameters()), "lr": phase.learning_rate or settings.learning_rate},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], weight_decay=settings.weight_decay
    )


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
    variant, languages = inputs.settings.objective, 1 + len(inputs.pairs)
    auxiliary = SourceSeparation(variant, table, languages, plan.decoder, plan.vmsst)
    loss = VmsstLoss(
        inputs.model,
        auxiliary,
        inputs.vectors(pairs.distinct),
        targets,
        first_pivot=len(texts),
        embed=inputs.embed,
        scale=inputs.settings.scale,
    )
    yield from _decoder_alone(inputs, auxiliary, loss.pivot_reconstruction_loss, len(pairs.distinct))
    labels = [[own[text] for text in pairs.texts], pairs.rows, [1 + lang for lang in pairs.languages]]
    yield Phase("translation", steps, _dataset(inputs, pairs, labels), loss, plan.decoder.learning_rate)


def _musr(inputs: ObjectiveInputs) -> Iterator[Phase]:
    plan = inputs.plan
    steps = inputs.steps(plan.musr.sampling_exponent)
    pairs = _translations(inputs, steps, plan.musr.sampling_exponent, decoded=True)
    targets, table = _targets(inputs, pairs.distinct)
    decoder = VectorDecoder(table, inputs.stage.base.hidden_size, plan.decoder, injection="input")
    pivot = inputs.vectors(pairs.distinct)
    weights = {"copy_weight": plan.musr.copy_weight, "smoothing": plan.decoder.label_smoothing}
    loss = partial(CrossConstLoss, inputs.model, decoder, targets, pivot, **weights)
    first, second = loss(consistency=0.0), loss(consistency=plan.musr.consistency)
    yield from _decoder_alone(inputs, decoder, first.pivot_reconstruction_loss, len(pairs.distinct))
    data = _dataset(inputs, pairs, [pairs.rows])
    early = steps - round(steps * plan.musr.consistency_share)
    cut, rate = early * inputs.settings.optimizer.rows_a_step(), plan.decoder.learning_rate
    if early:
        yield Phase("translation", early, data.select(range(cut)), first, rate)
    if early < steps:
        yield Phase("crossconst", steps - early, data.select(range(cut, len(data))), second, rate)


def _emma_x(inputs: ObjectiveInputs) -> Iterator[Phase]:
    plan, steps = inputs.plan, inputs.steps()
    settings, rate = plan.emma_x, plan.emma_x.classifier_learning_rate
    auxiliary = EmmaXAuxiliary(inputs.model, inputs.stage.base.hidden_size, settings)
    early = round(steps * settings.warmup_share)
    if early:
        pairs = _translations(inputs, early, 0.0)
        loss = EmmaXWarmup(inputs.model, auxiliary, inputs.vectors(pairs.distinct))
        yield Phase("warmup", early, _dataset(inputs, pairs, [pairs.rows]), loss, rate)
    # By now run_phases has trained the warm-up.
    auxiliary.momentum = MomentumCopy(inputs.model, settings.momentum)
    if early == steps:
        return
    count, seed = (steps - early) * inputs.settings.optimizer.rows_a_step(), plan.run.seed
    texts = draw_rows(inputs.texts, count, 0.0, seed)
    pivot_text = inputs.stage.data.pivot_text
    pivot = None if pivot_text is None else inputs.vectors(sample(pivot_text.train, count, seed))
    data = Dataset.from_dict({"text": texts})
    unpaired = EmmaXLoss(inputs.model, auxiliary, pivot)
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
    """Draw the translations that ``steps`` read; ``decoded`` adds the sentences for the decoder's phase."""
    count = steps * inputs.settings.optimizer.rows_a_step()
    groups = {
        lang: [(number, row) for row in rows]
        for number, (lang, rows) in enumerate(sorted(inputs.pairs.items()))
    }
    rows = draw_rows(groups, count, exponent, inputs.plan.run.seed)
    distinct = dict.fromkeys(row.pivot for _, row in rows)
    if decoded and inputs.encode_pivot is not None:
        more = inputs.plan.decoder.pivot_steps * inputs.settings.optimizer.rows_a_step()
        others = draw_rows(groups, more, exponent, inputs.plan.run.seed + 1)
        distinct |= dict.fromkeys(row.pivot for _, row in others)
    row_of = {text: number for number, text in enumerate(distinct)}
    return _Translations(
        texts=[row.text for _, row in rows],
        languages=[number for number, _ in rows],
        distinct=list(distinct),
        rows=[row_of[row.pivot] for _, row in rows],
    )


def _dataset(inputs: ObjectiveInputs, pairs: _Translations, labels: list[list[int]]) -> Dataset:
    columns: dict[str, Any] = {"text": pairs.texts}
    if inputs.encode_pivot is None:
        columns["pivot"] = [pairs.distinct[row] for row in pairs.rows]
    return Dataset.from_dict({**columns, "label": [list(row) for row in zip(*labels, strict=True)]})


def _targets(inputs: ObjectiveInputs, texts: list[str]) -> tuple[TargetTexts, Tensor]:
    """Prepare a decoder's target texts, and the base's embeddings of their pieces [pieces, hidden]."""
    decoder, base = inputs.plan.decoder, inputs.stage.base
    if base.hidden_size % decoder.heads:
        raise RecipeError(
            f"decoder.heads: expected a divisor of the base's hidden size, {base.hidden_size}; "
            f"found {decoder.heads}"
        )
    targets = TargetTexts(texts, base.load_tokenizer(), decoder.max_length, decoder.max_pieces)
    return targets, inputs.embed(targets.pieces).detach()


def _decoder_alone(
    inputs: ObjectiveInputs, auxiliary: nn.Module, reconstruction: Callable[[Tensor], Tensor], rows: int
) -> Iterator[Phase]:
    """Yield ``pivot_steps`` of the decoder alone on the frozen pivot's vectors; nothing if none is frozen."""
    decoder = inputs.plan.decoder
    if inputs.encode_pivot is not None and decoder.pivot_steps:
        loss = AuxiliaryModel(auxiliary, reconstruction)
        data = Dataset.from_dict({"rows": range(rows)})
        yield Phase("decoder", decoder.pivot_steps, data, loss, model_learning_rate=decoder.learning_rate)
