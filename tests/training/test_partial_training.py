"""A training of some stages: the hub keeps a whole language until the new one is whole."""

import json

import pytest
from trainings import hashes

from modenc.cli.main import main
from modenc.errors import LanguageError, RecipeError
from modenc.hub.store import Hub
from modenc.hub.verify import verify_hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.settings import STAGES
from modenc.training import pipeline
from modenc.training.pipeline import stage_jobs, train

pytestmark = pytest.mark.slow

KEEPS = "kk: the hub keeps its modules until alignment is done"
# Without stages 1 and 2.
SHORT = ["vocabulary.method=base", "language_adaptation.objective=none"]


@pytest.mark.parametrize(
    ("overrides", "stages", "force"),
    [
        ([], ["vocabulary", "alignment"], True),
        (["vocabulary.size=310"], ["vocabulary", "sentence_encoding"], False),
        (["language_adaptation.strength=0.7"], ["alignment"], True),
    ],
)
def test_train_refuses_stages_that_others_need_before_it_discards_any(copied, overrides, stages, force):
    before = hashes(copied.parent)
    with pytest.raises(RecipeError, match=r"kk: stage language_adaptation .* a later stage needs it"):
        stage_jobs(load_recipe(copied, overrides), languages=["kk"], stages=stages, force=force)
    after = {name: mark for name, mark in hashes(copied.parent).items() if not name.endswith(".lock")}
    assert after.items() <= before.items()
    assert {name for name in before if not name.endswith(".lock")} == set(after)


def test_train_takes_one_name_as_a_str_and_several_as_an_iterator(copied):
    recipe = load_recipe(copied, "alignment.scale=7.0", languages="kk")
    assert (recipe.checked, recipe.plans["kk"].alignment.scale) == ({"kk"}, 7.0)
    expected = stage_jobs(recipe, languages=["kk"], stages=["alignment"])
    assert stage_jobs(recipe, languages="kaz", stages="alignment") == expected
    assert stage_jobs(recipe, languages=iter(["kk"]), stages=iter(["alignment"])) == expected


def test_train_refuses_a_choice_of_nothing(copied):
    before, recipe = hashes(copied.parent), load_recipe(copied)
    with pytest.raises(LanguageError, match="languages: expected at least one, found none; leave it out"):
        stage_jobs(recipe, languages=[], force=True)
    with pytest.raises(RecipeError, match="stages: expected at least one, found none; leave it out"):
        stage_jobs(recipe, stages=[], force=True)
    assert hashes(copied.parent) == before


def test_hub_keeps_a_finished_language_until_all_stages_are_done(copied, caplog):
    recipe, hub = load_recipe(copied), Hub.open(copied.parent / "hub")
    before = hashes(hub.path)
    folders = train(recipe, languages=["kk"], stages=["sentence_encoding"], force=True)
    assert hashes(hub.path) == before
    assert caplog.text.count(KEEPS) == 1
    assert folders == {"kk": copied.parent / "runs/kk/sentence_encoding/kk"}
    caplog.clear()
    changed = load_recipe(copied, ["sentence_encoding.scale=10.0"])
    train(changed, languages=["kk"], stages=["sentence_encoding"])
    assert hashes(hub.path) == before
    assert train(changed, languages=["kk"], stages=["alignment"]) == {"kk": hub.path / "kk"}
    assert caplog.text.count(KEEPS) == 1
    card = hub.card("kk")
    assert card.stages["sentence_encoding"]["settings"]["scale"] == 10.0
    assert card.parts == ("tokenizer", "embeddings", "la", "se", "cla")
    assert verify_hub(hub) == []
    # All is done, and nothing is left to say.
    caplog.clear()
    train(changed, languages=["kk"], stages=["vocabulary"])
    assert "until" not in caplog.text


def test_hub_keeps_a_finished_language_when_a_training_is_cut_off(copied, monkeypatch):
    recipe, hub = load_recipe(copied, ["sentence_encoding.scale=10.0"]), Hub.open(copied.parent / "hub")
    before = hashes(hub.path / "kk")

    def cut_off(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(pipeline._STAGE_FUNCTIONS, "alignment", cut_off)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, languages=["kk"])
    assert hashes(hub.path / "kk") == before
    train(recipe, languages=["kk"])
    assert hub.card("kk").stages["sentence_encoding"]["settings"]["scale"] == 10.0


def test_modules_that_were_trained_by_force_are_published_by_the_next_training(copied, monkeypatch):
    recipe, hub = load_recipe(copied), Hub.open(copied.parent / "hub")
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "publish_language", lambda *_, **__: None)  # killed before
        train(recipe, languages=["kk"], stages=["alignment"], force=True)
    weights = copied.parent / "runs/kk/alignment/kk/cla/adapter.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + bytes(4))  # another result of the same settings
    train(recipe, languages=["kk"])
    assert (hub.layout("kk").cla / "adapter.safetensors").read_bytes() == weights.read_bytes()


def test_a_language_is_in_no_hub_before_all_of_its_stages_are_done(tiny_recipe, caplog, capsys):
    path = tiny_recipe("by-stages")
    words = ["train", str(path), "--json", "--lang", "en"]
    assert main([*words, "--stage", "vocabulary"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"languages": {"en": str(path.parent / "runs/en/vocabulary/en")}}
    # The pivot has no alignment of its own.
    assert "en: not in the hub until language_adaptation, sentence_encoding are done" in caplog.text
    assert Hub.open(path.parent / "hub").languages() == []
    assert main([*words, "--stage", "language_adaptation", "--stage", "sentence_encoding"]) == 0
    hub = Hub.open(path.parent / "hub")
    assert hub.languages() == ["en"]
    assert set(hub.card("en").stages) == set(STAGES)
    assert verify_hub(hub) == []


def test_stages_that_have_nothing_to_do_need_not_be_chosen(tiny_recipe):
    path = tiny_recipe("short-plan")
    recipe = load_recipe(path, SHORT)
    folders = train(recipe, languages=["en"], stages=["vocabulary", "sentence_encoding"])
    assert folders == {"en": recipe.hub / "en"}
    assert Hub.open(recipe.hub).card("en").parts == ("se",)
