"""Languages and stages that a training trains again."""

import shutil

import pytest
from trainings import fingerprints, training_again_changes_nothing

from modenc.base_model import resolve_base
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.settings import STAGES
from modenc.training import pipeline
from modenc.training.data_access import TrainingData
from modenc.training.pipeline import train
from modenc.training.stage import iterate_stages, stage_fingerprint


def test_edited_dev_rows_redo_the_stages_chosen_by_them(copied, caplog):
    table = copied.parent / "data" / "sts.kk.tsv"
    before = Hub.open(copied.parent / "hub").card("kk").stages
    lines = table.read_text(encoding="utf-8").splitlines()
    table.write_text("\n".join([*lines[:-1], "0" + lines[-1][1:]]) + "\n", encoding="utf-8")
    with caplog.at_level("INFO"):
        train(load_recipe(copied))
    # English and the vocabulary.
    assert caplog.text.count("done before, skipped") == 4 + 1
    after = Hub.open(copied.parent / "hub").card("kk").stages
    changed = {stage for stage in STAGES if before[stage]["fingerprint"] != after[stage]["fingerprint"]}
    assert changed == set(STAGES[1:])


def marks(path, *overrides):
    """Fingerprint of each stage of a trained recipe, with its data read anew."""
    recipe = load_recipe(path, overrides)
    base, hub = resolve_base(recipe.plans["en"].base.model), Hub.open(recipe.hub)
    return {
        (lang, stage.name): stage.fingerprint
        for lang, plan in recipe.plans.items()
        for stage in iterate_stages(base, hub, TrainingData(plan, recipe.plans[recipe.pivot]))
    }


def redone(path, *overrides):
    before, after = marks(path), marks(path, *overrides)
    return {stage for stage in before if before[stage] != after[stage]}


KK_STS = "languages.kk.data.dev.sts"


@pytest.mark.parametrize(
    "overrides",
    [
        [f'{KK_STS}=[{{path="sts.kk.tsv", license="MIT"}}]'],
        [f'{KK_STS}=[{{path="spelled.tsv", columns={{sentence1="a", sentence2="b", score="c"}}}}]'],
        [f"{KK_STS}=['second.tsv', 'first.tsv']"],
        ["run.checkpoint_every=7"],
        ['data.text=[{path="mono.{lang}.txt", license="CC0-1.0", translator="someone"}]'],
        ["monolithic.scale=7.0"],
        ["languages.en.alignment.scale=7.0", "languages.en.alignment.optimizer.steps=7"],
    ],
    ids=lambda overrides: overrides[0][:60],
)
def test_what_no_stage_learns_from_redoes_none(copied, overrides):
    data = copied.parent / "data"
    header, *rows = (data / "sts.kk.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "score\tsentence1\tsentence2\tid"
    for name, names, lines in (
        ("spelled.tsv", "c\ta\tb\tid", rows[::-1]),
        ("first.tsv", header, rows[:7]),
        ("second.tsv", header, rows[7:]),
    ):
        (data / name).write_text("\n".join([names, *lines]) + "\n", encoding="utf-8")
    assert redone(copied, *overrides) == set()


@pytest.mark.parametrize(
    ("override", "stages"),
    [
        ("run.seed=7", STAGES),
        ("data.dev.sts=[]", STAGES[1:]),
        ("run.evaluate_every=3", STAGES[1:]),
        ("vocabulary.size=310", STAGES),
        ("language_adaptation.max_length=30", STAGES[1:]),
        ("sentence_encoding.max_length=30", STAGES[2:]),
        ("alignment.optimizer.steps=0", STAGES[3:]),
    ],
)
def test_what_a_stage_learns_from_redoes_it_and_what_follows(copied, override, stages):
    assert {name for lang, name in redone(copied, override) if lang == "kk"} == set(stages)


def test_the_same_rows_as_another_kind_of_dev_set_redo_the_stages_chosen_by_them(copied):
    path = copied.parent / "data" / "search.tsv"
    path.write_text("query\tpassage\nWhat is modenc?\tA toolkit for embeddings.\n", encoding="utf-8")
    within, across = (marks(copied, f"data.dev.{kind}=['search.tsv']") for kind in ("search", "cross_search"))
    assert {
        name for lang, name in within if lang == "kk" and within[lang, name] != across[lang, name]
    } == set(STAGES[1:])


def test_settings_of_a_stage_that_has_nothing_to_do_redo_nothing(tiny_recipe):
    path = tiny_recipe("nothing-to-do")
    short = ["vocabulary.method=base", "language_adaptation.objective=none"]
    plans = [
        load_recipe(path, [*short, *more]).plans["kk"]
        for more in ([], ["vocabulary.size=900", "language_adaptation.lora.rank=2"])
    ]
    hub = Hub(path.parent / "none", None)
    for name in STAGES[:2]:
        assert len({stage_fingerprint(TrainingData(plan), name, "before", hub) for plan in plans}) == 1


def test_the_same_data_and_base_elsewhere_redo_nothing(copied, tmp_path):
    recipe = load_recipe(copied)
    shutil.copytree(recipe.plans["en"].base.model, tmp_path / "base")
    for name in ("data", "hub"):
        shutil.copytree(copied.parent / name, tmp_path / name)
    moved = [f"data.root={tmp_path}/data", f"hub.path={tmp_path}/hub", f"base.model={tmp_path}/base"]
    assert redone(copied, *moved, f"run.work_dir={tmp_path}/runs") == set()


def test_another_license_is_in_the_card_though_nothing_is_trained(copied, caplog):
    kinds = {"text": "mono.{lang}.txt", "paraphrases": "pairs.{lang}.tsv"}
    overrides = [f'data.{kind}=[{{path="{name}", license="CC0-1.0"}}]' for kind, name in kinds.items()]
    hub = Hub.open(copied.parent / "hub")
    assert hub.card("kk").licenses == []
    modules = fingerprints(hub)
    recipe = load_recipe(copied, overrides)
    with caplog.at_level("INFO"):
        train(recipe)
    assert caplog.text.count("done before, skipped") == 8
    for lang in ("en", "kk"):
        assert hub.card(lang).licenses == ["CC0-1.0"]
        assert {row["role"] for row in hub.card(lang).data if row["license"]} == set(kinds)
    assert fingerprints(hub) == modules
    assert hub.verify() == []
    training_again_changes_nothing(recipe, hub, caplog)


def test_languages_are_taken_in_any_standard_form(trained, monkeypatch):
    asked = []

    def run(training, job):
        asked.append(*job.languages)
        return dict.fromkeys(job.languages, training.hub.path)

    monkeypatch.setattr(pipeline._Training, "run", run)
    assert list(train(load_recipe(trained), languages=["kaz"])) == ["kk"]
    assert asked == ["kk"] * 4
