"""Pairs with scores: they follow sentence encoding's objective, and alignment learns from them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from trainings import SCORED_PAIRS

from modenc.data.pairs import CrossRow, CrossScoredRow
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.settings import STAGES
from modenc.training.alignment import alignment_rows
from modenc.training.pipeline import train

pytestmark = pytest.mark.slow

SCORED = [SCORED_PAIRS, "languages.kk.sentence_encoding.scored_steps=4"]


@pytest.mark.parametrize("objective", ["mnrl", "none"])
def test_graded_pairs_follow_the_objective(copied, objective):
    recipe = load_recipe(copied, [*SCORED, f"languages.kk.sentence_encoding.objective={objective}"])
    train(recipe, languages=["kk"], stages=STAGES[:3])
    card = Hub.open(copied.parent / "hub").card("kk")
    metrics = card.stages["sentence_encoding"]["metrics"]
    assert metrics["scored"]["steps"] == 4
    # The stage's metrics cover both phases.
    first = metrics["scored"]["dev_before"]
    assert (metrics["dev_before"] == first) == (objective == "none" or metrics["best_step"] == 0)
    assert metrics["dev_after"] == metrics["scored"]["dev_after"]
    assert [entry["source"] for entry in card.data if entry["role"] == "scored_pairs"] == ["sts.en.tsv"]


CROSS_SCORED = (
    'languages.kk.data.cross_scored_pairs=[{path="sts.{lang}.tsv", pivot_path="sts.{pivot}.tsv", key="id", '
    'translator="a rule", license="MIT"}]'
)


@pytest.mark.parametrize("objective", ["scored", "scored+parallel"])
def test_alignment_learns_from_scored_pairs(copied, objective):
    settings = [CROSS_SCORED, "alignment.similarity_weight=10.0", "languages.kk.data.cross_paraphrases=[]"]
    keep = "alignment.keep_weight=" + ("0.0" if objective == "scored" else "1.0")
    recipe = load_recipe(copied, [*settings, keep, f"languages.kk.alignment.objective={objective}"])
    train(recipe, languages=["kk"])
    card = Hub.open(copied.parent / "hub").card("kk")
    assert card.stages["alignment"]["metrics"]["steps"] == 4
    (entry,) = [entry for entry in card.data if entry["role"] == "cross_scored_pairs"]
    assert (entry["rows"], entry["translator"], entry["license"]) == (16, "a rule", "MIT")
    roles = {entry["role"] for entry in card.data}
    assert ("parallel" in roles) == (objective == "scored+parallel")


@pytest.mark.parametrize("objective", ["scored", "scored+parallel", "parallel"])
def test_pairs_held_out_as_translations_are_left_out(tiny_recipe, objective):
    plan = load_recipe(tiny_recipe("held-out")).plans["kk"]
    settings = replace(plan.alignment, objective=objective)
    rows = [CrossScoredRow(f"kk {i}", f"kk {i + 1}", f"en {i}", f"en {i + 1}", 1.0) for i in range(6)]
    data = SimpleNamespace(
        plan=plan,
        cross_scored_pairs=SimpleNamespace(train=rows),
        parallel=SimpleNamespace(train=[], held_out=[SimpleNamespace(text="another", pivot="en 2")]),
    )
    assert plan.data.parallel
    # Either sentence of a pair may be the held-out one.
    kept = [] if objective == "parallel" else [rows[i] for i in (0, 3, 4, 5)]
    assert sorted(alignment_rows(data, settings, 1).get("scored", []), key=rows.index) == kept
    data.plan = replace(plan, data=replace(plan.data, parallel=()))
    kept = [] if objective == "parallel" else rows
    assert sorted(alignment_rows(data, settings, 1).get("scored", []), key=rows.index) == kept


def test_paraphrases_of_held_out_translations_are_left_out(tiny_recipe):
    """One table with groups may be both: either side of a held-out translation gives it away."""
    plan = load_recipe(tiny_recipe("held-out-paraphrases")).plans["kk"]
    rows = [CrossRow(f"kk {i}", f"en {i + 1}", None) for i in range(5)]
    data = SimpleNamespace(
        plan=plan,
        cross_paraphrases=SimpleNamespace(train=rows),
        parallel=SimpleNamespace(train=[], held_out=[SimpleNamespace(text="kk 2", pivot="en 2")]),
    )
    settings = replace(plan.alignment, objective="paraphrase")
    (found,) = alignment_rows(data, settings, 1).values()
    assert sorted(row.text for row in found) == ["kk 0", "kk 3", "kk 4"]
    data.plan = replace(plan, data=replace(plan.data, parallel=()))
    (found,) = alignment_rows(data, settings, 1).values()
    assert len(found) == 5
