"""The other papers' objectives from recipe to hub, and as whole models, on a tiny base."""

import numpy as np
import pytest
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from modenc import ModularEncoder
from modenc.errors import RecipeError
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.plan import PHASED_OBJECTIVES
from modenc.training import phases
from modenc.training.data_access import draw_rows
from modenc.training.monolithic import train_monolithic
from modenc.training.pipeline import train
from modenc.training.trainers import AuxiliaryGradients

pytestmark = pytest.mark.slow

SMALL = [
    "alignment.keep_weight=0.0",
    "alignment.optimizer.steps=8",
    "decoder.pivot_steps=4",
    "decoder.layers=1",
    "decoder.heads=4",
    "emma_x.queue=16",
    "run.precision=fp32",
]
LAST = {
    "contrastive": "contrast",
    "bitranslation": "translation",
    "vmsst": "translation",
    "vmsst_contrastive": "translation",
    "musr": "crossconst",
    "emma_x": "unpaired",
}


def _align(path, objective, *overrides):
    recipe = load_recipe(path, [f"alignment.objective={objective}", *SMALL, *overrides])
    train(recipe, languages=["kk"])
    return Hub.open(path.parent / "hub")


def _cla(hub):
    return load_file(hub.version_folder("kk") / "cla" / "adapter.safetensors")


def test_every_paper_objective_is_tried_here():
    assert set(LAST) == set(PHASED_OBJECTIVES)


@pytest.mark.parametrize("objective", LAST)
def test_modules_of_an_objective_load_and_encode(copies, objective):
    path = copies("once")
    before = {lang: Hub.open(path.parent / "hub").card(lang).files for lang in ("en", "kk")}
    # In bfloat16; what resumes to the bit is tried in float32 below.
    hub = _align(path, objective, "run.precision=bf16")
    assert hub.verify() == []
    card = hub.card("kk")
    # The pivot, and all but the alignment adapter, are as they were; nothing of a decoder is kept.
    assert hub.card("en").files == before["en"]
    changed = {name for name in card.files if card.files[name] != before["kk"].get(name)}
    assert changed <= {"cla/adapter.safetensors", "cla/adapter_config.json", "README.md"}
    stage = card.stages["alignment"]
    assert set(PHASED_OBJECTIVES[objective]) <= set(stage["settings"])
    metrics = stage["metrics"]
    assert list(metrics["phases"])[-1] == LAST[objective]
    assert metrics["steps"] == 8 + (4 if "decoder" in metrics["phases"] else 0)
    assert ("decoder" in metrics["phases"]) == ("decoder" in PHASED_OBJECTIVES[objective])
    assert {"dev_before", "dev_after"} <= set(metrics)
    vectors = ModularEncoder(path.parent / "hub").encode(["Мұғалім жаңа кітапты оқиды"], lang="kk")
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("objective", LAST)
def test_a_run_that_breaks_off_ends_like_one_that_does_not(copies, objective, monkeypatch):
    """It breaks in the last phase; the phases before are found done, and not trained again."""
    whole = _cla(_align(copies("whole"), objective, "run.checkpoint_every=2"))
    assert any(tensor.abs().max() > 0 for name, tensor in whole.items() if "up" in name)
    seen = []

    def break_off(self, args, state, *_, **__):
        seen.append(state.global_step)
        if str(args.output_dir).endswith(f"{LAST[objective]}/checkpoints") and state.global_step == 3:
            raise KeyboardInterrupt

    broken = copies("broken")
    with monkeypatch.context() as patch:
        patch.setattr(AuxiliaryGradients, "on_step_end", break_off)
        with pytest.raises(KeyboardInterrupt):
            _align(broken, objective, "run.checkpoint_every=2")
    first = len(seen)
    with monkeypatch.context() as patch:
        patch.setattr(AuxiliaryGradients, "on_step_end", lambda self, args, state, *_, **__: seen.append(0))
        resumed = _cla(_align(broken, objective, "run.checkpoint_every=2"))
    # All of the last phase, without the two steps before the last checkpoint.
    total = {"musr": 4, "emma_x": 4}.get(objective, 8)
    assert len(seen) - first == total - 2
    assert whole.keys() == resumed.keys()
    assert all(whole[name].equal(resumed[name]) for name in whole)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5e-4), (1.0, 1e-3)])
