"""The four stages end to end on a tiny base: what they write, skip, redo, resume and leave alone."""

import json
import shutil
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import tiny_models
import torch
from safetensors.torch import load_file
from tiny_languages import update_card
from trainings import (
    NO_DEV,
    SCORED_PAIRS,
    fingerprints,
    hashes,
    kill_once_saved,
    resumptions,
    undisturbed,
)

from modenc import ModularEncoder
from modenc.composition.modules import read_modules
from modenc.errors import HubError, LanguageError, RecipeError
from modenc.hub.layout import parts_in
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.settings import STAGES
from modenc.training import pipeline
from modenc.training.monolithic import train_monolithic
from modenc.training.pipeline import stage_jobs, train
from modenc.training.stage import training_lock
from modenc.training.vocabulary import save_embeddings

pytestmark = pytest.mark.slow

KK_STARTS_FROM_EN = [
    "vocabulary.method=base",
    "language_adaptation.objective=none",
    "languages.kk.sentence_encoding.start=en",
    "languages.kk.sentence_encoding.objective=none",
]


def test_all_stages_end_in_a_hub_that_verifies_and_encodes(trained):
    hub = Hub.open(trained.parent / "hub")
    assert hub.languages() == ["en", "kk"]
    assert hub.verify() == []
    assert parts_in(hub.version_folder("kk")) == ("tokenizer", "embeddings", "la", "se", "cla")
    assert "cla" not in parts_in(hub.version_folder("en"))
    card = hub.card("kk")
    assert set(card.stages) == {"vocabulary", "language_adaptation", "sentence_encoding", "alignment"}
    assert card.stages["vocabulary"]["metrics"]["copied"] > 0
    assert {stage["metrics"]["threads"] for stage in card.stages.values()} == {torch.get_num_threads()}
    assert {"sts", "retrieval"} <= set(card.comparison["modules"])
    encoder = ModularEncoder(trained.parent / "hub")
    aligned, alone = (
        encoder.encode(["Мұғалім жаңа кітапты оқиды"], lang="kk", align=a) for a in (True, False)
    )
    assert np.isfinite(aligned).all()
    assert np.abs(aligned - alone).max() > 1e-4


def test_others_may_read_what_is_published(trained):
    """safetensors writes files for their owner alone."""
    hub = Hub.open(trained.parent / "hub")
    readable = (trained.parent / "hub" / "hub.json").stat().st_mode
    files = [path for path in hub.version_folder("kk").rglob("*") if path.is_file()]
    assert {path.name for path in files if path.stat().st_mode != readable} == set()
    assert len(files) > 6


def test_a_changed_setting_redoes_its_stage_and_what_follows(copied, caplog):
    hub = Hub.open(copied.parent / "hub")
    before, others = hub.card("kk").files, hashes(hub.folder("en"))
    recipe = load_recipe(copied, ["alignment.scale=10.0"])
    with caplog.at_level("INFO"):
        train(recipe, languages=["kk"])
    after = hub.card("kk").files
    assert caplog.text.count("done before, skipped") == 3
    assert "alignment: joint" in caplog.text
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed - {"README.md"} == {"cla/adapter.safetensors"}  # its page, if a figure changed
    assert hub.card("kk").stages["alignment"]["settings"]["scale"] == 10.0
    assert hashes(hub.folder("en")) == others


def test_a_training_in_bf16_leaves_the_next_in_fp32_as_it_was(copied, monkeypatch):
    # The variable in which the libraries keep the last training's precision.
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")

    def modules(precision):
        recipe = load_recipe(copied, [f"run.precision={precision}"])
        train(recipe, languages=["kk"], force=True)
        return hashes(copied.parent / "runs/kk/sentence_encoding/kk")

    first = modules("fp32")
    assert modules("bf16") != first
    assert modules("fp32") == first


def test_each_stage_moves_only_its_own_files(copied):
    train(load_recipe(copied, NO_DEV), languages=["kk"])
    runs = copied.parent / "runs" / "kk"
    snapshots = [hashes(runs / stage / "kk") for stage in STAGES]
    moved = [
        {name.split("/")[0] for name in after if before.get(name) != after[name]}
        for before, after in pairwise(snapshots)
    ]
    assert moved == [{"la", "embeddings.safetensors"}, {"se"}, {"cla"}]


