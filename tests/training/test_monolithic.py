"""The baselines that train all parameters of one model."""

import numpy as np
import pytest
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from modenc.base_model import resolve_base
from modenc.cli.main import main
from modenc.errors import RecipeError
from modenc.recipe.loader import load_recipe
from modenc.training import data_access, monolithic
from modenc.training.data_access import TrainingData
from modenc.training.monolithic import train_monolithic

FEW = ["monolithic.optimizer.steps=2", "monolithic.optimizer.batch_size=8", "monolithic.max_length=32"]
# Without a dev set the last weights are kept, whether or not so few steps helped.
BLIND = ["data.dev.sts=[]"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "phases"),
    [
        ("pivot", {"pivot": 2}),
        ("monolingual+cross", {"monolingual": 2, "cross": 2}),
    ],
)
def test_one_model_learns_and_loads_anywhere(tiny_recipe, tmp_path, objective, phases):
    recipe = load_recipe(tiny_recipe("mono"), [*FEW, *BLIND, f"monolithic.objective={objective}"])
    metrics = train_monolithic(recipe, tmp_path / "model")
    assert {phase: found["steps"] for phase, found in metrics.items()} == phases
    model = SentenceTransformer(str(tmp_path / "model"))
    assert np.isfinite(model.encode(["Мұғалім жаңа кітапты оқиды", "My brother reads"])).all()
    learned = load_file(tmp_path / "model" / "model.safetensors")
    start = resolve_base(recipe.plans["en"].base.model).load_body().state_dict()
    moved = {name for name in start if name in learned and not learned[name].equal(start[name])}
    # The words that the batches hold, and every layer.
    assert "embeddings.word_embeddings.weight" in moved
    assert {name for name in moved if name.startswith("encoder.layer.1.attention.self.query")}
    assert not recipe.hub.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


@pytest.mark.slow
def test_the_same_recipe_gives_the_same_model(tiny_recipe, tmp_path, capsys):
    path = tiny_recipe("mono-again")
    weights = []
    for name in ("first", "second"):
        work = f"run.work_dir={tmp_path}/{name}-work"
        words = ["train", str(path), "--monolithic", str(tmp_path / name), work]
        assert main([*words, *FEW, *BLIND]) == 0
        weights.append(load_file(tmp_path / name / "model.safetensors"))
    assert capsys.readouterr().out == f"{tmp_path}/first\n{tmp_path}/second\n"
    assert all(weights[0][key].equal(weights[1][key]) for key in weights[0])


def test_a_folder_of_other_files_is_not_touched(tiny_recipe, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    path = tiny_recipe("mono-safe")
    with pytest.raises(RecipeError, match="expected no such folder, or an empty one; found files"):
        train_monolithic(load_recipe(path, [*FEW, *BLIND]), tmp_path)
    assert main(["train", str(path), "--monolithic", str(tmp_path / "x"), "--lang", "kk"]) == 2
    assert "leave out --on, --lang and --force" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_language_with_settings_of_its_own_is_refused(tiny_recipe, tmp_path):
    overrides = ["monolithic.objective=musr", "languages.kk.decoder.layers=1"]
    recipe = load_recipe(tiny_recipe("mono-own"), [*FEW, *overrides])
    with pytest.raises(RecipeError, match=r"languages\.kk: expected the same settings .* than 'en' has; set"):
        train_monolithic(recipe, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_without_data_the_objective_is_refused(tiny_recipe, tmp_path):
    overrides = ["languages.kk.data.cross_paraphrases=[]", "languages.kk.alignment.objective=parallel"]
    recipe = load_recipe(tiny_recipe("mono-none"), [*FEW, *overrides, "monolithic.objective=cross"])
    with pytest.raises(RecipeError, match=r"monolithic\.objective: 'cross' needs data\.cross_paraphrases"):
        train_monolithic(recipe, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "kinds"),
    [
        ("pivot", {"en paraphrases"}),
        ("monolingual", {"en paraphrases", "kk paraphrases"}),
        # Held-out translations are left out of what it learns from.
        ("cross", {"kk cross_paraphrases", "kk parallel"}),
        ("contrastive", {"kk parallel"}),
    ],
)
def test_one_model_reads_only_what_it_learns_from(tiny_recipe, tmp_path, monkeypatch, objective, kinds):
    read, real = set(), data_access.load

    def load(kind, sources, lang, *rest, **options):
        if sources:
            read.add(f"{lang} {kind.name}")
        return real(kind, sources, lang, *rest, **options)

    monkeypatch.setattr(data_access, "load", load)
    settings = [*FEW, f"monolithic.objective={objective}", "monolithic.optimizer.steps=1"]
    train_monolithic(load_recipe(tiny_recipe("mono-reads"), settings), tmp_path / "model")
    assert read == kinds


def test_only_what_one_model_learns_from_decides_whether_it_resumes(tiny_recipe, monkeypatch):
    path, marks = tiny_recipe("mono-marks"), []
    monkeypatch.setattr(monolithic, "prepare_folder", lambda folder, mark: marks.append(mark))
    for settings in (
        [],
        ["run.checkpoint_every=7"],
        ['data.paraphrases=[{path="pairs.{lang}.tsv", license="MIT"}]'],
        ["languages.kk.data.paraphrases=['pairs.en.tsv']"],
        ["monolithic.scale=7.0"],
        ["run.evaluate_every=7"],
        ["data.dev.sts=[]", "run.evaluate_every=7"],
        ["data.dev.sts=[]", "run.evaluate_every=3"],
    ):
        settings = ["monolithic.objective=pivot", *settings]
        recipe = load_recipe(path, settings, check_files=False)
        plan = recipe.plans["en"]
        data = {lang: TrainingData(plan) for lang, plan in recipe.plans.items()}
        monolithic._begin(path.parent, resolve_base(plan.base.model), plan, data)
    assert len(set(marks[:4])) == 1
    assert len({marks[0], *marks[4:]}) == 4
    assert marks[6] == marks[7]
