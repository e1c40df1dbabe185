"""The best weights on the dev set are kept."""

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
from transformers import TrainerState

from modenc.base_model import resolve_base
from modenc.recipe.loader import load_recipe
from modenc.training.adapters_io import add_parallel_adapter, scaled_adapter
from modenc.training.body_module import BodyModule
from modenc.training.dev import DevEvaluator, KeepBest
from modenc.training.stage import discard, prepare_folder
from modenc.training.trainers import last_checkpoint, training_arguments


def evaluated(best, module, step, score):
    with torch.no_grad():
        module.weight.fill_(step + 1.0)
    best.on_evaluate(None, TrainerState(global_step=step), None, {"eval_score": score, "eval_runtime": 1.0})


def test_a_resumed_run_keeps_the_best_of_the_killed_one(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    module = nn.Linear(2, 2)
    best = KeepBest(tmp_path, module, nn.Module())
    assert best.restore() is None
    for step, score in ((10, 5.0), (20, 7.0), (30, 6.0)):
        evaluated(best, module, step, score)
    assert "dev at step 30: score 6.00" in caplog.text
    again = KeepBest(tmp_path, module, nn.Module())
    evaluated(again, module, 30, 6.5)
    assert again.restore() == 20
    assert torch.equal(module.weight, torch.full((2, 2), 21.0))


def test_a_score_that_is_no_number_is_never_the_best(tmp_path, caplog):
    module = nn.Linear(2, 2)
    best = KeepBest(tmp_path, module, nn.Module())
    evaluated(best, module, 0, math.nan)
    assert "dev: the score is not a number" in caplog.text
    assert best.restore() is None
    evaluated(best, module, 10, 4.0)
    evaluated(best, module, 20, math.nan)
    assert best.restore() == 10


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
