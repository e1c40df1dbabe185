"""Comparison of modules with the bare base after a training."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_all_pairs import ALL_PAIRS
from tiny_models import sentences
from trainings import NO_DEV

from modenc import ModularEncoder
from modenc.evaluation.retrieval import mean_accuracy_at_1
from modenc.evaluation.sts import spearman
from modenc.hub.card import is_worse_than_base
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.training import publishing
from modenc.training.data_access import TrainingData
from modenc.training.dev import DevEvaluator
from modenc.training.pipeline import train
from modenc.training.publishing import compare_with_base, measure


def test_the_card_has_the_base_on_the_same_held_out_data(trained):
    hub = Hub.open(trained.parent / "hub")
    kazakh, english = hub.card("kk").comparison, hub.card("en").comparison
    assert kazakh["rows"] == {"sts": 20, "retrieval": 20, "tokens": 20}
    for system in ("base", "modules", "align=False"):
        assert kazakh[system].keys() == {"sts", "retrieval", "tokens"}
    assert set(english) == {"rows", "base", "modules"}
    assert english["base"].keys() == {"sts", "tokens"}
    readme = (hub.version_folder("kk") / "README.md").read_text()
    assert "| held-out data | rows | base | modules | align=False |" in readme


def test_the_figures_are_those_of_the_hub(trained, tmp_path):
    plan = load_recipe(trained, ["run.precision=fp32", f"run.work_dir={tmp_path}"]).plans["kk"]
    data, hub = TrainingData(plan), Hub.open(plan.hub)
    found = compare_with_base(data, hub.version_folder("kk"))
    encoder = ModularEncoder(hub.path)
    rows, pairs = data.sts, data.parallel.held_out
    for system, own, pivot, align in (
        ("base", "base", "base", True),
        ("modules", "kk", "en", True),
        ("align=False", "kk", "en", False),
    ):
        left, right = (encoder.encode([row[side] for row in rows], lang=own, align=align) for side in (0, 1))
        # Two of twenty pairs may change places by rounding.
        right_one = spearman(left, right, [row[2] for row in rows])
        assert found[system]["sts"] == pytest.approx(right_one, abs=0.5)
        left = encoder.encode([row.pivot for row in pairs], lang=pivot, align=align)
        right = encoder.encode([row.text for row in pairs], lang=own, align=align)
        assert found[system]["retrieval"] == pytest.approx(mean_accuracy_at_1(left, right), abs=0.1)


def test_worse_modules_are_warned_of(trained, tmp_path, caplog):
    plan = load_recipe(trained, ["run.precision=fp32"]).plans["kk"]
    data, lines = TrainingData(plan), sentences("kk")[:40]
    vectors = ModularEncoder(plan.hub).encode(lines, lang="base", normalize_embeddings=True)
    # Gold scores that the base gives, and modules of noise.
    pairs = [(lines[i], lines[i + 1], float(vectors[i] @ vectors[i + 1])) for i in range(39)]
    data.__dict__ |= {"sts": pairs, "cross_sts": [], "search": [], "cross_search": []}
    folder = shutil.copytree(Hub.open(plan.hub).version_folder("kk"), tmp_path / "kk")
    weights, generator = folder / "se" / "adapter_model.safetensors", torch.Generator().manual_seed(0)
    noise = {name: torch.randn(t.shape, generator=generator) for name, t in load_file(weights).items()}
    save_file(noise, weights)
    found = compare_with_base(data, folder)
    assert found["base"]["sts"] > found["modules"]["sts"] + 10
    assert is_worse_than_base(found)
    assert "kk: worse than the base alone on held-out data: mean" in caplog.text


def test_without_held_out_data_it_is_said_that_nothing_was_compared(trained, caplog):
    plan = load_recipe(trained, NO_DEV).plans["kk"]
    assert compare_with_base(TrainingData(plan), Hub.open(plan.hub).version_folder("kk")) == {}
    assert "kk: nothing could be compared with the base: no held-out pairs" in caplog.text


def test_what_is_not_a_number_is_left_out():
    """Equal vectors have no correlation with gold scores."""
    held_out = DevEvaluator(sts=[[("a", "b", 1.0), ("a", "c", 2.0), ("a", "d", 3.0)]])
    vectors = dict(zip("abcd", np.array([[1, 0], [0.6, 0.8], [0.8, 0.6], [1, 0]]), strict=True))
    assert measure(held_out, lambda texts: np.array([vectors[text] for text in texts]), None) == {"sts": 100}
    assert measure(held_out, lambda texts: np.full((len(texts), 2), 0.5), None) == {}


def test_a_finished_training_shows_the_comparison_again(copied, caplog):
    with caplog.at_level("INFO"):
        train(load_recipe(copied), languages=["kk"])
    assert caplog.text.count("done before, skipped") == 4
    assert "translations found, both ways (%)" in caplog.text


def test_all_aligned_with_all_are_compared_with_the_pivots_new_modules(copied, monkeypatch):
    seen, real = {}, publishing.compare_with_base
    monkeypatch.setattr(
        publishing,
        "compare_with_base",
        lambda data, modules, pivot=None: (
            seen.setdefault(data.plan.lang, []).append(pivot) or real(data, modules, pivot)
        ),
    )
    recipe = load_recipe(copied, ALL_PAIRS)
    train(recipe)
    work = copied.parent / "runs/en/alignment/en"
    assert {lang: pivots[-1] for lang, pivots in seen.items()} == {"en": work, "kk": work}
    cards = {lang: json.loads((recipe.hub / lang / "card.json").read_text()) for lang in ("en", "kk")}
    assert "retrieval" in cards["kk"]["comparison"]["align=False"]
    assert "retrieval" not in cards["en"]["comparison"]["align=False"]
