"""At the end of a training: the language's modules beside the bare base, on the same held-out data.

The data are those that checkpoints were chosen by, so a narrow lead may be luck; a loss is none. Across
languages the base encodes both sides, and the modules' counterparts come from the pivot's own modules, as
they do in a hub. A language without alignment is compared within itself alone.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel, resolve_base
from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.data.pairs import ParallelRow, ScoredRow
from modenc.evaluate.retrieval import both_ways
from modenc.evaluate.sts import spearman
from modenc.hub.comparison import (
    BASE,
    MODULES,
    ROWS,
    TOKENS,
    UNALIGNED,
    WORST,
    Comparison,
    loses,
    mean_score,
    shared_scores,
    table_of,
)
from modenc.hub.layout import LanguageLayout
from modenc.hub.store import Hub
from modenc.recipe.settings import LanguagePlan
from modenc.storage import whole_file
from modenc.train.body_module import encode_texts, sentence_model
from modenc.train.data_access import TrainingData
from modenc.train.frozen import pack_frozen
from modenc.train.precision import uses_bf16
from modenc.train.tokenizers import tokens_per_sentence

logger = logging.getLogger(__name__)

Vectors = npt.NDArray[np.float32]
Encode = Callable[[list[str]], Vectors]

# Of the base's tokens; a language's own vocabulary is there to need fewer.
_TOLERATED_TOKENS = 1.05
_ADVICE = {
    "sts": "more or cleaner data.paraphrases, a start from a related language "
    "(sentence_encoding.start), or a smaller sentence_encoding.optimizer.learning_rate",
    "cross_sts": "cleaner translations (modenc clean) or more of them, more alignment.optimizer.steps, or a "
    "greater alignment.keep_weight",
    "retrieval": "cleaner translations (modenc clean) or more of them, or more alignment.optimizer.steps",
    TOKENS: "vocabulary.method = 'base' or 'trim', more running text, or a greater vocabulary.size",
}


@dataclass(frozen=True)
class HeldOut:
    """What is compared on; empty parts are left out."""

    sts: Sequence[ScoredRow] = ()
    """Sentence pairs of the language with gold scores."""
    cross_sts: Sequence[ScoredRow] = ()
    """The same with the first sentence in the pivot language."""
    parallel: Sequence[ParallelRow] = ()
    """Translations that were set aside."""
    text: Sequence[str] = ()
    """Running text that was set aside, for a language with a vocabulary of its own."""

    @classmethod
    def of(cls, data: TrainingData, modules: LanguageLayout) -> HeldOut:
        """What a language's data hold; nothing is read that its modules have no use for."""
        plan, present = data.plan, modules.present()
        across = "cla" in present and plan.lang != plan.pivot
        # A language whose translations are not to be used is not evaluated on them either.
        spared = plan.alignment.objective == "emma_x" and bool(plan.emma_x.warmup_languages)
        return cls(
            sts=data.dev.sts,
            cross_sts=data.dev.cross_sts if across else (),
            parallel=data.parallel.held_out if across and plan.data.parallel and not spared else (),
            text=data.text.held_out if "tokenizer" in present and plan.data.text else (),
        )

    def counts(self) -> dict[str, float]:
        """Metric → rows that it is measured on."""
        rows = {"sts": self.sts, "cross_sts": self.cross_sts, "retrieval": self.parallel, TOKENS: self.text}
        return {metric: len(part) for metric, part in rows.items() if part}

    def measure(
        self, own: Encode, pivot: Encode, base: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Metric → value, always a finite number.

        Args:
            own: gives unit vectors [texts, hidden] of the language's texts.
            pivot: the same of the pivot's.
            base: the base's values, where modules are measured: a metric that it has no number for is left
                out, one that the modules alone have none for (equal vectors, or NaN) is the worst there is.
        """
        figures = {}
        if self.sts:
            left, right = (own([row[side] for row in self.sts]) for side in (0, 1))  # type: ignore[misc]
            figures["sts"] = spearman(left, right, [row[2] for row in self.sts])
        if self.cross_sts:
            left, right = pivot([row[0] for row in self.cross_sts]), own([row[1] for row in self.cross_sts])
            figures["cross_sts"] = spearman(left, right, [row[2] for row in self.cross_sts])
        if self.parallel:
            left, right = (
                pivot([row.pivot for row in self.parallel]),
                own([row.text for row in self.parallel]),
            )
            figures["retrieval"] = both_ways(left, right)
        if base is None:
            # Constant gold scores have no correlation.
            return {metric: round(value, 2) for metric, value in figures.items() if math.isfinite(value)}
        for metric in (metric for metric in base if not math.isfinite(figures[metric])):
            logger.warning(
                "  %s: not a number with the modules, whose vectors are all equal or not finite; it counts "
                "as %.0f. Try a smaller learning rate",
                metric, WORST[metric],
            )  # fmt: skip
            figures[metric] = WORST[metric]
        return {metric: round(figures[metric], 2) for metric in base}


@dataclass
class _Systems:
    """The base, and modules on it, as functions from texts to vectors; the base is loaded on first use."""

    plan: LanguagePlan
    base: BaseModel = field(init=False)

    def __post_init__(self) -> None:
        self.base = resolve_base(self.plan.base.model)

    @cached_property
    def body(self) -> PreTrainedModel:
        return self.base.load_body().requires_grad_(False)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        return self.base.load_tokenizer()

    def of_base(self, texts: list[str]) -> Vectors:
        """The base's vectors, kept on disk: they are the same after every training."""
        plan = self.plan
        content = [self.base.fingerprint, repr(asdict(plan.base)), str(uses_bf16(plan.run)), *texts]
        key = hashlib.sha256("\x1f".join(content).encode("utf-8", "backslashreplace")).hexdigest()[:24]
        path: Path = plan.run.work_dir / "cache" / f"{BASE}-{key}.npy"
        if not path.is_file():
            # A copy of its structure alone, since packing replaces layers.
            body = copy.deepcopy(self.body, {id(tensor): tensor for tensor in self.body.parameters()})
            vectors = encode_texts(self._model(body, self.tokenizer), texts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as temporary:
                np.save(temporary, vectors)
        cached: Vectors = np.load(path)
        return cached

    def _model(self, body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> SentenceTransformer:
        body.requires_grad_(False)
        pack_frozen(body)
        return sentence_model(body, tokenizer, self.plan, self.plan.base.max_length)

    def of_modules(self, layout: LanguageLayout, *, align: bool) -> Encode:
        """A function that encodes with a language's modules; they are read on its first use."""
        models: list[SentenceTransformer] = []
        known: dict[tuple[str, ...], Vectors] = {}

        def encode(texts: list[str]) -> Vectors:
            if not models:
                modules = read_modules(layout, self.base.hidden_size)
                body = compose(self.body, modules, align=align)
                models.append(self._model(body, modules.tokenizer or self.tokenizer))
            key = tuple(texts)
            if key not in known:
                known[key] = encode_texts(models[0], texts)
            return known[key]

        return encode


def compare_with_base(
    data: TrainingData, modules: LanguageLayout, pivot: LanguageLayout | None = None
) -> dict[str, dict[str, float]]:
    """Measure modules as they are to be published, and the base; log a table and what to try next.

    Call it in one process alone.

    Args:
        data: the language's.
        modules: what is to be published.
        pivot: the pivot's modules, if not those in the recipe's hub.

    Returns:
        A card's ``comparison``; empty where nothing is held out.

    Raises:
        DataError: held-out data cannot be read.
        HubError: the pivot's modules are needed and not in the hub.
    """
    plan, held_out = data.plan, HeldOut.of(data, modules)
    counts = held_out.counts()
    comparison: dict[str, dict[str, float]] = {}
    if counts:
        systems = _Systems(plan)
        aligned = "cla" in modules.present()
        counterpart = (pivot or Hub.open(plan.hub).layout(plan.pivot)) if aligned else modules
        comparison[ROWS] = counts
        comparison[BASE] = held_out.measure(systems.of_base, systems.of_base)
        counterparts = {align: systems.of_modules(counterpart, align=align) for align in (True, False)}
        for name, align in ((MODULES, True), (UNALIGNED, False)):
            if align or aligned:
                own = systems.of_modules(modules, align=align)
                # Without an adapter of its own the pivot has one vector a text, aligned or not.
                across = align and "cla" in counterpart.present()
                comparison[name] = held_out.measure(own, counterparts[across], comparison[BASE])
        if held_out.text:
            # Of its own: encoding has left cutting and padding in the other one.
            _count_tokens(comparison, held_out.text, systems.base, modules)
    log_comparison(plan.lang, comparison)
    return comparison


def compare_model(data: Mapping[str, TrainingData], model: SentenceTransformer) -> dict[str, Comparison]:
    """The same for one model of all languages, which encodes both sides.

    Args:
        data: language → its data; of translations those are used that were read for training.
        model: the trained model, prompt included.

    Returns:
        Language → its comparison.
    """
    comparisons: dict[str, Comparison] = {}
    encode = partial(encode_texts, model)
    for lang, part in data.items():
        across = lang != part.plan.pivot
        held_out = HeldOut(
            sts=part.dev.sts,
            cross_sts=part.dev.cross_sts if across else (),
            # Not read for this alone: filtering millions of rows takes minutes.
            parallel=part.parallel.held_out if across and "parallel" in vars(part) else (),
        )
        if counts := held_out.counts():
            of_base = _Systems(part.plan).of_base
            base = held_out.measure(of_base, of_base)
            comparisons[lang] = {ROWS: counts, BASE: base, MODULES: held_out.measure(encode, encode, base)}
        logger.info(" %s", lang)
        log_comparison(lang, comparisons.get(lang, {}), modular=False)
    return comparisons


def _count_tokens(
    comparison: dict[str, dict[str, float]],
    texts: Sequence[str],
    base_model: BaseModel,
    modules: LanguageLayout,
) -> None:
    base = base_model.load_tokenizer()
    own = read_modules(modules, base_model.hidden_size).tokenizer or base
    for name, figures in comparison.items():
        if name != ROWS:
            figures[TOKENS] = round(tokens_per_sentence(base if name == BASE else own, texts), 2)


def log_comparison(lang: str, comparison: Comparison, *, modular: bool = True) -> None:
    """Say how modules compare with the base: a table, a warning where they lose, and what to try."""
    table = table_of(comparison)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        logger.info("  %s  %s", first.ljust(widths[0]), "  ".join(cells))
    if not shared_scores(comparison):
        logger.warning(
            "  %s: nothing could be compared with the base: no held-out pairs. Training may have made the "
            "language worse, unseen; name pairs with scores (data.dev.sts), and where it is aligned "
            "translations to set aside (data.parallel, data.dev.parallel_held_out)",
            lang,
        )
    elif loses(comparison):
        base, own = (mean_score(comparison, system) for system in (BASE, MODULES))
        logger.warning(
            "  %s: worse than the base alone on held-out data: mean %.1f, base %.1f. %s",
            lang, own, base, _what_to_try(comparison) if modular else "",
        )  # fmt: skip
    before, now = (comparison.get(system, {}).get(TOKENS) for system in (BASE, MODULES))
    if before is not None and now is not None and now > before * _TOLERATED_TOKENS:
        logger.warning(
            "  %s: its vocabulary cuts sentences into more tokens than the base's: %.1f, base %.1f. Try %s",
            lang, now, before, _ADVICE[TOKENS],
        )  # fmt: skip


def _what_to_try(comparison: Comparison) -> str:
    base, modules = comparison[BASE], comparison[MODULES]
    lost = [metric for metric in shared_scores(comparison) if modules[metric] < base[metric]]
    hints = [f"for {metric} {_ADVICE[metric]}" for metric in lost]
    alone = comparison.get(UNALIGNED, {}).get("sts")
    if alone is not None and "sts" in lost and alone >= base["sts"]:
        hints[lost.index("sts")] = (
            "for sts, which alignment lowers, a greater alignment.keep_weight, a smaller alignment.strength"
        )
    return f"Try {'; '.join(hints)}. Until then lang='base' gives the base's vectors"


def held_back(plan: LanguagePlan, comparison: Comparison) -> bool:
    """Whether ``run.publish`` keeps these modules out of the hub; a warning says so."""
    if plan.run.publish == "always" or not loses(comparison):
        return False
    old = plan.lang in Hub.open(plan.hub).languages()
    logger.warning(
        "  %s: not put into the hub %s (run.publish = 'unless_worse'); %s. The trained stages stay in %s: "
        "train again with better data or settings, or publish them as they are with run.publish=always",
        plan.lang,
        plan.hub,
        "the modules that are there stay" if old else "it has none of this language",
        plan.run.work_dir / plan.lang,
    )
    return True
