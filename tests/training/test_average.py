"""``adapters_hub/average.py``: the alignments of two trainings are averaged, weight by weight."""

import runpy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from modenc.errors import HubError
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.training.pipeline import train

AVERAGE = Path(__file__).resolve().parents[2] / "adapters_hub" / "average.py"
WEIGHTS = "cla/adapter.safetensors"

pytestmark = pytest.mark.slow


@pytest.fixture
def average():
    return runpy.run_path(str(AVERAGE))["average"]


def test_weights_are_averaged_and_the_card_says_so(average, copied, trained):
    again = load_recipe(copied, ["alignment.optimizer.learning_rate=0.004"])
    train(again, languages=["kk"])
    other, hub = Hub.open(load_recipe(trained).hub), Hub.open(again.hub)
    before, own = hub.card("kk"), load_file(hub.version_folder("kk") / WEIGHTS)
    others = load_file(other.version_folder("kk") / WEIGHTS)
    average(again, other, 0.25, ["kk"])
    card, averaged = hub.card("kk"), load_file(hub.version_folder("kk") / WEIGHTS)
    assert any(not torch.equal(own[name], others[name]) for name in own)
    for name, tensor in averaged.items():
        expected = 0.75 * own[name].float() + 0.25 * others[name].float()
        assert torch.allclose(tensor.float(), expected, atol=1e-3, rtol=1e-3)
    assert hub.verify() == []
    assert card.version != before.version
    assert card.comparison != before.comparison
    assert card.comparison["rows"] == before.comparison["rows"]
    found = card.stages["alignment"]["metrics"]["averaged_with"]
    assert found == {"version": other.card("kk").version, "share": 0.25}


def test_a_language_without_alignment_is_refused(average, copied):
    recipe = load_recipe(copied)
    with pytest.raises(HubError, match="expected a language's alignment, found none; average languages"):
        average(recipe, Hub.open(recipe.hub), 0.5, ["en"])