@pytest.mark.parametrize("objective", ["mlm", "mlm+distill"])
def test_the_other_adaptation_objectives_train(tiny_recipe, objective):
    path = tiny_recipe(objective.replace("+", "-"))
    overrides = [f"language_adaptation.objective={objective}", "language_adaptation.block_length=16"]
    train(load_recipe(path, [*overrides, "sentence_encoding.objective=none"]), languages=["en"])
    metrics = Hub.open(path.parent / "hub").card("en").stages["language_adaptation"]["metrics"]
    assert metrics["steps"] == 4


def test_simcse_trains_on_text(tiny_recipe):
    path = tiny_recipe("simcse")
    overrides = ["sentence_encoding.objective=simcse", "languages.en.data.paraphrases=[]"]
    train(load_recipe(path, overrides), languages=["en"])
    stages = Hub.open(path.parent / "hub").card("en").stages
    assert stages["sentence_encoding"]["metrics"]["steps"] == 4
    assert stages["sentence_encoding"]["settings"]["objective"] == "simcse"


@pytest.mark.parametrize("method", ["focus", "extend", "base"])
def test_the_other_vocabularies_train(tiny_recipe, tiny_bert, method):
    path = tiny_recipe(method, tiny_bert)
    overrides = [
        f"vocabulary.method={method}",
        "vocabulary.size=300",
        "vocabulary.new_pieces=40",
        "vocabulary.fasttext_dim=16",
        f"language_adaptation.train_embeddings={'false' if method == 'base' else 'true'}",
        "sentence_encoding.objective=none",
    ]
    recipe = load_recipe(path, overrides)
    train(recipe, languages=["en"])
    hub = Hub.open(path.parent / "hub")
    assert hub.verify() == []
    assert ("tokenizer" in parts_in(hub.version_folder("en"))) == (method != "base")
    assert np.isfinite(ModularEncoder(hub.path).encode("My brother reads", lang="en")).all()


def test_embeddings_are_stored_in_int8(trained, copied, tmp_path, caplog):
    with caplog.at_level("INFO"):
        train(load_recipe(copied, ["vocabulary.storage=int8"]), languages=["kk"])
    assert "done before, skipped" not in caplog.text
    hub, runs = Hub.open(copied.parent / "hub"), copied.parent / "runs" / "kk"
    assert hub.verify() == []
    # From each stage on, whether it trains them (stage 2 does) or passes them on.
    stored = [load_file(runs / stage / "kk" / "embeddings.safetensors") for stage in STAGES]
    assert all(tensors["embeddings"].dtype == torch.int8 for tensors in stored)
    moved = [not torch.equal(one["embeddings"], next_["embeddings"]) for one, next_ in pairwise(stored)]
    assert moved[1:] == [False, False]
    paths = [
        hub.version_folder("kk") / "embeddings.safetensors",
        Hub.open(trained.parent / "hub").version_folder("kk") / "embeddings.safetensors",
    ]
    small, large = (path.stat().st_size for path in paths)
    assert 0.5 < small / large < 0.65  # 4 bytes a row of 32 numbers beside a header
    # The same modules in half precision and in integers.
    texts = tiny_models.sentences("kk")[:20]
    other = Hub.open(shutil.copytree(trained.parent / "hub", tmp_path / "other"))
    folder = other.version_folder("kk")
    before = ModularEncoder(other.path).encode(texts, lang="kk", normalize_embeddings=True)
    save_embeddings(read_modules(folder, tiny_models.HIDDEN).embeddings, folder, "int8")
    update_card(other.folder("kk"))
    after = ModularEncoder(other.path).encode(texts, lang="kk", normalize_embeddings=True)
    assert (before * after).sum(axis=1).min() > 0.999
    assert not np.array_equal(before, after)


def test_sentence_encoding_can_start_from_another_languages(copied):
    overrides = ["sentence_encoding.start=en", "sentence_encoding.optimizer.learning_rate=1e-12"]
    overrides.append("alignment.objective=none")
    train(load_recipe(copied, overrides), languages=["kk"])
    file = "se/adapter_model.safetensors"
    own = copied.parent / "runs/kk/sentence_encoding/kk" / file
    english, kazakh = (
        load_file(path) for path in (Hub.open(copied.parent / "hub").version_folder("en") / file, own)
    )
    assert english.keys() == kazakh.keys()
    assert all(torch.equal(english[name], kazakh[name]) for name in english)
    as_it_is = [*overrides, "sentence_encoding.objective=none"]
    train(load_recipe(copied, as_it_is), languages=["kk"])
    copy = load_file(own)
    assert all(torch.equal(english[name], copy[name]) for name in english)
    other_rank = load_recipe(copied, [*overrides, "sentence_encoding.lora.rank=3"])
    with pytest.raises(RecipeError, match=r"expected rank 8 and alpha 16, as .* found rank 3"):
        train(other_rank, languages=["kk"])


