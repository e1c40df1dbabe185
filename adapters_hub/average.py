"""Average the alignment of languages with that of another hub, weight by weight.

``python adapters_hub/average.py RECIPE OTHER_HUB SHARE LANG [LANG ...] [section.key=value ...]`` publishes
each language in the recipe's hub again with ``(1 - SHARE) * own + SHARE * other``, as "model soups" are made
(Wortsman et al., 2022), and compares it with the base on the recipe's development sets. Both trainings must
have started from one initialization, and have the same modules but for the alignment. ``modenc train`` with
this hub publishes what it trained, without the average.
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
from modenc.hub.card import AVERAGED, Card
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
        ModencError: a language is not in the recipe or in both hubs, is averaged already, or its trainings
            cannot be averaged; nothing is published.
    """
    hub = Hub.open(recipe.hub)
    for lang in langs:
        if lang not in recipe.plans:
            raise HubError(f"{lang}: expected a language of the recipe, found none; name its recipe")
        _check(hub.card(lang), other.card(lang))
    for lang in langs:
        card, others = hub.card(lang), other.card(lang)
        with TemporaryDirectory() as folder:
            modules = Path(folder, "modules")
            shutil.copytree(hub.version_folder(lang), modules, ignore=shutil.ignore_patterns(README_FILE))
            averaged = _average(modules / _WEIGHTS, other.version_folder(lang) / _WEIGHTS, share)
            save_file(averaged, modules / _WEIGHTS)
            sources = {(entry["role"], entry["source"]): entry for entry in (*others.data, *card.data)}
            stage = card.stages["alignment"]
            metrics = {**stage["metrics"], AVERAGED: {"version": others.version, "share": share}}
            made = replace(
                card,
                stages={**card.stages, "alignment": {**stage, "metrics": metrics}},
                data=list(sources.values()),
                licenses=sorted({entry["license"] for entry in sources.values() if entry["license"]}),
                comparison=compare_with_base(TrainingData(recipe.plans[lang]), modules),
            )
            hub.publish(modules, made)


def _check(card: Card, other: Card) -> None:
    """Raise HubError if two trainings of a language cannot be averaged, or have been."""
    if not ("cla" in card.parts and "cla" in other.parts):
        raise HubError(f"{card.lang}: expected alignment in both hubs; average languages that have it")
    if AVERAGED in card.stages["alignment"]["metrics"]:
        raise HubError(f"{card.lang}: its alignment is an average already; train or install it again first")
    for what in ("base_fingerprint", "seed"):
        if getattr(card, what) != getattr(other, what):
            raise HubError(f"{card.lang}: expected trainings of one {what}, found two")
    # The configuration holds the adapter's size.
    for part in ("tokenizer", "embeddings", "la", "se", "cla/adapter_config.json"):
        if card.fingerprint(part) != other.fingerprint(part):
            raise HubError(f"{card.lang}: expected the same {part} in both hubs, found two")


def _average(path: Path, other: Path, share: float) -> dict[str, torch.Tensor]:
    own, others = load_file(path), load_file(other)
    return {
        name: torch.lerp(tensor.float(), others[name].float(), share).to(tensor.dtype)
        for name, tensor in own.items()
    }


if __name__ == "__main__":
    settings = [word for word in sys.argv[4:] if "=" in word]
    langs = [word for word in sys.argv[4:] if "=" not in word]
    if not langs:
        sys.exit(__doc__)
    try:
        average(load_recipe(sys.argv[1], settings), Hub.open(sys.argv[2]), float(sys.argv[3]), langs)
    except (ModencError, ValueError) as error:
        sys.exit(f"{error}")
