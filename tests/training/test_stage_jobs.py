"""A training as stage jobs that may run anywhere: their order, and their common result."""

import pytest
from test_all_pairs import ALL_PAIRS
from test_pipeline import KK_STARTS_FROM_EN
from trainings import hashes

from modenc.errors import RecipeError
from modenc.hub.layout import parts_in
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.settings import STAGES
from modenc.training.pipeline import run_stage_job, stage_jobs
from modenc.training.stage import training_lock


def named(jobs):
    """Job → those that it comes after, by name."""
    names = [f"{'+'.join(job.languages)}.{job.stage}" for job in jobs]
    return {name: [names[position] for position in job.after] for name, job in zip(names, jobs, strict=True)}


def test_only_alignment_waits_for_the_pivot(tiny_recipe):
    found = named(stage_jobs(load_recipe(tiny_recipe("steps"))))
    assert found == {
        "en.vocabulary": [],
        "en.language_adaptation": ["en.vocabulary"],
        "en.sentence_encoding": ["en.language_adaptation"],
        "en.alignment": ["en.sentence_encoding"],
        "kk.vocabulary": [],
        "kk.language_adaptation": ["kk.vocabulary"],
        "kk.sentence_encoding": ["kk.language_adaptation"],
        "kk.alignment": ["en.alignment", "kk.sentence_encoding"],
    }


def test_what_starts_from_another_waits_for_it(tiny_recipe):
    path = tiny_recipe("relatives")
    starts = ["languages.kk.sentence_encoding.start=en"]
    found = named(stage_jobs(load_recipe(path, [*starts, "language_adaptation.objective=mlm"])))
    assert found["kk.language_adaptation"] == ["kk.vocabulary"]
    assert found["kk.sentence_encoding"] == ["en.alignment", "kk.language_adaptation"]
    # Distillation already has English's adapter in place.
    found = named(stage_jobs(load_recipe(path, starts)))
    assert found["kk.language_adaptation"] == ["en.alignment", "kk.vocabulary"]
    # Aligning all pairs needs all languages.
    found = named(stage_jobs(load_recipe(path, ALL_PAIRS)))
    assert found["en+kk.alignment"] == ["en.sentence_encoding", "kk.sentence_encoding"]


def test_languages_may_be_chosen(tiny_recipe):
    recipe = load_recipe(tiny_recipe("chosen"))
    train_en = [job for job in stage_jobs(recipe) if job.languages == ("en",)]
    assert stage_jobs(recipe, languages="eng") == stage_jobs(recipe, languages=iter(["en"])) == train_en
    with (
        training_lock(recipe.plans["kk"].run.work_dir / "kk"),
        pytest.raises(RecipeError, match="another training is running here"),
    ):
        stage_jobs(recipe)


def test_a_job_refuses_unfinished_stages_before_it(tiny_recipe):
    recipe = load_recipe(tiny_recipe("too-early"))
    job = stage_jobs(recipe)[2]
    refused = r"en: stage vocabulary is not done .*, and sentence_encoding needs it; run: modenc train"
    with pytest.raises(RecipeError, match=refused):
        run_stage_job(recipe, job)
    assert not list((recipe.plans["en"].run.work_dir).rglob("done.json"))


@pytest.mark.slow
def test_a_job_may_be_run_again(tiny_recipe):
    recipe = load_recipe(tiny_recipe("apart"), KK_STARTS_FROM_EN)
    published = {}
    for job in stage_jobs(recipe):
        published |= run_stage_job(recipe, job)
    assert published == {lang: recipe.hub / lang for lang in ("en", "kk")}
    hub = Hub.open(recipe.hub)
    assert parts_in(hub.version_folder("kk")) == ("se", "cla")
    # Lost after they were done, and run again: nothing is trained or published twice.
    before = hashes(hub.path)
    for job in stage_jobs(recipe):
        run_stage_job(recipe, job)
    assert hashes(hub.path) == before
    # By force everything is trained again.
    stage_jobs(recipe, force=True)
    assert not any((recipe.plans["kk"].run.work_dir / "kk" / stage).exists() for stage in STAGES)
