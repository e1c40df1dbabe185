"""The best weights on the dev set are kept, the start's among them."""

import logging
import math
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import tiny_models
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from modenc.base_model import resolve_base
from modenc.recipe.loader import load_recipe
from modenc.training.adapters_io import add_parallel_adapter, scaled_adapter
from modenc.training.body_module import BodyModule
from modenc.training.dev import DevEvaluator, KeepBest
from modenc.training.stage import discard, prepare_folder
from modenc.training.trainers import last_checkpoint, training_arguments


def test_the_best_of_all_steps_and_the_start_comes_back(tmp_path):
    module = nn.Linear(2, 2)
    best = KeepBest(tmp_path, module)
    assert best.restore() is None
    weights = []
    for step, score in ((0, 5.0), (10, 7.0), (20, 6.0)):
        with torch.no_grad():
            module.weight.fill_(step + 1.0)
        weights.append(module.weight.clone())
        best.record(step, {"score": score})
    again = KeepBest(tmp_path, module)
    assert (again.last_step(), again.restore()) == (20, 10)
    assert torch.equal(module.weight, weights[1])


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    best = KeepBest(tmp_path, nn.Linear(2, 2))
    for step, score in ((0, 5.0), (10, 4.0), (20, 9.0), (10, 4.5)):
        best.record(step, {"score": score})
    assert [entry["step"] for entry in best.history] == [0, 10]
    assert "dev at step 20: score 9.00" in caplog.text


def filled(module, value):
    with torch.no_grad():
        module.weight.fill_(value)
    return module.weight.clone()


def test_a_resumed_run_keeps_the_best_of_the_killed_one(tmp_path):
    module = nn.Linear(2, 2)
    best = KeepBest(tmp_path, module)
    best.record(0, {"score": 5.0})
    weights = filled(module, 3.0)
    best.record(20, {"score": 9.0})
    # Killed there; step 20 comes out otherwise this time.
    again = KeepBest(tmp_path, module)
    filled(module, 4.0)
    again.record(10, {"score": 4.0})
    again.record(20, {"score": 4.5})
    assert again.restore() == 20
    assert torch.equal(module.weight, weights)


def test_a_score_that_is_no_number_is_never_the_best(tmp_path, caplog):
    module = nn.Linear(2, 2)
    best = KeepBest(tmp_path, module)
    best.record(0, {"sts": math.nan, "score": math.nan})
    assert "dev at step 0: sts, score: not a number, so these weights cannot be the best" in caplog.text
    assert best.restore() is None
    filled(module, 2.0)
    best.record(10, {"sts": 4.0, "score": 4.0})
    filled(module, 3.0)
    best.record(20, {"sts": math.nan, "score": math.nan})
    again = KeepBest(tmp_path, module)
    filled(module, 4.0)
    again.record(30, {"sts": 3.0, "score": 3.0})
    assert (again.restore(), module.weight[0, 0].item()) == (10, 2.0)


def test_half_a_checkpoint_is_passed_over(tmp_path):
    for step in (5, 10, 15):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        for name in ("trainable.safetensors", "optimizer.pt", "scheduler.pt"):
            (folder / name).write_bytes(b"whole")
        (folder / "trainer_state.json").write_text('{"global_step": 5')
    assert last_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint-5" / "trainer_state.json").write_text('{"global_step": 5}')
    (tmp_path / "checkpoint-10" / "trainer_state.json").write_text('{"global_step": 10}')
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    (tmp_path / "checkpoint-10" / "optimizer.pt").write_bytes(b"")
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-5")


def test_a_batch_stays_on_one_device(tiny_recipe, tmp_path, monkeypatch):
    plan = load_recipe(tiny_recipe("one-device")).plans["en"]
    optimizer = plan.alignment.optimizer
    arguments = training_arguments(optimizer, plan.run, tmp_path, sentences=True, evaluate=False)
    # With more, the trainers would split batches over GPUs.
    assert arguments.n_gpu == 1
    assert arguments.train_batch_size == optimizer.batch_size


def test_a_folder_half_removed_counts_for_nothing(tmp_path, monkeypatch):
    folder = tmp_path / "shared"
    prepare_folder(folder, "these")
    (folder / "checkpoint").touch()
    # A full disk may have no room for the mark again.
    monkeypatch.setattr(Path, "write_text", None)
    prepare_folder(folder, "these")
    monkeypatch.undo()
    assert (folder / "checkpoint").exists()
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # as if killed in it
    discard(folder)
    monkeypatch.undo()
    prepare_folder(folder, "these")
    assert [file.name for file in folder.iterdir()] == ["started.json"]


def test_the_dev_set_judges_the_weights_that_are_published(tiny_xlmr):
    body = resolve_base(str(tiny_xlmr)).load_body()
    tokenizer = resolve_base(str(tiny_xlmr)).load_tokenizer()
    add_parallel_adapter(body, 2)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in body.named_parameters():
            if "adapter_up" in name:
                parameter.normal_(std=1.0)
    module = BodyModule(body, tokenizer, prompt="", max_length=32)
    model = SentenceTransformer(modules=[module, Pooling(32, "mean")])
    lines = tiny_models.sentences("kk")
    texts = list(zip(lines, lines[1:] + lines[:1], strict=True))[:150]
    data = DevEvaluator(sts=[[(*pair, i / 10) for i, pair in enumerate(texts)], []])
    before = {name: parameter.clone() for name, parameter in body.named_parameters()}
    whole = data(model)["sts"]
    share = replace(data, weights=partial(scaled_adapter, body, 0.25))(model)["sts"]
    assert all(torch.equal(before[name], parameter) for name, parameter in body.named_parameters())
    with torch.no_grad():
        for name, parameter in body.named_parameters():
            if "adapter_up" in name:
                parameter.mul_(0.25)
    assert whole != share == data(model)["sts"]
