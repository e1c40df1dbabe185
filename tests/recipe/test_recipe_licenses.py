"""``data.licenses``: which sources a recipe trains on."""

from __future__ import annotations

import json
import logging

import pytest

from modenc.errors import RecipeError
from modenc.recipe.licenses import is_allowed
from modenc.recipe.loader import load_recipe

RECIPE = """
[data]
licenses = ["CC0-1.0", "cc by-sa 4.0", "MIT"]
text = [
    { path = "news.{lang}.txt", license = "CC-BY-NC-4.0" },
    { path = "voice.{lang}.txt", license = "CC0-1.0" },
]
parallel = [{ path = "{lang}.tsv", license = "mixed: CC-BY-SA-4.0, MIT" }]
dev.sts = [{ path = "dev.{lang}.tsv", license = "CC-BY-NC-4.0" }]
[sentence_encoding]
objective = "simcse"
[alignment]
objective = "parallel"
[languages.en]
[languages.kk]
"""


@pytest.mark.parametrize(
    ("license_", "allowed"),
    [
        ("CC-BY-SA-4.0", True),
        ("mixed: CC-BY-SA-4.0, MIT", True),
        ("MIT and CC0-1.0", True),
        ("mixed: CC-BY-SA-4.0, CC-BY-NC-4.0", False),
        ("mixed, partly CC-BY-NC", False),
        ("MIT or GPL-3.0", False),
        ("", False),
    ],
)
def test_every_part_of_a_license_must_be_on_the_list(license_, allowed):
    assert is_allowed(license_, ("CC0-1.0", "cc by-sa 4.0", "MIT")) is allowed
    assert is_allowed(license_, ())
    assert is_allowed("CC-BY-2.0-FR and WMT (research)", ("cc-by-2.0-fr and wmt (research)",))


def test_other_sources_are_left_out_and_named(write, caplog):
    with caplog.at_level(logging.INFO):
        recipe = load_recipe(write(RECIPE), check_files=False)
    for plan in recipe.plans.values():
        assert [source.path for source in plan.data.text] == ["voice.{lang}.txt"]
        assert [source.path for source in plan.data.dev.sts] == ["dev.{lang}.tsv"]
    assert len(recipe.plans["kk"].data.parallel) == 1
    line = "data.text[0]: news.{lang}.txt (CC-BY-NC-4.0) is left out, since data.licenses lacks it"
    assert recipe.left_out == (line,)
    assert line in caplog.text
    everything = load_recipe(write(RECIPE), ["data.licenses=[]"], check_files=False)
    assert len(everything.plans["kk"].data.text) == 2
    assert everything.left_out == ()


def test_a_source_without_a_license_is_a_issue(issues_of):
    text = RECIPE.replace(', license = "CC0-1.0"', "")
    assert (
        "data.text[1].license: expected a license, since data.licenses is set, found none; "
        in (issues_of(text)[-1])
    )


def test_nothing_left_for_a_stage_is_a_issue(issues_of):
    assert issues_of(RECIPE, 'data.licenses=["MIT"]') == (
        "sentence_encoding.objective: 'simcse' needs data.text, found none that data.licenses allows; "
        "add sources or choose another objective",
        "alignment.objective: 'parallel' needs data.parallel, found none that data.licenses allows; "
        "add sources or choose another objective (for kk)",
    )


@pytest.mark.usefixtures("files_unread")
def test_modules_to_build_on_bring_their_licenses(issues_of, tmp_path):
    hub = tmp_path / "hub"
    for lang, licenses in {"en": ["CC-BY-SA-4.0"], "az": ["MIT", "CC-BY-NC-4.0"]}.items():
        (hub / lang).mkdir(parents=True)
        (hub / lang / "card.json").write_text(json.dumps({"licenses": licenses}))
    for name in ("voice.kk.txt", "kk.tsv", "dev.kk.tsv"):
        (tmp_path / name).touch()
    text = RECIPE.replace("[languages.en]\n", "")
    options = [f"hub.path={hub}", f"data.root={tmp_path}", "sentence_encoding.start=az"]
    assert issues_of(text, *options, check_files=True) == (
        "sentence_encoding.start: the modules of 'az' were trained on texts under CC-BY-NC-4.0, which "
        "data.licenses does not have; build on other modules, or add these licenses",
    )


