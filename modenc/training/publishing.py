"""Trained modules are compared with the bare base and put into the hub, with a card about their training.

The comparison is on held-out data, which also chose the checkpoints: a narrow lead may be luck; a lower score
is not. Across languages, the base encodes both sentences of a pair; with modules, the pivot's sentence is
encoded by the pivot's modules. A language without alignment is compared only within itself.
"""

from __future__ import annotations

import hashlib
import logging
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import BaseModel, resolve_base
from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.data.kinds import ParallelRow, ScoredRow, SearchRow
from modenc.evaluation.retrieval import Vectors, mean_accuracy_at_1
from modenc.hub.card import (
    BASE,
    MODULES,
    ROWS,
    SCORES,
    TOKENS,
    UNALIGNED,
    WORST,
    Card,
    Comparison,
    is_worse_than_base,
    mean_score,
    shared_scores,
    table_of,
)
from modenc.hub.files import files_below, sha256
from modenc.hub.layout import README_FILE, HubInfo, LanguageLayout
from modenc.hub.store import Hub
from modenc.languages import language_name
from modenc.recipe.settings import FRESH, STAGES, LanguagePlan, Recipe
from modenc.training.adapters_io import pack_frozen
from modenc.training.body_module import cached_vectors, encode_texts, sentence_model, vectors_file
from modenc.training.data_access import TrainingData
from modenc.training.dev import Encode, scores_correlation, search_score
from modenc.training.processes import broadcast_from_main, process_state
from modenc.training.stage import Stage, StageRecord
from modenc.training.tokenizers import tokens_per_sentence

logger = logging.getLogger(__name__)

_KINDS_OF_ENCODING = ("text", "paraphrases", "scored_pairs", "passages")
_PACKAGES = ("modenc", "torch", "transformers", "sentence-transformers", "peft", "adapters", "deepfocus")


@dataclass(frozen=True)
class TrainedLanguage:
    """A language's modules after its last finished stage."""

    stage: Stage
    """The last finished stage."""
    records: Mapping[str, StageRecord]
    """Stage → its record, for the stages that are done."""
    changed: bool
    """Whether a stage was trained now."""
    early: bool = False
    """Whether the hub gets it though its alignment is left, since a language before that starts from it."""

    def left(self) -> list[str]:
        """List the stages that are still to be trained."""
        return [name for name in STAGES if name not in self.records and not self.stage.plan.skips(name)]


def publish_language(
    recipe: Recipe, hub: Hub, trained: TrainedLanguage, pivot: LanguageLayout | None = None
) -> Path | None:
    """Compare modules with the base and put them into the hub, unless it has them already.

    While stages are left, the hub keeps what it has. ``pivot`` are the pivot's modules that they were trained
    with, by default those in the hub. All processes wait for the main one, since the next language may need
    these modules.

    Returns:
        The language's folder in the hub, in the work folder while stages are left, None where
        ``run.publish`` keeps the modules out.
    """
    lang, published = trained.stage.plan.lang, True
    if trained.left() and not trained.early and broadcast_from_main(_waits(recipe, hub, trained)):
        return trained.stage.modules.root
    if process_state().is_main_process:
        card = hub.card(lang) if lang in hub.languages() else None
        sources = _sources(hub, trained)
        if card is None or trained.changed or _is_outdated(card, trained, sources):
            comparison = compare_with_base(trained.stage.data, trained.stage.modules, pivot)
            published = trained.stage.plan.run.publish == "always" or not is_worse_than_base(comparison)
            if published:
                _publish(recipe, hub, trained, sources, comparison)
            else:
                kept = "it has none of this language" if card is None else "the modules that are there stay"
                logger.warning(
                    "  %s: not put into the hub %s (run.publish = 'unless_worse'); %s. The trained stages "
                    "stay in %s: train again with better data or settings, or publish them as they are with "
                    "run.publish=always",
                    lang, hub.path, kept, trained.stage.plan.run.work_dir / lang,
                )  # fmt: skip
        elif card.comparison:
            log_comparison(lang, card.comparison)
    return hub.path / lang if broadcast_from_main(published) else None


def _waits(recipe: Recipe, hub: Hub, trained: TrainedLanguage) -> bool:
    """Check whether the hub gets an unfinished language only when it is finished, and say so.

    If another language starts from its adapter, a hub without alignment of it gets it at once, since the
    other may have to be trained before this one's alignment.
    """
    lang, left = trained.stage.plan.lang, trained.left()
    card = hub.card(lang) if lang in hub.languages() else None
    is_start = any(plan.sentence_encoding.start == lang for plan in recipe.plans.values())
    is_early = card is None or card.stages.keys() == set(STAGES[:-1])
    if is_start and is_early and "sentence_encoding" in trained.records:
        return False
    news = card is None or trained.changed or _is_outdated(card, trained, [])
    if news and process_state().is_main_process:
        kept = "not in the hub" if card is None else "the hub keeps its modules"
        done = f"{', '.join(left)} {'is' if len(left) == 1 else 'are'} done"
        logger.warning("%s: %s until %s", lang, kept, done)
    return True


