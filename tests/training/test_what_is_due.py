"""Languages and stages that a training trains again."""

from dataclasses import replace

from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.settings import STAGES
from modenc.training import pipeline, publishing
from modenc.training.pipeline import train
from modenc.training.stage import stage_fingerprint


def test_edited_dev_rows_redo_the_stages_chosen_by_them(copied, caplog):
    table = copied.parent / "data" / "sts.kk.tsv"
    before = Hub.open(copied.parent / "hub").card("kk").stages
    lines = table.read_text(encoding="utf-8").splitlines()
    table.write_text("\n".join([*lines[:-1], "0" + lines[-1][1:]]) + "\n", encoding="utf-8")
    with caplog.at_level("INFO"):
        train(load_recipe(copied))
    # English, vocabulary and language adaptation.
    assert caplog.text.count("done before, skipped") == 4 + 2
    after = Hub.open(copied.parent / "hub").card("kk").stages
    changed = {stage for stage in STAGES if before[stage]["fingerprint"] != after[stage]["fingerprint"]}
    assert changed == {"sentence_encoding", "alignment"}


def test_a_setting_that_no_development_set_has_is_not_in_what_they_decide():
    plan = load_recipe("turkic", check_files=False).plans["kk"]
    sets = plan.data.dev.sts
    assert sets

    def fingerprint(**changes):
        dev = replace(plan.data.dev, sts=tuple(replace(source, **changes) for source in sets))
        changed = replace(plan, data=replace(plan.data, dev=dev))
        return stage_fingerprint(changed, "alignment", "data", "before")

    # Stages that were finished before there was such a setting stay so.
    assert fingerprint(group="image") == fingerprint() != fingerprint(limit=7)


def test_languages_are_taken_in_any_standard_form(trained, monkeypatch):
    asked = []

    def train_stages(_, plan, stages):
        asked.append(plan.lang)

    monkeypatch.setattr(pipeline._Training, "train_stages", train_stages)
    monkeypatch.setattr(pipeline, "publish_language", lambda _, hub, trained: hub.path)
    assert list(train(load_recipe(trained), languages=["kaz"])) == asked == ["kk"]


def test_all_processes_return_what_the_main_one_did(trained, monkeypatch):
    """A language that it held back has no folder in the others either."""
    asked = []
    monkeypatch.setattr(publishing, "of_main_process", lambda result: asked.append(result))
    assert train(load_recipe(trained), languages=["kk"]) == {}
    assert asked == [True]
