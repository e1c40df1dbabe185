"""Pairs with scores: they follow sentence encoding's objective, and alignment learns from them."""

import pytest
from trainings import SCORED_PAIRS

from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.training.pipeline import train

pytestmark = pytest.mark.slow

SCORED = [SCORED_PAIRS, "languages.kk.sentence_encoding.scored_steps=4"]


@pytest.mark.parametrize("objective", ["mnrl", "none"])
def test_graded_pairs_follow_the_objective(copied, objective):
    recipe = load_recipe(copied, [*SCORED, f"languages.kk.sentence_encoding.objective={objective}"])
    train(recipe, languages=["kk"])
    card = Hub.open(copied.parent / "hub").card("kk")
    metrics = card.stages["sentence_encoding"]["metrics"]
    assert metrics["scored"]["steps"] == 4
    # The stage's metrics cover both phases.
    assert (metrics["steps"] > 4) == (objective == "mnrl")
    assert metrics["dev_after"] == metrics["scored"]["dev_after"]
    assert [entry["source"] for entry in card.data if entry["role"] == "scored_pairs"] == ["sts.en.tsv"]


CROSS_SCORED = (
    'languages.kk.data.cross_scored_pairs=[{path="sts.{lang}.tsv", pivot_path="sts.{pivot}.tsv", key="id", '
    'translator="a rule", license="MIT"}]'
)


@pytest.mark.parametrize("objective", ["scored", "scored+parallel"])
def test_alignment_learns_from_scored_pairs(copied, objective):
    # The same pairs are the development set otherwise.
    settings = [
        "data.dev.sts=[]",
        CROSS_SCORED,
        "alignment.similarity_weight=10.0",
        "languages.kk.data.cross_paraphrases=[]",
    ]
    keep = "alignment.keep_weight=" + ("0.0" if objective == "scored" else "1.0")
    recipe = load_recipe(copied, [*settings, keep, f"languages.kk.alignment.objective={objective}"])
    train(recipe, languages=["kk"])
    card = Hub.open(copied.parent / "hub").card("kk")
    assert card.stages["alignment"]["metrics"]["steps"] == 4
    (entry,) = [entry for entry in card.data if entry["role"] == "cross_scored_pairs"]
    # Two have a sentence of a held-out translation.
    assert (entry["rows"], entry["translator"], entry["license"]) == (14, "a rule", "MIT")
    roles = {entry["role"] for entry in card.data}
    assert ("parallel" in roles) == (objective == "scored+parallel")