def _is_outdated(card: Card, trained: TrainedLanguage, sources: list[dict[str, Any]]) -> bool:
    """Check whether a card is of other modules, or says something else about their data."""
    there = {name: card.stages.get(name, {}).get("fingerprint") for name in trained.records}
    if there != {name: record.fingerprint for name, record in trained.records.items()}:
        return True
    # A training by force has the same fingerprints, and may have been killed before this.
    found = {name: sha256(path) for name, path in files_below(trained.stage.modules.root)}
    published = {name: record["sha256"] for name, record in card.files.items() if name != README_FILE}
    if trained.left():
        return not found.items() <= published.items()
    return found != published or card.data != sources


def _publish(
    recipe: Recipe,
    hub: Hub,
    trained: TrainedLanguage,
    sources: list[dict[str, Any]],
    comparison: dict[str, dict[str, float]],
) -> None:
    plan = trained.stage.plan
    card = Card(
        lang=plan.lang,
        name=language_name(plan.lang),
        base_id=hub.info.base_id,
        base_fingerprint=hub.info.base_fingerprint,
        stages={name: vars(record) for name, record in trained.records.items()},
        data=sources,
        licenses=sorted({source["license"] for source in sources if source["license"]}),
        scores=_scores(trained.records),
        recipe=recipe.name,
        recipe_hash=hashlib.sha256(recipe.text.encode()).hexdigest(),
        seed=plan.run.seed,
        versions={package: version(package) for package in _PACKAGES},
        files={},
        created=datetime.now(UTC).date().isoformat(),
        comparison=comparison,
    )
    with hub.staging(plan.lang) as staging:
        # Contents without permissions: safetensors writes files that only their owner may read.
        shutil.copytree(
            trained.stage.modules.root, staging, dirs_exist_ok=True, copy_function=shutil.copyfile
        )
        hub.publish(staging, card)
    logger.info(" in the hub: %s", hub.folder(plan.lang))


def _sources(hub: Hub, trained: TrainedLanguage) -> list[dict[str, Any]]:
    sources = {
        (source.role, source.source): vars(source)
        for name in trained.records
        for rows in trained.stage.data.used_by(name)
        for source in rows.sources
    }
    start = trained.stage.plan.sentence_encoding.start
    if "sentence_encoding" in trained.records and start != FRESH:
        # The copied adapter comes with its own sources, here all that its language has of such kinds.
        copied = {
            (entry["role"], entry["source"]): entry
            for entry in hub.card(start).data
            if entry["role"] in _KINDS_OF_ENCODING
        }
        sources = copied | sources
    return list(sources.values())


def _scores(records: Mapping[str, StageRecord]) -> dict[str, float]:
    return {
        f"{name}_{when}_{metric}": round(float(value), 2)
        for name, record in records.items()
        for when in ("dev_before", "dev_after")
        for metric, value in record.metrics.get(when, {}).items()
        if math.isfinite(value)
    }


def prepare_hub(recipe: Recipe, plans: Sequence[LanguagePlan], base: BaseModel) -> Hub:
    """Open or create the recipe's hub, and copy missing languages into it from ``hub.start_from``.

    The pivot and the languages that others start from are copied where ``plans`` do not train them
    and the hub lacks them.

    Raises:
        HubError: a hub is for another base, prompt or pooling, or ``hub.start_from`` lacks a language.
        StorageError: the disk is full or read-only.
    """
    plan = plans[0]
    info = HubInfo(
        base_id=base.id,
        base_fingerprint=base.fingerprint,
        hidden_size=base.hidden_size,
        pivot=plan.pivot,
        pooling=plan.base.pooling,
        prompt=plan.base.prompt,
        max_length=plan.base.max_length,
    )
    needed = {lang for plan in plans for lang in (plan.pivot, *plan.builds_on())}
    needed -= {FRESH, *(plan.lang for plan in plans)}
    with process_state().main_process_first():
        if recipe.start_from is not None:
            there = Hub.open(recipe.hub) if (recipe.hub / "hub.json").is_file() else None
            missing = needed - set(there.languages() if there else ())
            if missing:
                source = Hub.open(recipe.start_from)
                hub = there or Hub.create(recipe.hub, replace(source.info, pivot=recipe.pivot))
                for lang in sorted(missing):
                    hub.install(source.path, lang)
                    logger.info("%s: copied from %s", lang, recipe.start_from)
        return Hub.create(recipe.hub, info)


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
    elif is_worse_than_base(comparison):
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