def test_alignment_can_start_from_another_languages(copied):
    data = copied.parent / "data"
    for path in data.glob("*.kk.t*"):
        text = path.read_text(encoding="utf-8").replace("en\tkk", "en\tky", 1)
        (data / path.name.replace(".kk.", ".ky.")).write_text(text, encoding="utf-8")
    ky = "vocabulary.method=base language_adaptation.objective=none sentence_encoding.start=en "
    ky += "sentence_encoding.objective=none alignment.start=kk alignment.optimizer.learning_rate=1e-12"
    copied.write_text(copied.read_text() + "[languages.ky]\n")
    overrides = [f"languages.ky.{override}" for override in ky.split()]
    train(load_recipe(copied, overrides), languages=["ky"])
    hub = Hub.open(copied.parent / "hub")
    kazakh, own = (load_file(hub.version_folder(lang) / "cla/adapter.safetensors") for lang in ("kk", "ky"))
    assert all(torch.equal(kazakh[name], own[name]) for name in kazakh)
    sources = {entry["source"] for entry in hub.card("ky").data}
    assert {"parallel.kk.tsv", "parallel.ky.tsv"} <= sources
    other_width = [*overrides, "languages.ky.alignment.reduction_factor=2"]
    with pytest.raises(RecipeError, match=r"alignment.reduction_factor: expected 4, as the adapter in "):
        train(load_recipe(copied, other_width), languages=["ky"])
    unaligned = load_recipe(copied, [*overrides, "languages.ky.alignment.objective=none"])
    train(unaligned, languages=["ky"])
    assert "parallel.kk.tsv" not in {entry["source"] for entry in hub.card("ky").data}


def test_forced_stages_reach_the_hub_and_all_that_starts_from_them(tiny_recipe, monkeypatch):
    drawn = iter(range(100))

    def learn(run, settings, model, *_, **__):
        generator = torch.Generator().manual_seed(next(drawn))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.01)
        return {"steps": settings.steps, "seconds": 0.0}

    monkeypatch.setattr("modenc.training.sentence_encoding.train_sentence_model", learn)
    monkeypatch.setattr("modenc.training.alignment.train_sentence_model", learn)
    path = tiny_recipe("forced")
    recipe = load_recipe(path, KK_STARTS_FROM_EN)
    train(recipe)
    hub = Hub.open(path.parent / "hub")
    first = hub.card("en").fingerprint("se/")
    train(recipe, force=True)
    second = hub.card("en").fingerprint("se/")
    assert first != second == hub.card("kk").fingerprint("se/")
    before = hashes(hub.path)
    train(recipe)
    assert hashes(hub.path) == before
    train(recipe, languages=["en"], force=True)
    assert hub.card("en").fingerprint("se/") not in (first, second)
    assert hub.card("kk").fingerprint("se/") == second
    train(recipe)
    assert hub.card("kk").fingerprint("se/") == hub.card("en").fingerprint("se/")
    assert parts_in(hub.version_folder("kk")) == ("se", "cla")
    assert hub.verify() == []


def test_hub_keeps_a_finished_language_when_a_training_is_cut_off(copied, monkeypatch):
    recipe, hub = load_recipe(copied, ["sentence_encoding.scale=10.0"]), Hub.open(copied.parent / "hub")
    before = hashes(hub.path / "kk")

    def cut_off(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(pipeline._STAGE_FUNCTIONS, "alignment", cut_off)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, languages=["kk"])
    assert hashes(hub.path / "kk") == before
    train(recipe, languages=["kk"])
    assert hub.card("kk").stages["sentence_encoding"]["settings"]["scale"] == 10.0


