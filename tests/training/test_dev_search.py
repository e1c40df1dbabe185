"""Search among the development sets: it chooses checkpoints, and stands in the comparison with the base."""

import numpy as np
import pytest
from tiny_models import sentences
from tiny_recipe import write_table

from modenc import ModularEncoder
from modenc.data.kinds import SEARCH, SearchRow
from modenc.data.sources import Source
from modenc.data.training_sets import load_dev
from modenc.errors import DataError
from modenc.evaluation.search import make_search_set, search_metrics
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.training.data_access import TrainingData
from modenc.training.pipeline import train

pytestmark = pytest.mark.slow

SEARCHED = 'data.dev.search=["search.{lang}.tsv"]'
ACROSS = 'data.dev.cross_search=[{path="search.{lang}.tsv", pivot_path="search.{pivot}.tsv", key="group"}]'


@pytest.fixture
def searched(tiny_recipe):
    """A recipe with questions, each of which is the end of a passage of four sentences."""
    path = tiny_recipe("searched")
    for lang in ("en", "kk"):
        lines = sentences(lang)
        rows = [(lines[4 * i + 3], " ".join(lines[4 * i : 4 * i + 4]), i) for i in range(12)]
        write_table(path.parent / "data" / f"search.{lang}.tsv", ("query", "passage", "group"), rows)
    return load_recipe(path, [SEARCHED, ACROSS, "run.precision=fp32"])


def test_search_chooses_checkpoints_and_is_compared_with_the_base(searched):
    train(searched)
    hub = Hub.open(searched.plans["kk"].hub)
    encoder = ModularEncoder(hub.path)
    for lang, stages in (("en", ("sentence_encoding",)), ("kk", ("sentence_encoding", "alignment"))):
        card = hub.card(lang)
        for stage in stages:
            for entry in card.stages[stage]["metrics"]["dev"]:
                scores = [value for name, value in entry.items() if name not in ("step", "score")]
                assert entry["score"] == pytest.approx(np.mean(scores), abs=1e-3)
                assert 0 < entry["search"] <= 100
                assert ("cross_search" in entry) == (stage == "alignment")
        assert card.comparison["rows"]["search"] == 12
        data = TrainingData(searched.plans[lang])
        found = make_search_set(data.search)
        for system, code in (("base", "base"), ("modules", lang)):
            sides = [encoder.encode(texts, lang=code) for texts in (found.queries, found.passages)]
            expected = search_metrics(*sides, found.answers)["ndcg_at_10"].mean() * 100
            assert card.comparison[system]["search"] == pytest.approx(expected, abs=0.5)
        assert (
            "search within the language (nDCG@10 x 100)"
            in (hub.version_folder(lang) / "README.md").read_text()
        )
    assert "cross_search" not in hub.card("en").comparison["modules"]


def test_search_across_asks_the_pivots_questions(searched):
    train(searched)
    data, card = TrainingData(searched.plans["kk"]), Hub.open(searched.plans["kk"].hub).card("kk")
    english = TrainingData(searched.plans["en"]).search
    assert data.cross_search == [
        SearchRow(asked.query, own.passage) for asked, own in zip(english, data.search, strict=True)
    ]
    assert card.comparison["rows"]["cross_search"] == 12
    found, encoder = make_search_set(data.cross_search), ModularEncoder(searched.plans["kk"].hub)
    for system, asked, own, align in (
        ("base", "base", "base", True),
        ("modules", "en", "kk", True),
        ("align=False", "en", "kk", False),
    ):
        queries = encoder.encode(found.queries, lang=asked, align=align)
        passages = encoder.encode(found.passages, lang=own, align=align)
        expected = search_metrics(queries, passages, found.answers)["ndcg_at_10"].mean() * 100
        assert card.comparison[system]["cross_search"] == pytest.approx(expected, abs=0.5)


def test_what_is_searched_is_not_trained_on(searched):
    data = TrainingData(searched.plans["kk"])
    questions = {row.query for row in data.search}
    trained = {text for row in data.paraphrases.train for text in (row.anchor, row.positive)}
    assert questions
    assert questions.isdisjoint(trained)
    assert questions.isdisjoint(row.text for row in data.parallel.train)
    asked = {row.query for row in data.cross_search}
    assert asked <= set(sentences("en"))
    assert asked.isdisjoint(row.pivot for row in data.parallel.train)


def test_dev_texts_are_cut_at_the_bases_length_not_at_that_of_a_stage(tiny_recipe, searched):
    plans = {}
    for length in (16, 32):
        path = tiny_recipe(f"cut{length}")
        for lang in ("en", "kk"):
            source = searched.plans["kk"].data.root / f"search.{lang}.tsv"
            (path.parent / "data" / source.name).write_bytes(source.read_bytes())
        lengths = [f"base.max_length={length}", "sentence_encoding.max_length=16"]
        train(load_recipe(path, [SEARCHED, "run.precision=fp32", *lengths]), languages=["en"])
        plans[length] = Hub.open(path.parent / "hub").card("en").stages["sentence_encoding"]["metrics"]["dev"]
    assert plans[16][0]["search"] != plans[32][0]["search"]


@pytest.mark.parametrize(("line", "found"), [("\tsome passage", "no query"), ("a question\t", "no passage")])
def test_a_search_row_without_a_side_is_refused(tmp_path, line, found):
    (tmp_path / "s.tsv").write_text(f"query\tpassage\na\tb\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"s.tsv, row 2: expected a query and a passage, found {found}; drop"):
        load_dev(SEARCH, [Source(path="s.tsv")], "en", root=tmp_path)
    (tmp_path / "s.tsv").write_text("query\tpassage\na\u0308 \tb\n", encoding="utf-8")
    assert load_dev(SEARCH, [Source(path="s.tsv")], "en", root=tmp_path) == [SearchRow("ä", "b")]
