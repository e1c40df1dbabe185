"""Comparison of trained modules with the bare base, on the same held-out data.

The same data chose the checkpoints, so a narrow lead may be luck; a lower score is not. Across languages, the
base encodes both sentences of a pair; with modules, the pivot's sentence is encoded by the pivot's modules. A
language without alignment is compared only within itself.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

from sentence_transformers import SentenceTransformer
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import resolve_base
from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.data.pairs import ParallelRow, ScoredRow, SearchRow
from modenc.evaluation.retrieval import Vectors, mean_accuracy_at_1
from modenc.hub.card import (
    BASE,
    MODULES,
    ROWS,
    SCORES,
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
from modenc.training.adapters_io import pack_frozen
from modenc.training.body_module import cached_vectors, encode_texts, sentence_model, vectors_file
from modenc.training.data_access import TrainingData
from modenc.training.dev import Encode, scores_correlation, search_score
from modenc.training.tokenizers import tokens_per_sentence

logger = logging.getLogger(__name__)

# A factor on the base's number of tokens; a language's own vocabulary should need fewer.
_TOLERATED_TOKENS = 1.05
_ADVICE = {
    "sts": "more data.paraphrases, or a start from a related language (sentence_encoding.start)",
    "search": "a smaller sentence_encoding.optimizer.learning_rate, or a greater alignment.keep_weight",
    "cross_sts": "cleaner translations or more of them, or a greater alignment.keep_weight",
    "retrieval": "cleaner translations or more of them, or more alignment.optimizer.steps",
}


@dataclass(frozen=True)
class ComparisonRows:
    """Held-out rows that modules and base are compared on; empty fields are left out."""

    sts: Sequence[ScoredRow] = ()
    """Sentence pairs of the language with gold scores."""
    search: Sequence[SearchRow] = ()
    """Queries of the language with the passages that answer them."""
    cross_sts: Sequence[ScoredRow] = ()
    """Scored pairs whose first sentence is in the pivot language."""
    parallel: Sequence[ParallelRow] = ()
    """Held-out translations."""
    text: Sequence[str] = ()
    """Held-out running text, for a language with a vocabulary of its own."""

    @classmethod
    def of(cls, data: TrainingData, modules: LanguageLayout) -> ComparisonRows:
        """Collect a language's held-out data, as far as its modules have a use for them."""
        plan, present = data.plan, modules.present()
        across = "cla" in present and plan.lang != plan.pivot
        return cls(
            sts=data.dev.sts,
            search=data.dev.search,
            cross_sts=data.dev.cross_sts if across else (),
            parallel=data.held_out_translations() if across else (),
            text=data.text.held_out if "tokenizer" in present and plan.data.text else (),
        )

    def counts(self) -> dict[str, float]:
        """Count the rows that each metric is measured on."""
        rows = (self.sts, self.search, self.cross_sts, self.parallel, self.text)
        return {metric: len(found) for metric, found in zip((*SCORES, TOKENS), rows, strict=True) if found}

    def measure(
        self, own: Encode, pivot: Encode, base: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """Measure each metric, always a finite number.

        Args:
            own: encodes the language's texts as unit vectors [texts, hidden].
            pivot: encodes the pivot's texts likewise.
            base: the base's values, where modules are measured. A metric without a number for the base is
                left out; one without a number for the modules alone (equal vectors, NaN) is the worst value.
        """
        scores = {}
        if self.sts:
            scores["sts"] = scores_correlation(own, own, self.sts)
        if self.search:
            scores["search"] = search_score(own, self.search)
        if self.cross_sts:
            scores["cross_sts"] = scores_correlation(pivot, own, self.cross_sts)
        if self.parallel:
            counterparts = pivot([row.pivot for row in self.parallel])
            scores["retrieval"] = mean_accuracy_at_1(counterparts, own([row.text for row in self.parallel]))
        if base is None:
            # Constant gold scores have no correlation.
            return {metric: round(value, 2) for metric, value in scores.items() if math.isfinite(value)}
        for metric in (metric for metric in base if not math.isfinite(scores[metric])):
            logger.warning(
                "  %s: not a number with the modules, whose vectors are all equal or not finite; it counts "
                "as %.0f. Try a smaller learning rate",
                metric, WORST[metric],
            )  # fmt: skip
            scores[metric] = WORST[metric]
        return {metric: round(scores[metric], 2) for metric in base}


class _Encoders:
    """The base, and modules on it, as functions from texts to vectors."""

    def __init__(self, plan: LanguagePlan) -> None:
        self.plan = plan
        self.base = resolve_base(plan.base.model)

    @cached_property
    def body(self) -> PreTrainedModel:
        return self.base.load_body()

    @cached_property
    def base_model(self) -> SentenceTransformer:
        return self._model(self.base.load_body(), self.base.load_tokenizer())

    def of_base(self, texts: list[str]) -> Vectors:
        """Encode with the base; the vectors are cached on disk, since no training changes them."""
        path = vectors_file(self.base, self.plan, BASE, *texts)
        return cached_vectors(path, len(texts), lambda: encode_texts(self.base_model, texts))

    def of_modules(self, layout: LanguageLayout, *, align: bool) -> Encode:
        """Return a function that encodes with a language's modules, which its first call reads."""

        @cache
        def model() -> SentenceTransformer:
            modules = read_modules(layout, self.base.hidden_size)
            body = compose(self.body, modules, align=align)
            return self._model(body, modules.tokenizer or self.base.load_tokenizer())

        @cache
        def encoded(texts: tuple[str, ...]) -> Vectors:
            return encode_texts(model(), list(texts))

        return lambda texts: encoded(tuple(texts))

    def _model(self, body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> SentenceTransformer:
        body.requires_grad_(False)
        pack_frozen(body)
        return sentence_model(body, tokenizer, self.plan, self.plan.base.max_length)


def compare_with_base(
    data: TrainingData, modules: LanguageLayout, pivot: LanguageLayout | None = None
) -> dict[str, dict[str, float]]:
    """Compare modules, as they will be published, with the base; log the result, with advice.

    ``pivot`` are the pivot's modules, by default those in the recipe's hub. Returns a card's ``comparison``,
    empty where nothing is held out. Only one process may call it.

    Raises:
        DataError: held-out data cannot be read.
        HubError: the pivot's modules are needed and not in the hub.
    """
    plan, held_out = data.plan, ComparisonRows.of(data, modules)
    comparison: dict[str, dict[str, float]] = {}
    if counts := held_out.counts():
        encoders, aligned = _Encoders(plan), "cla" in modules.present()
        base = held_out.measure(encoders.of_base, encoders.of_base)
        comparison = {ROWS: counts, BASE: base}
        counterpart = (pivot or Hub.open(plan.hub).layout(plan.pivot)) if aligned else modules
        counterparts = {align: encoders.of_modules(counterpart, align=align) for align in (True, False)}
        for name, align in {MODULES: True, **({UNALIGNED: False} if aligned else {})}.items():
            own = encoders.of_modules(modules, align=align)
            # Without a CLA of its own, the pivot has the same vectors with and without alignment.
            across = counterparts[align and "cla" in counterpart.present()]
            comparison[name] = held_out.measure(own, across, base)
        if held_out.text:
            tokenizer = encoders.base.load_tokenizer()
            own_tokenizer = read_modules(modules, encoders.base.hidden_size).tokenizer or tokenizer
            for name in comparison.keys() - {ROWS}:
                tokens = tokens_per_sentence(tokenizer if name == BASE else own_tokenizer, held_out.text)
                comparison[name][TOKENS] = round(tokens, 2)
    log_comparison(plan.lang, comparison)
    return comparison


def compare_model(data: Mapping[str, TrainingData], model: SentenceTransformer) -> dict[str, Comparison]:
    """Compare one model of all languages with the base: language → its ``comparison``."""
    comparisons: dict[str, Comparison] = {}
    encode = partial(encode_texts, model)
    for lang, own in data.items():
        across = lang != own.plan.pivot
        held_out = ComparisonRows(
            sts=own.dev.sts,
            search=own.dev.search,
            cross_sts=own.dev.cross_sts if across else (),
            # Only what was read for training: filtering millions of rows takes minutes.
            parallel=own.parallel.held_out if across and "parallel" in vars(own) else (),
        )
        if counts := held_out.counts():
            of_base = _Encoders(own.plan).of_base
            base = held_out.measure(of_base, of_base)
            comparisons[lang] = {ROWS: counts, BASE: base, MODULES: held_out.measure(encode, encode, base)}
        logger.info(" %s", lang)
        log_comparison(lang, comparisons.get(lang, {}), modular=False)
    return comparisons


def log_comparison(lang: str, comparison: Comparison, *, modular: bool = True) -> None:
    """Log how modules compare with the base: a table, a warning where they lose, and what to try."""
    table = table_of(comparison)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        logger.info("  %s  %s", first.ljust(widths[0]), "  ".join(cells))
    base, own = (comparison.get(system, {}) for system in (BASE, MODULES))
    shared = shared_scores(comparison)
    if not shared:
        logger.warning(
            "  %s: nothing could be compared with the base: no held-out pairs. Training may have made the "
            "language worse unnoticed; give pairs with scores (data.dev.sts), and where it is aligned "
            "translations to set aside (data.parallel, data.dev.parallel_held_out)",
            lang,
        )
    elif loses(comparison):
        hints = [f"for {name} {_ADVICE[name]}" for name in shared if own[name] < base[name]]
        advice = f"Try {'; '.join(hints)}. Until then lang='base' gives the base's vectors" if modular else ""
        logger.warning(
            "  %s: worse than the base alone on held-out data: mean %.1f, base %.1f. %s",
            lang, mean_score(comparison, MODULES), mean_score(comparison, BASE), advice,
        )  # fmt: skip
    if TOKENS in base and own.get(TOKENS, 0) > base[TOKENS] * _TOLERATED_TOKENS:
        logger.warning(
            "  %s: its vocabulary cuts sentences into more tokens than the base's: %.1f, base %.1f. Try "
            "vocabulary.method = 'base' or 'trim', more running text, or a greater vocabulary.size",
            lang, own[TOKENS], base[TOKENS],
        )  # fmt: skip