@pytest.mark.usefixtures("files_unread")
def test_a_language_of_the_recipe_with_other_licenses_brings_them_too(issues_of, tmp_path):
    for lang in ("en", "kk"):
        for name in ("news.{}.txt", "voice.{}.txt", "{}.tsv", "dev.{}.tsv"):
            (tmp_path / name.format(lang)).touch()
    options = [f"data.root={tmp_path}", "sentence_encoding.start=en", "languages.en.data.licenses=[]"]
    (issue,) = issues_of(RECIPE, *options, check_files=True)
    assert issue.startswith("sentence_encoding.start: the modules of 'en' were trained on texts under CC")


@pytest.mark.usefixtures("files_unread")
def test_licenses_come_from_the_hub_for_languages_that_are_not_trained_now(write, tmp_path):
    """Kazakh starts from Turkish, and that from Azerbaijani; all are in the recipe, two in the hub."""
    for lang, license_ in {"en": "MIT", "az": "CC-BY-NC-4.0", "tr": "MIT"}.items():
        (tmp_path / "hub" / lang).mkdir(parents=True)
        (tmp_path / "hub" / lang / "card.json").write_text(json.dumps({"licenses": [license_]}))
    for lang in ("en", "kk", "az", "tr"):
        for name in ("news.{}.txt", "voice.{}.txt", "{}.tsv", "dev.{}.tsv"):
            (tmp_path / name.format(lang)).touch()
    options = [
        f"hub.path={tmp_path / 'hub'}",
        f"data.root={tmp_path}",
        "languages.tr.sentence_encoding.start=az",
    ]
    options += ["languages.kk.sentence_encoding.start=tr"]
    recipe = write(RECIPE + "[languages.az]\n[languages.tr]\n")
    load_recipe(recipe, options)  # all are trained, on allowed texts
    load_recipe(recipe, options, languages=["kk"])  # Turkish as the hub's card states it
    with pytest.raises(RecipeError, match="start: the modules of 'az' were trained on texts under CC-BY-NC"):
        load_recipe(recipe, options, languages=["tr"])
    with pytest.raises(RecipeError, match="start: the modules of 'tr' were trained on texts under CC-BY-NC"):
        load_recipe(recipe, options, languages=["kk", "tr"])


@pytest.mark.parametrize("key", ["license", "licence"])
def test_a_source_states_its_license_by_either_spelling(write, key):
    source = f'{{ path = "a.txt", {key} = "CC0-1.0" }}'
    recipe = load_recipe(write(RECIPE), [f"languages.kk.data.text=[{source}]"], check_files=False)
    assert [part.license for part in recipe.plans["kk"].data.text] == ["CC0-1.0"]


def test_both_spellings_at_once_are_a_issue(issues_of):
    source = '{ path = "a.txt", license = "MIT", licence = "CC0-1.0" }'
    (issue,) = issues_of(RECIPE, f"languages.kk.data.text=[{source}]")
    assert issue == "languages.kk.data.text[0].licence: unknown key; did you mean 'license'?"


@pytest.mark.usefixtures("files_unread")
def test_modules_trained_on_texts_without_a_license_are_refused(issues_of, tmp_path):
    (tmp_path / "hub" / "az").mkdir(parents=True)
    data = [{"role": "text", "source": f"{i}.txt", "license": name} for i, name in enumerate(["", "MIT"])]
    card = json.dumps({"licenses": ["MIT"], "data": data})
    (tmp_path / "hub" / "az" / "card.json").write_text(card)
    for lang in ("en", "kk"):
        for name in ("news.{}.txt", "voice.{}.txt", "{}.tsv", "dev.{}.tsv"):
            (tmp_path / name.format(lang)).touch()
    options = [f"hub.path={tmp_path / 'hub'}", f"data.root={tmp_path}"]
    start = "languages.kk.sentence_encoding.start"
    (issue,) = issues_of(RECIPE, *options, f"{start}=az", check_files=True)
    assert issue == (
        f"{start}: the modules of 'az' were trained on texts that state no license, and data.licenses asks "
        "for one; build on other modules, or state the license and train them again"
    )
    own = 'languages.en.data={licenses=[], text=["voice.en.txt"]}'
    issues = issues_of(RECIPE, *options, own, f"{start}=en", check_files=True)
    assert issues == (issue.replace("'az'", "'en'"),)
