"""Trained modules are compared with the bare base and put into the hub, with a card about their training.

The comparison is on held-out data, which also chose the checkpoints: a narrow lead may be luck; a lower score
is not. Across languages, the base encodes both sentences of a pair; with modules, the pivot's sentence is
encoded by the pivot's modules. A language without alignment is compared only within itself.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from modenc.base_model import resolve_base
from modenc.composition.modules import read_modules
from modenc.hub.card import (
    BASE,
    MODULES,
    ROWS,
    SCORES,
    TOKENS,
    UNALIGNED,
    Card,
    Comparison,
    file_records,
    is_worse_than_base,
    mean_score,
    shared_scores,
    table_of,
)
from modenc.hub.layout import README_FILE, parts_in
from modenc.hub.store import Hub
from modenc.languages import language_name
from modenc.recipe.plan import Recipe, may_read
from modenc.recipe.settings import FRESH
from modenc.training.body_module import Encode, encoder_of
from modenc.training.data_access import TrainingData
from modenc.training.dev import DevEvaluator
from modenc.training.stage import Stage
from modenc.training.tokenizers import tokens_per_sentence

logger = logging.getLogger(__name__)

_CAN_START = ("sentence_encoding", "alignment")
"""Stages that can start from another language's adapter."""
_PACKAGES = ("modenc", "torch", "transformers", "sentence-transformers", "peft", "adapters", "deepfocus")


def publish_language(
    recipe: Recipe,
    hub: Hub,
    stage: Stage,
    finished: dict[str, dict[str, Any]],
    *,
    pivot: Path | None = None,
) -> Path:
    """Compare a language's modules with the base and put them into the hub, unless it has them already.

    Args:
        recipe: the recipe.
        hub: the hub.
        stage: the language's last stage, which is done.
        finished: stage → its entry in the card.
        pivot: the pivot's modules that these were trained with, by default those in the hub.

    Returns:
        The language's folder in the hub.
    """
    plan = stage.plan
    old = hub.card(plan.lang) if plan.lang in hub.languages() else None
    sources = _sources(hub, stage, finished)
    if old is not None:
        # A training by force has the same fingerprints, and may have been killed before this.
        published = {name: record for name, record in old.files.items() if name != README_FILE}
        new = finished, sources, file_records(stage.modules)
        if (old.stages, old.data, published) == new:
            log_comparison(plan.lang, old.comparison)
            return hub.path / plan.lang
    card = Card(
        lang=plan.lang,
        name=language_name(plan.lang),
        base_id=hub.info.base_id,
        base_fingerprint=hub.info.base_fingerprint,
        stages=finished,
        data=sources,
        licenses=sorted({source["license"] for source in sources if source["license"]}),
        recipe=recipe.name,
        recipe_hash=hashlib.sha256(recipe.text.encode()).hexdigest(),
        seed=plan.run.seed,
        versions={package: version(package) for package in _PACKAGES},
        files={},
        created=datetime.now(UTC).date().isoformat(),
        comparison=compare_with_base(stage.data, stage.modules, pivot),
    )
    hub.publish(stage.modules, card)
    logger.info(" in the hub: %s", hub.folder(plan.lang))
    return hub.path / plan.lang


def _sources(hub: Hub, stage: Stage, stages: Collection[str]) -> list[dict[str, Any]]:
    sources = {
        (source["role"], source["source"]): source
        for name in stages
        for rows in stage.data.used_by(name)
        for source in rows.sources
    }
    for name in _CAN_START:
        start = getattr(stage.plan, name).start
        if name in stages and start != FRESH and not stage.plan.skips(name):
            # The adapter comes with its own sources, here all that its language has of such kinds.
            kinds, entries = may_read(name), hub.card(start).data
            copied = {(entry["role"], entry["source"]): entry for entry in entries if entry["role"] in kinds}
            sources = copied | sources
    return list(sources.values())


def measure(held_out: DevEvaluator, own: Encode, pivot: Encode) -> dict[str, float]:
    """Measure each metric of a comparison; one that is not a number is left out.

    ``own`` encodes the language's texts as unit vectors [texts, hidden], ``pivot`` the pivot's.
    """
    scores = replace(held_out, pivot=pivot).measure(own)
    return {
        metric: round(scores[metric], 2) for metric in SCORES if math.isfinite(scores.get(metric, math.nan))
    }


def compare_with_base(
    data: TrainingData, modules: Path, pivot: Path | None = None
) -> dict[str, dict[str, float]]:
    """Compare modules, as they will be published, with the base; log the result.

    ``pivot`` are the pivot's modules, by default those in the recipe's hub. Returns a card's ``comparison``,
    empty where nothing is held out.

    Raises:
        DataError: held-out data cannot be read.
        HubError: the pivot's modules are needed and not in the hub.
    """
    plan, present = data.plan, parts_in(modules)
    aligned = "cla" in present
    across = aligned and plan.lang != plan.pivot
    held_out = DevEvaluator(
        sts=[data.sts],
        search=data.search,
        cross_sts=data.cross_sts if across else (),
        cross_search=data.cross_search if across else (),
        parallel=data.parallel.held_out if across else (),
    )
    texts = data.text.held_out if "tokenizer" in present and plan.data.text else []
    rows: dict[str, Sequence[object]] = {
        "sts": data.sts,
        "search": data.search,
        "cross_sts": held_out.cross_sts,
        "cross_search": held_out.cross_search,
        "retrieval": held_out.parallel,
        TOKENS: texts,
    }
    counts: dict[str, float] = {metric: len(found) for metric, found in rows.items() if found}
    comparison: dict[str, dict[str, float]] = {}
    if counts:
        base_model, length = resolve_base(plan.base.model), plan.base.max_length
        encode_base = encoder_of(base_model, plan, length)
        base = measure(held_out, encode_base, encode_base)
        comparison = {ROWS: counts, BASE: base}
        counterpart = (pivot or Hub.open(plan.hub).version_folder(plan.pivot)) if aligned else modules
        counterparts = {
            align: encoder_of(base_model, plan, length, counterpart, align=align) for align in (True, False)
        }
        for name, align in {MODULES: True, **({UNALIGNED: False} if aligned else {})}.items():
            own = encoder_of(base_model, plan, length, modules, align=align)
            # Without a CLA of its own, the pivot has the same vectors with and without alignment.
            encode_pivot = counterparts[align and "cla" in parts_in(counterpart)]
            comparison[name] = measure(held_out, own, encode_pivot)
        if texts:
            tokenizer = base_model.load_tokenizer()
            own_tokenizer = read_modules(modules, base_model.hidden_size).tokenizer or tokenizer
            for name in comparison.keys() - {ROWS}:
                tokens = tokens_per_sentence(tokenizer if name == BASE else own_tokenizer, texts)
                comparison[name][TOKENS] = round(tokens, 2)
    log_comparison(plan.lang, comparison)
    return comparison


def log_comparison(lang: str, comparison: Comparison) -> None:
    """Log how modules compare with the base: a table, and a warning where they lose."""
    table = table_of(comparison)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        logger.info("  %s  %s", first.ljust(widths[0]), "  ".join(cells))
    if not shared_scores(comparison):
        logger.warning("  %s: nothing could be compared with the base: no held-out pairs (data.dev)", lang)
    elif is_worse_than_base(comparison):
        logger.warning(
            "  %s: worse than the base alone on held-out data: mean %.1f, base %.1f",
            lang, mean_score(comparison, MODULES), mean_score(comparison, BASE),
        )  # fmt: skip
