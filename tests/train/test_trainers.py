"""The best weights on the dev set are kept, the start's among them."""

import logging

import torch
from torch import nn

from modenc.train.trainers import KeepBest


def test_the_best_of_all_steps_and_the_start_comes_back(tmp_path):
    module = nn.Linear(2, 2)
    best = KeepBest(tmp_path, module)
    assert best.restore() is None
    weights = []
    for step, score in ((0, 5.0), (10, 7.0), (20, 6.0)):
        with torch.no_grad():
            module.weight.fill_(step + 1.0)
        weights.append(module.weight.clone())
        best.note(step, {"score": score})
    again = KeepBest(tmp_path, module)
    assert (again.last_step(), again.restore()) == (20, 10)
    assert torch.equal(module.weight, weights[1])


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    best = KeepBest(tmp_path, nn.Linear(2, 2))
    for step, score in ((0, 5.0), (10, 4.0), (20, 9.0), (10, 4.5)):
        best.note(step, {"score": score})
    assert [entry["step"] for entry in best.history] == [0, 10]
    assert "dev at step 20: {'score': 9.0}" in caplog.text