def test_phase_2_of_emma_x_has_a_rate_of_its_own(copies, monkeypatch, share, expected):
    rates = {}
    made = phases._optimizer

    def noted(settings, model, phase):
        optimizer = made(settings, model, phase)
        rates[phase.name] = [group["lr"] for group in optimizer.param_groups]
        return optimizer

    monkeypatch.setattr(phases, "_optimizer", noted)
    rate = ["alignment.optimizer.learning_rate=1e-3", f"emma_x.unpaired_rate_share={share}"]
    _align(copies("rates"), "emma_x", *rate, "emma_x.classifier_learning_rate=1e-2")
    assert rates == {"warmup": [1e-3, 1e-2], "unpaired": [expected, 1e-2]}


def test_what_an_objective_cannot_do_is_said(trained):
    with pytest.raises(RecipeError, match=r"keep_weight: with objective = 'musr' expected 0\.0; found 1\.0"):
        load_recipe(trained, ["alignment.objective=musr"])
    with pytest.raises(RecipeError, match=r"with partners = 'all' expected joint, paraphrase, parallel"):
        load_recipe(trained, ["alignment.objective=vmsst", "alignment.partners=all", *SMALL])
    with pytest.raises(RecipeError, match=r"'emma_x' needs data\.text"):
        load_recipe(trained, ["alignment.objective=emma_x", "languages.kk.data.text=[]", *SMALL])
    with pytest.raises(RecipeError, match=r"'emma_x' needs data\.text of the pivot too"):
        load_recipe(trained, ["alignment.objective=emma_x", "languages.en.data.text=[]", *SMALL])


def test_heads_that_do_not_share_the_hidden_size_are_refused(copies):
    with pytest.raises(RecipeError, match=r"decoder\.heads: expected a divisor of .* 32; found 5"):
        _align(copies("heads"), "musr", "decoder.heads=5")


@pytest.mark.parametrize("objective", LAST)
def test_one_model_learns_by_an_objective(tiny_recipe, tmp_path, objective):
    steps = ["monolithic.optimizer.steps=4", "monolithic.optimizer.batch_size=8", "data.dev.sts=[]"]
    recipe = load_recipe(tiny_recipe("mono"), [f"monolithic.objective={objective}", *steps, *SMALL])
    metrics = train_monolithic(recipe, tmp_path / "model")[objective]
    assert metrics["steps"] == 4
    model = SentenceTransformer(str(tmp_path / "model"))
    # VMSST's vector is a projection, and kept.
    assert len(model) == (3 if objective in ("bitranslation", "vmsst", "vmsst_contrastive") else 2)
    assert np.isfinite(model.encode(["Мұғалім жаңа кітапты оқиды", "My brother reads"])).all()
    assert not recipe.hub.exists()


def test_languages_are_drawn_by_temperature():
    groups = {"small": list(range(10)), "large": list(range(100, 1000)), "none": []}
    for exponent, share in ((1.0, 10 / 910), (0.5, 10**0.5 / (10**0.5 + 900**0.5)), (0.0, 0.5)):
        rows = draw_rows(groups, 2000, exponent, seed=1)
        assert len(rows) == 2000
        small = sum(row < 100 for row in rows)
        assert small == pytest.approx(2000 * share, abs=1)
        # Mixed, and the small one's rows equally often.
        assert sum(row < 100 for row in rows[:1000]) == pytest.approx(small / 2, abs=60)
        counts = np.bincount([row for row in rows if row < 100], minlength=10)
        assert counts.max() - counts.min() <= 1
    assert draw_rows(groups, 50, 0.5, seed=1) == draw_rows(groups, 50, 0.5, seed=1)
    assert draw_rows(groups, 50, 0.5, seed=1) != draw_rows(groups, 50, 0.5, seed=2)
