"""Suites: what is in them is checked at once, and what they measure is right, or visibly wrong."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tiny_recipe import write_table
from tiny_suites import columns, task

from modenc.errors import DataError, RecipeError
from modenc.evaluation.results import load_results, markdown, save_results
from modenc.evaluation.runner import run_suite
from modenc.evaluation.suite import load_suite

BOTH = ["en", "kk"]
SUITE = 'description = "a small world"\n' + "".join(
    [
        task("sim", "sts", "sts.{lang}.tsv", languages=BOTH),
        task("sim", "sts", "sts.{pivot}-{lang}.tsv", pairs=["en-kk", "kk-en"]),
        task("bi", "bitext", columns("bitext.tsv"), pairs=["en-kk"]),
        task(
            "topic",
            "classification",
            "topic.test.{lang}.tsv",
            train="topic.train.{lang}.tsv",
            dev="topic.dev.{lang}.tsv",
            languages=BOTH,
        ),
        task("shape", "geometry", {"path": "topic.test.{lang}.tsv"}, languages=BOTH),
        task("held-out", "sts", "nowhere.{lang}.tsv", languages=["ky"], optional=True),
    ]
)

SHIPPED = sorted(path.stem for path in Path(__file__).parents[2].glob("recipes/suites/*.toml"))

RNG = np.random.default_rng(0)
MEANINGS = {number: RNG.normal(size=12) for number in range(60)}


class World:
    """An encoder of made-up texts such as ``kk 17``: meaning 17, with some noise of the text's own."""

    def __init__(self, name="world", noise=0.3):
        self.name = name
        self.noise = noise
        self.asked = []

    def encode(self, texts, lang):
        self.asked += [(lang, text) for text in texts]
        rows = []
        for text in texts:
            code, number = text.split()
            assert code == lang
            rng = np.random.default_rng([ord(char) for char in text])
            rows.append(MEANINGS[int(number)] + self.noise * rng.normal(size=12))
        return np.asarray(rows, dtype=np.float32)

    def describe(self):
        return {"kind": "made up"}


@pytest.fixture
def data(tmp_path):
    root = tmp_path / "data"
    root.mkdir()

    def gold(i, j):
        a, b = MEANINGS[i], MEANINGS[j]
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    pairs = [(i, j) for i in range(0, 60, 2) for j in (i + 1, (i * 7 + 3) % 60)]
    for left, right in (("en", "en"), ("kk", "kk"), ("en", "kk"), ("kk", "en")):
        name = f"sts.{left}.tsv" if left == right else f"sts.{left}-{right}.tsv"
        rows = [(gold(i, j), f"{left} {i}", f"{right} {j}") for i, j in pairs]
        write_table(root / name, ("score", "sentence1", "sentence2"), rows)
    write_table(root / "bitext.tsv", ("en", "kk"), [(f"en {i}", f"kk {i}") for i in range(60)])
    for lang in ("en", "kk"):
        for split, numbers in (("train", range(40)), ("dev", range(40, 50)), ("test", range(50, 60))):
            rows = [(i, "up" if MEANINGS[i][0] > 0 else "down", f"{lang} {i}") for i in numbers]
            write_table(root / f"topic.{split}.{lang}.tsv", ("id", "label", "text"), rows)
    return root


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SUITE, encoding="utf-8")
    return load_suite(path)


def _values(outcome):
    return {result.key: result.value for result in outcome.results}


def test_every_task_is_measured_in_every_language(suite, data):
    world = World()
    outcome = run_suite(world, suite, data, seed=1)
    values = _values(outcome)
    assert set(values) == {
        "sim.spearman.en",
        "sim.spearman.kk",
        "sim.spearman.en-kk",
        "sim.spearman.kk-en",
        "sim.language_bias.",
        "bi.xsim_error.en-kk",
        "bi.xsim_error_cosine.en-kk",
        "bi.hubness.en-kk",
        "bi.mining_f1.en-kk",
        "bi.mining_f1_cosine.en-kk",
        "topic.accuracy.en",
        "topic.accuracy.kk",
        "topic.zero_shot_accuracy.en-kk",
        "shape.rsim.en-kk",
        "shape.invariance.en-kk",
        "shape.calinski_harabasz.en-kk",
        "shape.isotropy.en-kk",
    }
    assert values["sim.spearman.kk"] > 80
    assert values["bi.xsim_error.en-kk"] < 10
    assert outcome.skipped == ["nowhere.ky.tsv"]
    for result in outcome.results:
        if result.low is not None:
            assert result.low <= result.value <= result.high
    # Each distinct text is encoded once.
    assert len(world.asked) == len(set(world.asked))


@pytest.mark.slow
def test_results_come_back_as_they_were_stored_and_stand_side_by_side(suite, data, tmp_path):
    stored = []
    for name, noise in (("noisy", 1.5), ("clear", 0.1)):
        results = run_suite(World(name, noise), suite, data, seed=1)
        save_results(results, tmp_path / name)
        again = load_results(tmp_path / name)
        assert dataclasses.replace(again, items={}) == dataclasses.replace(results, items={})
        assert all(np.array_equal(again.items[key], results.items[key]) for key in results.items)
        stored.append(again)
    table = markdown(stored)
    (row,) = [line for line in table.splitlines() if line.startswith("| spearman | kk |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert float(cells[3].split()[0]) < float(cells[4].split()[0])
    assert float(cells[5]) < 0.05
    assert "| sim | spearman | within, 2 sets |" in table
    assert "Not found, skipped: nowhere.ky.tsv." in table


def test_no_results_to_load(tmp_path):
    with pytest.raises(DataError, match="expected results of `modenc eval`, found none to read"):
        load_results(tmp_path)


def test_all_issues_of_a_suite_are_named(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(
        'description = ""\n[[task]]\nname = "a"\nkind = "stss"\ndata = "a.tsv"\nlangs = ["en"]\n', "utf-8"
    )
    with pytest.raises(RecipeError, match=r"suite 'wrong' has 2 issue\(s\):\n.*task\[0\]") as caught:
        load_suite(path)
    assert "task[0].langs: unknown key; did you mean 'languages'?" in str(caught.value)
    path.write_text('description = ""\n[[task]]\nname = "a"\nkind = "bitext"\ndata = "a.tsv"\n', "utf-8")
    with pytest.raises(RecipeError, match="found neither"):
        load_suite(path)
    twice = SUITE.replace('languages = ["en", "kk"]', 'languages = ["en", "en"]', 1)
    path.write_text(twice.replace('name = "bi"', 'name = "b/i"'), "utf-8")
    with pytest.raises(RecipeError, match="'sim' has 'en' twice; give one of them another name") as caught:
        load_suite(path)
    assert "task[2].name: expected letters, digits, '_' and '-', found 'b/i'" in str(caught.value)
    with pytest.raises(RecipeError, match="did you mean 'turkic'"):
        load_suite("turkik")


def test_a_suite_has_tasks(tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text("task = []\n", "utf-8")
    with pytest.raises(RecipeError, match=r"task: expected tasks, found none; add a \[\[task\]\]"):
        load_suite(path)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_suites_are_sound(name):
    suite = load_suite(name)
    assert suite.name == name
    assert suite.task
