"""``evaluate``: measure encoders on a suite of test sets."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from sentence_transformers import SentenceTransformer

from modenc.encoder import ModularEncoder
from modenc.errors import DataError
from modenc.evaluation.results import SystemResults, markdown, save_results
from modenc.evaluation.runner import run_suite
from modenc.evaluation.suite import Suite, check_files, load_suite
from modenc.evaluation.systems import ModularSystem, SentenceTransformerSystem, System, open_model
from modenc.hub.layout import HUB_FILE

logger = logging.getLogger(__name__)

TABLES = "tables.md"
SystemLike: TypeAlias = System | SentenceTransformer | str | Path
"""Anything that :func:`open_system` takes."""


def evaluate(
    systems: SystemLike | Iterable[SystemLike],
    suite: Suite | str | Path,
    data: str | Path,
    *,
    seed: int = 13,
    output: str | Path | None = None,
) -> list[SystemResults]:
    """Measure encoders on the same test sets, with 95 % bootstrap intervals.

    Args:
        systems: what to evaluate, one or several, each of them a hub's folder, a
            :class:`~modenc.ModularEncoder` (``ModularEncoder(id)`` for a hub on Hugging Face), any
            ``SentenceTransformer`` or its name, or a :class:`~modenc.evaluation.systems.System`, for settings
            such as ``align=False``. The others are compared with the first.
        suite: a shipped suite's name, a TOML file, or a :class:`~modenc.evaluation.suite.Suite`.
        data: folder that the suite's paths start from.
        seed: seed of resampling and of classifiers.
        output: folder for ``NAME/results.json`` and ``tables.md``; by default nothing is written.

    Returns:
        Each system's results, in order. ``results.find("task.metric.en-kk")`` looks one metric up, and
        :func:`modenc.evaluation.results.markdown` makes tables of all.

    Raises:
        RecipeError: there is no such suite, or it has errors.
        DataError: test files are missing or cannot be read, or two of ``systems`` have the same name.
        HubError: a hub cannot be opened.
        BaseModelError: a model cannot be loaded.

    Examples:
        >>> from modenc import evaluate
        >>> [base, hub] = evaluate(["me5-small", "adapters_hub/me5-small"], "my_suite.toml", "data")
        >>> gain = hub.find("sts.spearman.kk").value - base.find("sts.spearman.kk").value
    """
    suite, root = suite if isinstance(suite, Suite) else load_suite(suite), Path(data)
    if not root.is_dir():
        raise DataError(f"data {root}: expected the folder of the suite's files, found none; name another")
    check_files(suite, root)
    if isinstance(systems, str | SentenceTransformer) or not isinstance(systems, Iterable):
        systems = [systems]
    opened = [open_system(model) for model in systems]
    names = [system.name for system in opened]
    if len(set(names)) < len(names):
        raise DataError(f"expected systems with different names, found {', '.join(names)}; rename a folder")
    measured = []
    for system in opened:
        results = run_suite(system, suite, root, seed=seed)
        if output is not None:
            save_results(results, Path(output) / system.name)
        measured.append(results)
    if output is not None:
        (Path(output) / TABLES).write_text(markdown(measured), encoding="utf-8")
    return measured


def open_system(model: SystemLike) -> System:
    """Open ``model`` for evaluation; a hub is used with each language's modules, aligned.

    A string is a hub's folder or a model's name. For a hub on Hugging Face give ``ModularEncoder(id)``.

    Raises:
        HubError: a hub cannot be opened.
        BaseModelError: a model cannot be loaded.
    """
    if isinstance(model, str | Path):
        is_hub = os.path.isfile(os.path.join(model, HUB_FILE))
        model = ModularEncoder(model) if is_hub else open_model(str(model))
    if isinstance(model, ModularEncoder):
        return ModularSystem(model)
    if isinstance(model, SentenceTransformer):
        return SentenceTransformerSystem(model.model_card_data.base_model or "model", model)
    return model
