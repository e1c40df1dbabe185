"""Comparison of modules with the bare base after a training, and modules that are kept out of a hub."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_all_pairs import ALL_PAIRS
from tiny_models import sentences
from trainings import NO_DEV, hashes

from modenc import ModularEncoder
from modenc.cli.main import main
from modenc.evaluation.retrieval import mean_accuracy_at_1
from modenc.evaluation.sts import spearman
from modenc.hub.card import is_worse_than_base
from modenc.hub.layout import LanguageLayout
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.training import publishing
from modenc.training.data_access import DevRows, TrainingData
from modenc.training.dev import DevEvaluator
from modenc.training.monolithic import train_monolithic
from modenc.training.pipeline import train
from modenc.training.publishing import compare_with_base, log_comparison, measure

LOST = {
    "rows": {"sts": 20},
    "base": {"sts": 72.0, "retrieval": 98.0},
    "modules": {"sts": 70.0, "retrieval": 96.0},
    "align=False": {"sts": 75.0, "retrieval": 90.0},
}


def test_the_card_has_the_base_on_the_same_held_out_data(trained):
    hub = Hub.open(trained.parent / "hub")
    kazakh, english = hub.card("kk").comparison, hub.card("en").comparison
    assert kazakh["rows"] == {"sts": 20, "retrieval": 20, "tokens": 20}
    for system in ("base", "modules", "align=False"):
        assert kazakh[system].keys() == {"sts", "retrieval", "tokens"}
    assert set(english) == {"rows", "base", "modules"}
    assert english["base"].keys() == {"sts", "tokens"}
    readme = (hub.layout("kk").root / "README.md").read_text()
    assert "| held-out data | rows | base | modules | align=False |" in readme


def test_the_figures_are_those_of_the_hub(trained, tmp_path):
    plan = load_recipe(trained, ["run.precision=fp32", f"run.work_dir={tmp_path}"]).plans["kk"]
    data, hub = TrainingData(plan), Hub.open(plan.hub)
    found = compare_with_base(data, hub.layout("kk"))
    encoder = ModularEncoder(hub.path)
    rows, pairs = data.dev.sts, data.parallel.held_out
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


def test_worse_modules_are_warned_of_with_what_to_try(trained, tmp_path, caplog):
    plan = load_recipe(trained, ["run.precision=fp32"]).plans["kk"]
    data, lines = TrainingData(plan), sentences("kk")[:40]
    vectors = ModularEncoder(plan.hub).encode(lines, lang="base", normalize_embeddings=True)
    # Gold scores that the base gives, and modules of noise.
    pairs = [(lines[i], lines[i + 1], float(vectors[i] @ vectors[i + 1])) for i in range(39)]
    data.__dict__["dev"] = DevRows(sts=pairs, cross_sts=[])
    layout = LanguageLayout(shutil.copytree(Hub.open(plan.hub).layout("kk").root, tmp_path / "kk"))
    weights, generator = layout.se / "adapter_model.safetensors", torch.Generator().manual_seed(0)
    noise = {name: torch.randn(t.shape, generator=generator) for name, t in load_file(weights).items()}
    save_file(noise, weights)
    found = compare_with_base(data, layout)
    assert found["base"]["sts"] > found["modules"]["sts"] + 10
    assert is_worse_than_base(found)
    assert "kk: worse than the base alone on held-out data: mean" in caplog.text
    assert "Try for sts" in caplog.text
    assert "Until then lang='base' gives the base's vectors" in caplog.text


def test_a_vocabulary_that_cuts_finer_than_the_bases_is_warned_of(caplog):
    found = {"base": {"sts": 70.0, "tokens": 39.6}, "modules": {"sts": 71.0, "tokens": 47.9}}
    log_comparison("sw", found)
    assert (
        "sw: its vocabulary cuts sentences into more tokens than the base's: 47.9, base 39.6" in caplog.text
    )
    caplog.clear()
    log_comparison("sw", {**found, "modules": {"sts": 71.0, "tokens": 40.0}})
    assert not caplog.records


def test_without_held_out_data_it_is_said_that_nothing_was_compared(trained, caplog):
    plan = load_recipe(trained, NO_DEV).plans["kk"]
    assert compare_with_base(TrainingData(plan), Hub.open(plan.hub).layout("kk")) == {}
    assert "kk: nothing could be compared with the base: no held-out pairs" in caplog.text


@pytest.mark.parametrize("value", [0.5, np.nan])
def test_collapsed_modules_lose(caplog, value):
    """Equal vectors, or NaN, have no correlation with gold scores; the base has."""
    held_out = DevEvaluator(sts=[[("a", "b", 1.0), ("a", "c", 2.0), ("a", "d", 3.0)]])
    vectors = dict(zip("abcd", np.array([[1, 0], [0.6, 0.8], [0.8, 0.6], [1, 0]]), strict=True))
    base = measure(held_out, lambda texts: np.array([vectors[text] for text in texts]), None)
    assert base == {"sts": 100.0}
    modules = measure(held_out, lambda texts: np.full((len(texts), 2), value), None, base)
    assert modules == {"sts": -100.0}
    assert is_worse_than_base({"base": base, "modules": modules})
    assert "sts: not a number with the modules, whose vectors are all equal or not finite" in caplog.text
    # A metric without a number for the base is left out for the modules, too.
    assert measure(held_out, lambda texts: np.full((len(texts), 2), value), None, {}) == {}


def test_translations_that_are_spared_are_not_read(trained):
    plan = load_recipe(trained).plans["kk"]
    emma_x = replace(plan.emma_x, warmup_languages=("az",))
    spared = replace(plan, emma_x=emma_x, alignment=replace(plan.alignment, objective="emma_x"))
    assert TrainingData(plan).held_out_translations()
    data = TrainingData(spared)
    assert not data.held_out_translations()
    assert "parallel" not in vars(data)


def test_a_finished_training_shows_the_comparison_again(copied, caplog):
    with caplog.at_level("INFO"):
        train(load_recipe(copied), languages=["kk"])
    assert caplog.text.count("done before, skipped") == 4
    assert "translations found, both ways (%)" in caplog.text


def test_a_language_that_loses_stays_out_of_the_hub(copied, monkeypatch, caplog, capsys):
    hub = Hub.open(copied.parent / "hub")
    before = hashes(hub.path)
    monkeypatch.setattr(publishing, "compare_with_base", lambda *_: LOST)
    words = ["train", str(copied), "--lang", "kk", "alignment.scale=10.0"]
    assert main([*words, "run.publish=unless_worse"]) == 1
    assert hashes(hub.path) == before
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"worse than the base alone, so not published to {hub.path}: kk" in captured.err
    assert "the modules that are there stay. The trained stages stay in" in caplog.text
    # Nothing is lost: the same without the setting publishes what was trained.
    caplog.clear()
    with caplog.at_level("INFO"):
        assert main(words) == 0
    assert caplog.text.count("done before, skipped") == 4
    assert hub.card("kk").comparison == LOST
    assert capsys.readouterr().out == f"kk\t{hub.path / 'kk'}\n"


def test_a_language_that_wins_or_ties_is_published(copied, monkeypatch):
    hub = Hub.open(copied.parent / "hub")
    hub.remove("kk")
    monkeypatch.setattr(publishing, "compare_with_base", lambda *_: {**LOST, "modules": LOST["base"]})
    assert main(["train", str(copied), "--lang", "kk", "run.publish=unless_worse"]) == 0
    assert hub.languages() == ["en", "kk"]


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
    assert {lang: pivots[-1].root for lang, pivots in seen.items()} == {"en": work, "kk": work}
    cards = {lang: json.loads((recipe.hub / lang / "card.json").read_text()) for lang in ("en", "kk")}
    assert "retrieval" in cards["kk"]["comparison"]["align=False"]
    assert "retrieval" not in cards["en"]["comparison"]["align=False"]


def test_one_model_of_all_languages_is_compared_too(trained, tmp_path, caplog):
    few = ["monolithic.optimizer.steps=2", "monolithic.optimizer.batch_size=8", "monolithic.objective=cross"]
    with caplog.at_level("INFO"):
        train_monolithic(load_recipe(trained, [*few, f"run.work_dir={tmp_path}"]), tmp_path / "model")
    found = json.loads((tmp_path / "model/training.json").read_text())["comparison"]
    # Translations that are held out are left out of the paraphrases, too.
    assert (found["kk"]["rows"], found["en"]["rows"]) == ({"sts": 20, "retrieval": 20}, {"sts": 20})
    assert found["kk"].keys() == {"rows", "base", "modules"}
    assert caplog.text.count("similarity within the language (Spearman x 100)") == 2
