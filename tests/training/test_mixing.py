"""Several data sets in one training: which rows are read, and how often."""

from collections import Counter
from dataclasses import replace
from itertools import chain, islice
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from sentence_transformers.base.sampler import DefaultBatchSampler
from torch.utils.data import ConcatDataset, RandomSampler

from modenc.data.kinds import ParallelRow, ParaphraseRow
from modenc.errors import RecipeError
from modenc.recipe.loader import load_recipe
from modenc.training.alignment import alignment_rows
from modenc.training.all_pairs import ItemTexts, batches_of_pairs
from modenc.training.data_access import TrainingData, draw_rows
from modenc.training.phases import ObjectiveInputs
from modenc.training.sentence_encoding import row_sets
from modenc.training.trainers import ScheduleSampler, schedule_data


@pytest.fixture
def optimizer(tiny_recipe):
    """Settings that read the data once, eight rows a step."""
    plan = load_recipe(tiny_recipe("optimizer")).plans["en"]
    return replace(plan.alignment.optimizer, steps=0, epochs=1.0, batch_size=8)


def mix(**sizes):
    """Groups of sets of so many rows: ``one=(100, 40)``."""
    return {
        group: {f"{group}{i}": Dataset.from_dict({"text": [""] * size}) for i, size in enumerate(counts)}
        for group, counts in sizes.items()
    }


def sampler(train, optimizer):
    """As the trainer makes it."""
    generator = torch.Generator()
    sets = [data for group in train.values() for data in group.values()]
    parts = [
        DefaultBatchSampler(
            RandomSampler(data, generator=generator), batch_size=optimizer.batch_size, drop_last=True
        )
        for data in sets
    ]
    settings = {"batch_samplers": parts, "generator": generator, "seed": 13}
    return ScheduleSampler(ConcatDataset(sets), schedule=schedule_data(train, optimizer), **settings)


def test_sets_of_one_group_are_read_whole(optimizer):
    train = mix(one=(800, 40, 16))
    batches = list(sampler(train, optimizer))
    assert sorted(row for batch in batches for row in batch) == list(range(856))
    # Evenly spread, and each batch of one set.
    owners = [{(row >= 800) + (row >= 840) for row in batch} for batch in batches]
    assert all(len(owner) == 1 for owner in owners)
    assert {1} in owners[:25]
    assert {1} in owners[-25:]
    assert schedule_data(train, optimizer).steps() == len(batches) == 107


def test_groups_come_in_turn_until_the_largest_is_read(optimizer):
    train = mix(small=(24,), large=(80, 80))
    batches = list(sampler(train, optimizer))
    assert len(batches) == schedule_data(train, optimizer).steps() == 40
    assert [batch[0] < 24 for batch in batches] == [True, False] * 20
    seen = Counter(row for batch in batches for row in batch)
    assert all(seen[row] == 1 for row in range(24, 184))
    assert {seen[row] for row in range(24)} == {6, 7}
    again = [batch for batch in batches if batch[0] < 24]
    assert sorted(chain(*again[:3])) == sorted(chain(*again[3:6])) == list(range(24))
    assert again[:3] != again[3:6]


def test_a_set_smaller_than_a_batch_is_read(optimizer):
    train = mix(few=(5,), many=(32,))
    batches = list(sampler(train, optimizer))
    assert [sorted(batch) for batch in batches[::2]] == [list(range(5))] * 4
    alone = schedule_data(Dataset.from_dict({"text": [""] * 5}), optimizer)
    assert (alone.optimizer.batch_size, alone.steps()) == (5, 1)
    with pytest.raises(RecipeError, match="none0: expected 1 row of training data or more, found 0; add"):
        schedule_data(mix(none=(0,)), optimizer)


def test_pairs_fewer_than_a_batch_are_filled_up_with_triplets():
    triplets = [ParaphraseRow(f"a{i}", f"p{i}", f"n{i}") for i in range(100)]
    pairs = [ParaphraseRow(f"x{i}", f"y{i}", None) for i in range(3)]
    sets = row_sets([*triplets, *pairs], 8, seed=1)
    assert len(sets["triplets"]) == 100
    assert len(sets["pairs"]) == 8
    assert {"x0", "x1", "x2"} <= set(sets["pairs"]["anchor"])
    assert "negative" not in sets["pairs"].column_names
    few = row_sets([*triplets[:5], *pairs], 8, seed=1)
    assert {name: len(rows) for name, rows in few.items()} == {"pairs": 8}


def test_an_alignment_that_ends_within_a_turn_reads_no_row_again(tiny_recipe, optimizer):
    plan = load_recipe(tiny_recipe("turns")).plans["kk"]
    data, settings = TrainingData(plan), replace(plan.alignment, optimizer=replace(optimizer, steps=3))
    rows = alignment_rows(data, settings, seed=1)
    train = {
        kind: {kind: Dataset.from_dict({"text": [row.text for row in part]})} for kind, part in rows.items()
    }
    batches = list(islice(sampler(train, settings.optimizer), 3))
    assert len({row for batch in batches for row in batch}) == 24


@pytest.mark.parametrize(("exponent", "rows"), [(0.0, 2 * 400), (0.5, 20 * (20 + 10)), (1.0, 500)])
def test_drawn_languages_are_read_until_the_largest_was(optimizer, exponent, rows):
    pairs = {lang: [ParallelRow("a", "b")] * count for lang, count in {"kk": 400, "tr": 100}.items()}
    inputs = ObjectiveInputs(None, SimpleNamespace(optimizer=optimizer), None, None, pairs, {})
    assert inputs.steps(exponent) == -(-rows // 8)
    order = draw_rows({lang: [lang] * len(found) for lang, found in pairs.items()}, rows, exponent, seed=1)
    assert order.count("kk") == 400


def test_all_pairs_of_languages_are_read_as_often_as_epochs_says(optimizer, tiny_recipe):
    settings = load_recipe(tiny_recipe("decks")).plans["kk"].alignment
    settings = replace(settings, optimizer=optimizer)
    said = {
        lang: {i: ItemTexts(f"{lang}{i}", f"{lang}{i}") for i in range(count)}
        for lang, count in {"en": 64, "kk": 64, "az": 16, "tr": 3}.items()
    }
    batches = batches_of_pairs({"parallel": said}, settings, seed=1)
    seen = Counter(tuple(batch["pair"]) for batch in batches)
    assert set(seen.values()) == {8}
    items = [row for batch in batches if batch["pair"] == [0, 1] for row in batch["items"]]
    assert sorted(items) == list(range(64))


@pytest.mark.parametrize(
    ("accumulation", "epochs", "count"), [(1, 0.1, 1), (4, 0.1, 4), (3, 4.0, 6), (1, 4.0, 8)]
)
def test_all_pairs_are_read_in_whole_steps(optimizer, tiny_recipe, accumulation, epochs, count):
    settings = load_recipe(tiny_recipe("few-decks")).plans["kk"].alignment
    settings = replace(
        settings, optimizer=replace(optimizer, epochs=epochs, gradient_accumulation=accumulation)
    )
    said = {lang: {i: ItemTexts(f"{lang}{i}", f"{lang}{i}") for i in range(8)} for lang in ("en", "kk")}
    assert len(batches_of_pairs({"parallel": said}, settings, seed=1)) == count
