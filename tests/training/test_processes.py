"""Several processes read what one of larger batches reads."""

from dataclasses import replace

import pytest

from modenc.recipe.loader import load_recipe
from modenc.training.alignment import alignment_rows
from modenc.training.data_access import TrainingData
from modenc.training.processes import process_state
from modenc.training.sentence_encoding import set_groups


@pytest.fixture
def two(monkeypatch):
    """A function after which there are two processes."""
    return lambda: monkeypatch.setattr(process_state(), "num_processes", 2)


def larger(settings, times):
    """The same with batches of so many times the size."""
    optimizer = replace(settings.optimizer, steps=3, batch_size=settings.optimizer.batch_size * times)
    return replace(settings, optimizer=optimizer)


def test_two_processes_draw_the_rows_of_one_with_twice_the_batch(tiny_recipe, two):
    plan = load_recipe(tiny_recipe("drawn-by-two")).plans["kk"]
    data, align, encode = TrainingData(plan), plan.alignment, plan.sentence_encoding
    rows = alignment_rows(data, larger(align, 2), seed=13)
    lines = list(set_groups(data, larger(encode, 2), seed=13)[0]["simcse"]["simcse"]["anchor"])
    # Three steps of 16 rows are two turns of one kind and one of the other.
    assert {kind: len(part) for kind, part in rows.items()} == {"paraphrase": 32, "parallel": 32}
    assert len(lines) == 48
    two()
    assert alignment_rows(data, larger(align, 1), seed=13) == rows
    assert list(set_groups(data, larger(encode, 1), seed=13)[0]["simcse"]["simcse"]["anchor"]) == lines
