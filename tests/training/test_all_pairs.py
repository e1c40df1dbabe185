"""All languages aligned with each other in one training."""

import numpy as np
import pytest
from trainings import (
    NO_DEV,
    fingerprints,
    kill_once_saved,
    resumptions,
    training_again_changes_nothing,
    undisturbed,
)

from modenc import ModularEncoder
from modenc.errors import RecipeError
from modenc.hub.layout import parts_in
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.training import pipeline
from modenc.training.pipeline import run_stage_job, stage_jobs, train
from modenc.training.stage import training_lock

pytestmark = pytest.mark.slow

ALL_PAIRS = [
    "alignment.partners=all",
    "alignment.keep_weight=0",
    "alignment.pivot_negatives=0",
    "languages.en.alignment.objective=joint",
]


def test_all_languages_can_be_aligned_with_each_other(tiny_recipe, caplog):
    path = tiny_recipe("all-pairs")
    recipe = load_recipe(path, [*ALL_PAIRS, *NO_DEV])
    folders = train(recipe)
    assert list(folders) == ["en", "kk"]
    hub = Hub.open(path.parent / "hub")
    assert hub.verify() == []
    encoder = ModularEncoder(hub.path)
    for lang in ("en", "kk"):
        assert set(parts_in(hub.version_folder(lang))) == {"embeddings", "tokenizer", "la", "se", "cla"}
        # Four steps for each language but the pivot.
        assert hub.card(lang).stages["alignment"]["metrics"]["steps"] == 4
        texts = ["My brother reads", "Мұғалім жаңа кітапты оқиды"]
        assert not np.allclose(*(encoder.encode(texts, lang=lang, align=align) for align in (True, False)))
    training_again_changes_nothing(recipe, hub, caplog)
    caplog.clear()
    with caplog.at_level("INFO", logger="modenc"):
        train(recipe, force=True)
    assert caplog.text.count("all pairs: alignment: joint") == 1
    train(load_recipe(path, [*ALL_PAIRS, *NO_DEV, "alignment.optimizer.steps=3"]))
    assert hub.card("en").stages["alignment"]["metrics"]["steps"] == 3
    # Back to a pivot that rests.
    train(load_recipe(path))
    assert "cla" not in parts_in(hub.version_folder("en"))
    assert hub.verify() == []


def test_all_pairs_is_for_all_languages_at_once(tiny_recipe):
    path = tiny_recipe("all-pairs-of-some")
    with pytest.raises(RecipeError, match="trains all languages of the recipe in one; leave --lang out"):
        train(load_recipe(path, ALL_PAIRS), languages=["kk"])
    with pytest.raises(RecipeError, match="the pivot too; found otherwise for en"):
        load_recipe(path, ALL_PAIRS[:3])
    few = [*ALL_PAIRS, "alignment.optimizer.batch_size=5000"]
    with pytest.raises(RecipeError, match=r"whose data\.cross_paraphrases share 5000 pivot sentences"):
        train(load_recipe(path, few))


@pytest.mark.end_to_end
def test_a_killed_training_of_all_pairs_resumes(tiny_recipe, tmp_path, caplog):
    path = tiny_recipe("all-pairs-killed")
    for job in stage_jobs(load_recipe(path, ALL_PAIRS))[:-1]:
        run_stage_job(load_recipe(path, ALL_PAIRS), job)
    steps = [*ALL_PAIRS, "alignment.optimizer.steps=60"]
    right = undisturbed(path, steps, tmp_path)
    words = ["train", str(path), *steps]
    kill_once_saved(words, path.parent / "runs" / "en" / "alignment" / "checkpoints")
    hub = Hub.open(path.parent / "hub")
    assert hub.verify() == []
    assert resumptions(words, caplog) == 1
    assert hub.card("en").stages["alignment"]["metrics"]["steps"] == 60
    assert fingerprints(hub) == right


def test_all_pairs_holds_every_language(tiny_recipe, monkeypatch):
    path = tiny_recipe("all-pairs-held")
    recipe, runs = load_recipe(path, ALL_PAIRS), path.parent / "runs"
    refused = []

    def align(*_):
        for lang in recipe.plans:
            with (
                pytest.raises(RecipeError, match="another training is running"),
                training_lock(runs / lang),
            ):
                pass
            refused.append(lang)
        return {}

    monkeypatch.setattr(pipeline._Training, "run", align)
    train(recipe)
    assert refused == ["en", "kk"] * 7
    refused.clear()
    for lang in recipe.plans:
        with training_lock(runs / lang), pytest.raises(RecipeError, match=f"{lang}: another training is"):
            train(recipe)
    assert not refused