def test_modules_that_were_trained_by_force_are_published_by_the_next_training(copied, monkeypatch):
    recipe, hub = load_recipe(copied), Hub.open(copied.parent / "hub")
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "publish_language", lambda *_, **__: None)  # killed before
        train(recipe, languages=["kk"], force=True)
    weights = copied.parent / "runs/kk/alignment/kk/cla/adapter.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + bytes(4))  # another result of the same settings
    train(recipe, languages=["kk"])
    assert (hub.version_folder("kk") / "cla" / "adapter.safetensors").read_bytes() == weights.read_bytes()


def test_strength_is_the_share_of_the_adapters_output_that_is_kept(copied):
    # Without dev data the last weights are published, so that both runs end alike.
    blind = ["languages.kk.data.dev.sts=[]", "languages.kk.data.dev.parallel_held_out=0"]
    weights = {}
    for strength in (1.0, 0.25):
        recipe = load_recipe(copied, [*blind, f"alignment.strength={strength}"])
        train(recipe, languages=["kk"])
        folder = Hub.open(copied.parent / "hub").version_folder("kk")
        weights[strength] = load_file(folder / "cla" / "adapter.safetensors")
    for name, whole in weights[1.0].items():
        share = 0.25 if "adapter_up" in name else 1.0
        torch.testing.assert_close(weights[0.25][name], whole * share, atol=1e-6, rtol=1e-3)
        assert not name.endswith("adapter_up.weight") or whole.abs().max() > 1e-4


def test_alignment_needs_the_pivot(tiny_recipe):
    recipe = load_recipe(tiny_recipe("no-pivot"))
    with pytest.raises(HubError, match=r"no modules for en \(English\); languages here: none yet"):
        train(recipe, languages=["kk"])
    assert not recipe.plans["kk"].run.work_dir.exists()


def test_wrong_names_are_named(trained):
    recipe = load_recipe(trained)
    with pytest.raises(LanguageError, match=r"expected one of the recipe's languages \(en, kk\), found 'fr'"):
        train(recipe, languages=["fr"])
    with pytest.raises(LanguageError, match="languages: expected at least one, found none; leave it out"):
        train(recipe, languages=[], force=True)


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("stage", "part"),
    [
        ("language_adaptation", ""),
        ("sentence_encoding", ""),
        ("sentence_encoding", "scored/checkpoints"),
        ("alignment", ""),
    ],
)
def test_a_killed_run_resumes_and_the_hub_stays_whole(copied, tmp_path, caplog, stage, part):
    steps = [f"{stage}.optimizer.steps=60"]
    phase = part.split("/")[0]
    if phase == "scored":
        steps = [SCORED_PAIRS, "sentence_encoding.scored_steps=60"]
    words = ["train", str(copied), "--lang", "kk", *steps]
    right = undisturbed(copied, steps, tmp_path, ["kk"])
    folder = copied.parent / "runs" / "kk" / stage
    kill_once_saved(words, folder / "checkpoints" / part)
    hub = Hub.open(copied.parent / "hub")
    assert hub.verify() == []
    # In the second phase the first one's checkpoint is found, too, and nothing of it is trained again.
    assert resumptions(words, caplog) == (2 if part else 1)
    assert hub.verify() == []
    metrics = hub.card("kk").stages[stage]["metrics"]
    assert (metrics[phase] if phase else metrics)["steps"] == 60
    assert fingerprints(hub) == right


def test_the_card_says_what_it_was_trained_on(trained):
    card = json.loads((trained.parent / "hub/kk/card.json").read_text())
    roles = {entry["role"] for entry in card["data"]}
    assert {"text", "paraphrases", "parallel", "cross_paraphrases"} <= roles
    assert str(trained.parent) not in json.dumps(card["data"])


def test_one_of_several_processes_trains_nothing(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for start in (train, stage_jobs, lambda recipe: train_monolithic(recipe, tmp_path / "model")):
        with pytest.raises(RecipeError, match=r"expected one process .*, found WORLD_SIZE = 2, .* --on ray"):
            start(load_recipe(trained))


def test_two_trainings_of_a_language_do_not_meet(copied):
    command = [sys.executable, "-m", "modenc.cli", "train", str(copied), "--lang", "kk"]
    folder = copied.parent / "runs" / "kk"
    with training_lock(folder):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert f"{folder}: another training is running here; wait until it is done" in refused.stderr
        assert "Traceback" not in refused.stderr
    with training_lock(folder):
        pass
