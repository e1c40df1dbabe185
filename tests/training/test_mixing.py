"""Several data sets in one training: which rows are read, and how often."""

from collections import Counter
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import pytest
from datasets import Dataset
from torch import nn

from modenc.base_model import resolve_base
from modenc.data.kinds import CrossRow, ParaphraseRow
from modenc.errors import RecipeError
from modenc.recipe.loader import load_recipe
from modenc.training.alignment import alignment_rows
from modenc.training.all_pairs import batches_of_pairs
from modenc.training.body_module import sentence_model
from modenc.training.data_access import TrainingData, draw_rows
from modenc.training.dev import DevEvaluator
from modenc.training.phases import ObjectiveInputs
from modenc.training.sentence_encoding import paraphrase_set
from modenc.training.stage import Stage
from modenc.training.trainers import order_rows, train_sentence_model


@pytest.fixture
def optimizer(tiny_recipe):
    """Settings that read the data once, eight rows a step."""
    plan = load_recipe(tiny_recipe("optimizer")).plans["en"]
    return replace(plan.alignment.optimizer, steps=0, epochs=1.0, batch_size=8)


def mix(**sizes):
    """Sets of so many numbered rows: ``one=100``."""
    return {name: Dataset.from_dict({"text": list(range(size))}) for name, size in sizes.items()}


def batches_of(rows, size=8, column="text"):
    """The rows of a set, batch by batch."""
    numbers = rows[column]
    return [list(numbers[start : start + size]) for start in range(0, len(numbers), size)]


def test_sets_have_as_many_batches_as_the_largest(optimizer):
    rows, settings = order_rows(mix(small=24, large=165), optimizer, 13)
    assert settings.steps == 40
    assert [len(found) for found in rows.values()] == [160, 160]
    seen = Counter(rows["large"]["text"])
    assert set(seen.values()) == {1}
    again = batches_of(rows["small"])
    assert sorted(chain(*again[:3])) == sorted(chain(*again[3:6])) == list(range(24))
    assert again[:3] != again[3:6]


def test_a_training_reads_as_many_rows_as_its_steps_need(optimizer):
    settings = replace(optimizer, steps=5, gradient_accumulation=3)
    rows, _ = order_rows(mix(one=1000, two=1000), settings, 13)
    # 15 batches in turn: 8 and 7.
    assert [len(found) for found in rows.values()] == [64, 64]


def test_passages_stay_in_their_order(optimizer):
    passages = Dataset.from_dict({"passage": ["a", "b", "c"], "query": ["x", "y", "z"]})
    rows, _ = order_rows({"passages": passages, **mix(other=7)}, replace(optimizer, batch_size=2), 13)
    assert rows["passages"]["passage"] == ["a", "b"] * 3


def test_a_batch_is_no_larger_than_the_smallest_set(optimizer):
    rows, settings = order_rows(mix(few=5, many=32), optimizer, 13)
    assert (settings.batch_size, settings.steps) == (5, 12)
    assert [sorted(batch) for batch in batches_of(rows["few"], 5)] == [list(range(5))] * 6
    with pytest.raises(RecipeError, match="none: expected 1 row of training data or more, found 0; add"):
        order_rows(mix(none=0), optimizer, 13)


def test_a_trainer_reads_the_sets_in_turn(tiny_recipe, tmp_path):
    recipe = load_recipe(tiny_recipe("read"))
    plan, base = recipe.plans["en"], resolve_base(recipe.plans["en"].base.model)
    stage = Stage("alignment", plan, base, TrainingData(plan), tmp_path, None)
    model = sentence_model(base.load_body(), base.load_tokenizer(), plan, 32)
    read = []

    class Recorder(nn.Module):
        def forward(self, features, labels):
            read.append(labels.tolist())
            return model(features[0])["sentence_embedding"].sum()

    numbers = {name: list(range(first, first + 16)) for name, first in (("one", 0), ("two", 100))}
    sets = {
        name: Dataset.from_dict({"text": ["word"] * 16, "label": labels}) for name, labels in numbers.items()
    }
    settings = replace(plan.alignment.optimizer, steps=5, batch_size=4)
    train_sentence_model(stage, settings, model, sets, {"one": Recorder(), "two": Recorder()}, DevEvaluator())
    ordered, _ = order_rows(sets, settings, plan.run.seed)
    one, two = (batches_of(found, 4, "label") for found in ordered.values())
    assert read == [one[0], two[0], one[1], two[1], one[2]]


def test_pairs_beside_triplets_get_a_negative_of_them():
    triplets = [ParaphraseRow(f"a{i}", f"p{i}", f"n{i}") for i in range(10)]
    pairs = [ParaphraseRow(f"x{i}", f"y{i}", None) for i in range(3)]
    found = paraphrase_set([*triplets, *pairs], seed=1)
    assert found["negative"][:10] == [f"n{i}" for i in range(10)]
    assert set(found["negative"][10:]) <= set(found["negative"][:10])
    assert paraphrase_set(pairs, seed=1).column_names == ["anchor", "positive"]


def test_an_alignment_that_ends_within_a_turn_reads_no_row_again(tiny_recipe, optimizer):
    plan = load_recipe(tiny_recipe("turns")).plans["kk"]
    data, settings = TrainingData(plan), replace(plan.alignment, optimizer=replace(optimizer, steps=3))
    rows = alignment_rows(data, settings, seed=1)
    sets = {kind: Dataset.from_dict({"text": [row.text for row in part]}) for kind, part in rows.items()}
    ordered, _ = order_rows(sets, settings.optimizer, 13)
    for kind, found in ordered.items():
        assert sorted(found["text"]) == sorted(sets[kind]["text"])


@pytest.mark.parametrize(("exponent", "rows"), [(0.0, 2 * 400), (0.5, 20 * (20 + 10)), (1.0, 500)])
def test_drawn_languages_are_read_until_the_largest_was(optimizer, exponent, rows):
    pairs = {lang: [CrossRow("a", "b")] * count for lang, count in {"kk": 400, "tr": 100}.items()}
    inputs = ObjectiveInputs(None, SimpleNamespace(optimizer=optimizer), None, None, pairs, {})
    assert inputs.steps(exponent) == -(-rows // 8)
    order = draw_rows({lang: [lang] * len(found) for lang, found in pairs.items()}, rows, exponent, seed=1)
    assert order.count("kk") == 400


def test_all_pairs_of_languages_are_read_as_often_as_epochs_says(optimizer, tiny_recipe):
    settings = load_recipe(tiny_recipe("decks")).plans["kk"].alignment
    settings = replace(settings, optimizer=optimizer)
    said = {
        lang: {i: ParaphraseRow(f"{lang}{i}", f"{lang}{i}") for i in range(count)}
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
    said = {lang: {i: ParaphraseRow(f"{lang}{i}", f"{lang}{i}") for i in range(8)} for lang in ("en", "kk")}
    assert len(batches_of_pairs({"parallel": said}, settings, seed=1)) == count
