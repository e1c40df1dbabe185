"""Average the alignment of languages with that of another hub, weight by weight.

``python adapters_hub/average.py RECIPE OTHER_HUB SHARE LANG [LANG ...] [section.key=value ...]`` publishes
each language in the recipe's hub again with ``(1 - SHARE) * own + SHARE * other``, as "model soups" are made
(Wortsman et al., 2022), and compares it with the base on the recipe's development sets. Both trainings must
have started from one initialization (one seed, one ``reduction_factor``), and have one sentence encoding.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import load_file, save_file

from modenc.errors import HubError, ModencError
from modenc.hub.layout import README_FILE
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.plan import Recipe
from modenc.training.data_access import TrainingData
from modenc.training.publishing import compare_with_base

_WEIGHTS = Path("cla", "adapter.safetensors")


def average(recipe: Recipe, other: Hub, share: float, langs: Sequence[str]) -> None:
    """Publish the languages in the recipe's hub with averaged alignment; ``share`` is the other hub's.

    Raises:
        ModencError: a hub lacks a language or its alignment, or the weights differ in names or shapes; the
            languages before it are published.
    """
    hub = Hub.open(recipe.hub)
    for lang in langs:
        card, others = hub.card(lang), other.card(lang)
        with TemporaryDirectory() as folder:
            modules = Path(folder, "modules")
            shutil.copytree(hub.version_folder(lang), modules, ignore=shutil.ignore_patterns(README_FILE))
            averaged = _average(modules / _WEIGHTS, other.version_folder(lang) / _WEIGHTS, share)
            save_file(averaged, modules / _WEIGHTS)
            sources = {(entry["role"], entry["source"]): entry for entry in (*others.data, *card.data)}
            stage = card.stages["alignment"]
            metrics = {**stage["metrics"], "averaged_with": {"version": others.version, "share": share}}
            made = replace(
                card,
                stages={**card.stages, "alignment": {**stage, "metrics": metrics}},
                data=list(sources.values()),
                licenses=sorted({*card.licenses, *others.licenses}),
                comparison=compare_with_base(TrainingData(recipe.plans[lang]), modules),
            )
            hub.publish(modules, made)


def _average(path: Path, other: Path, share: float) -> dict[str, torch.Tensor]:
    for file in (path, other):
        if not file.is_file():
            raise HubError(
                f"{file}: expected a language's alignment, found none; average languages that have one"
            )
    own, others = load_file(path), load_file(other)
    if {name: tensor.shape for name, tensor in own.items()} != {
        name: tensor.shape for name, tensor in others.items()
    }:
        raise HubError(f"{other}: expected tensors of the names and shapes of {path}, found others")
    return {
        name: torch.lerp(tensor.float(), others[name].float(), share).to(tensor.dtype)
        for name, tensor in own.items()
    }


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    settings = [word for word in sys.argv[4:] if "=" in word]
    langs = [word for word in sys.argv[4:] if "=" not in word]
    try:
        average(load_recipe(sys.argv[1], settings), Hub.open(sys.argv[2]), float(sys.argv[3]), langs)
    except ModencError as error:
        sys.exit(f"{error}")
