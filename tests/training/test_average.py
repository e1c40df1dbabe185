"""``adapters_hub/average.py``: the alignments of two trainings are averaged, weight by weight."""

import runpy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from modenc.cli.main import main
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


def test_weights_are_averaged_and_the_card_says_so(average, copied, trained, capsys, monkeypatch):
    again = load_recipe(copied, ["alignment.optimizer.learning_rate=0.004"])
    train(again, languages=["kk"])
    other, hub = Hub.open(load_recipe(trained).hub), Hub.open(again.hub)
    before, own = hub.card("kk"), load_file(hub.version_folder("kk") / WEIGHTS)
    others = load_file(other.version_folder("kk") / WEIGHTS)
    measured, real = {}, average.__globals__["compare_with_base"]

    def compare(data, modules):
        found = real(data, modules)
        # Tiny trainings are too alike for a difference in what is measured.
        return measured.setdefault(data.plan.lang, {**found, "rows": {"sts": 3}})

    monkeypatch.setitem(average.__globals__, "compare_with_base", compare)
    average(again, other, 0.25, ["kk"])
    card, averaged = hub.card("kk"), load_file(hub.version_folder("kk") / WEIGHTS)
    assert any(not torch.equal(own[name], others[name]) for name in own)
    for name, tensor in averaged.items():
        expected = 0.75 * own[name].float() + 0.25 * others[name].float()
        assert torch.allclose(tensor.float(), expected, atol=1e-3, rtol=1e-3)
    assert hub.verify() == []
    assert card.version != before.version
    assert card.comparison == measured["kk"]
    found = card.stages["alignment"]["metrics"]["averaged_with"]
    assert found == {"version": other.card("kk").version, "share": 0.25}
    main(["hub", "show", "--hub", str(hub.path), "--lang", "kk"])
    assert ", averaged " in capsys.readouterr().out
    with pytest.raises(HubError, match="kk: its alignment is an average already; train or install it again"):
        average(again, other, 0.25, ["kk"])


@pytest.mark.parametrize(
    ("lang", "setting", "message"),
    [
        ("en", None, "en: expected alignment in both hubs; average languages that have it"),
        ("tr", None, "tr: expected a language of the recipe, found none; name its recipe"),
        ("kk", "run.seed=14", "kk: expected trainings of one seed, found two"),
        ("kk", "sentence_encoding.lora.rank=2", "kk: expected the same se in both hubs, found two"),
    ],
)
def test_what_cannot_be_averaged_is_refused_and_nothing_is_published(
    average, copied, trained, lang, setting, message
):
    recipe = load_recipe(copied, [setting] if setting else [])
    if setting:
        train(recipe, languages=["kk"])
    before = Hub.open(recipe.hub).card("kk")
    with pytest.raises(HubError, match=message):
        average(recipe, Hub.open(load_recipe(trained).hub), 0.5, ["kk", lang] if lang != "kk" else ["kk"])
    assert Hub.open(recipe.hub).card("kk") == before
