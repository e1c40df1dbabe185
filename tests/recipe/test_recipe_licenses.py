"""``data.licenses``: which sources a recipe trains on."""

from __future__ import annotations

import pytest

from modenc.licenses import is_allowed
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


def test_other_sources_are_left_out_and_named(write):
    recipe = load_recipe(write(RECIPE), check_files=False)
    for plan in recipe.plans.values():
        assert [source.path for source in plan.data.text] == ["voice.{lang}.txt"]
        assert [source.path for source in plan.data.dev.sts] == ["dev.{lang}.tsv"]
    assert len(recipe.plans["kk"].data.parallel) == 1
    line = "data.text[0]: news.{lang}.txt (CC-BY-NC-4.0) is left out, since data.licenses lacks it"
    assert recipe.warnings == (line,)
    everything = load_recipe(write(RECIPE), ["data.licenses=[]"], check_files=False)
    assert len(everything.plans["kk"].data.text) == 2
    assert everything.warnings == ()


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


def test_another_spelling_of_license_is_an_issue(issues_of):
    source = '{ path = "a.txt", licence = "CC0-1.0" }'
    (issue,) = issues_of(RECIPE, f"languages.kk.data.text=[{source}]")
    assert issue == "languages.kk.data.text[0].licence: unknown key; did you mean 'license'?"
