"""Loading of valid recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from modenc.data.sources import Source
from modenc.errors import LanguageError, RecipeError
from modenc.recipe.loader import load_recipe


def load(path: Path, *overrides: str):
    return load_recipe(path, overrides, check_files=False)


def test_a_plan_for_every_language_the_pivot_first(write, sound):
    recipe = load(write(sound.replace("[languages.en]", "[languages.az]") + "[languages.en]"))
    assert list(recipe.plans) == ["en", "az", "kk"]
    assert (recipe.name, recipe.pivot, recipe.hub) == ("mine", "en", Path("adapters_hub/mine"))
    plan = recipe.plans["kk"]
    assert (plan.lang, plan.pivot) == ("kk", "en")
    assert plan.run.work_dir == Path("runs/mine")
    assert plan.data.text == (Source(path="{lang}.txt"),)


def test_codes_are_normalised_everywhere(write, sound):
    text = "pivot = 'eng'\n" + sound.replace("languages.kk", "languages.kaz_Cyrl")
    recipe = load(write(text), "languages.KK.vocabulary.size=777")
    assert (recipe.pivot, list(recipe.plans)) == ("en", ["en", "kk"])
    assert recipe.plans["kk"].vocabulary.size == 777
    assert load(write(sound), "pivot=kaz").pivot == "kk"


def test_the_pivot_has_no_alignment_and_no_data_for_it(write, sound):
    plans = load(write(sound)).plans
    assert plans["kk"].alignment.objective == "joint"
    assert plans["en"].alignment.objective == "none"
    assert plans["en"].data.parallel == plans["en"].data.cross_paraphrases == ()


def test_a_language_comes_after_the_one_whose_adapter_it_starts_from(write, sound):
    alignment = ["languages.az.alignment.start=en", "languages.kk.alignment.start=azj"]
    plans = load_recipe(write(sound + "[languages.az]\n"), alignment, check_files=False).plans
    assert (list(plans), plans["kk"].alignment.start) == (["en", "az", "kk"], "az")
    text = sound + '[sentence_encoding]\nstart = "kaz_Cyrl"\n[languages.az]\n'
    starts = ["languages.az.alignment.objective=none", "languages.en.sentence_encoding.start=fresh"]
    plans = load_recipe(write(text), starts, check_files=False).plans
    # A language cannot start from itself.
    assert {lang: plan.sentence_encoding.start for lang, plan in plans.items()} == {
        "en": "fresh",
        "kk": "fresh",
        "az": "kk",
    }


def test_languages_that_wait_for_each_other(write, sound):
    starts = ["languages.kk.sentence_encoding.start=az", "languages.az.sentence_encoding.start=kk"]
    with pytest.raises(RecipeError, match="az and kk wait for each other; set one of them to 'fresh'"):
        load_recipe(write(sound), starts, check_files=False)
    follower = sound + "[languages.uz]\nsentence_encoding.start = 'kk'\n"
    with pytest.raises(RecipeError, match=": az and kk wait for each other"):
        load_recipe(write(follower), starts, check_files=False)


def test_languages_to_train_are_codes(write, sound):
    with pytest.raises(LanguageError, match=r"expected a language code .* found 'zz9x'"):
        load_recipe(write(sound), languages=["zz9x"])


def test_a_language_overrides_a_single_setting_of_a_section(write, sound):
    plans = load(
        write(sound + "[languages.kk.alignment.optimizer]\n"), "languages.kk.alignment.scale=7"
    ).plans
    assert plans["kk"].alignment.scale == 7.0
    assert plans["kk"].alignment.optimizer == plans["en"].alignment.optimizer


def test_an_override_beats_a_languages_own_setting_unless_it_names_the_language(write, sound):
    path = write(sound + "[languages.az.vocabulary]\nsize = 500\n")
    assert load(path).plans["az"].vocabulary.size == 500
    assert load(path, "vocabulary.size=600").plans["az"].vocabulary.size == 600
    plans = load(path, "vocabulary.size=600", "languages.az.vocabulary.size=700").plans
    assert (plans["az"].vocabulary.size, plans["kk"].vocabulary.size) == (700, 600)


def test_an_override_can_add_a_language(write, sound):
    assert list(load(write(sound), "languages.uz={}").plans) == ["en", "kk", "uz"]


def test_a_table_as_override_is_merged_as_a_files_is(write, sound):
    path = write(sound + "[languages.az.alignment]\nscale = 5\noptimizer.steps = 7\n")
    plans = load(path, "alignment={strength=0.5, optimizer={steps=9}}").plans
    default = load(path).plans["az"].alignment
    for plan in plans.values():
        assert (plan.alignment.strength, plan.alignment.optimizer.steps) == (0.5, 9)
        assert plan.alignment.optimizer.batch_size == default.optimizer.batch_size
        assert plan.alignment.reduction_factor == default.reduction_factor
    assert (plans["az"].alignment.scale, plans["kk"].alignment.scale) == (5.0, 20.0)
    added = load(path, "languages={kaz={alignment={strength=0.25}}}", "languages.az={}").plans
    assert list(added) == ["en", "kk", "az"]
    assert (added["kk"].alignment.strength, added["az"].alignment.scale) == (0.25, 5.0)


def test_the_resolved_text_is_a_recipe_that_gives_the_same_plans(write, sound):
    recipe = load(write(sound + "[languages.kk.run]\nseed = 5\n"), 'base.prompt=a "b" \\ ü\t')
    again = load(write(recipe.text, "again.toml"))
    assert again.plans == recipe.plans
    assert again.text == recipe.text


def test_include_is_overridden_key_by_key_and_lists_are_replaced(write, sound):
    write(
        "[data]\nmin_chars = 2\ntext = ['a.txt', 'b.txt']\n[vocabulary]\nsize = 400\n" + "[languages.az]",
        "base.toml",
    )
    plan = load(write("include = 'base.toml'\n" + sound)).plans["az"]
    assert (plan.data.min_chars, plan.vocabulary.size) == (2, 400)
    assert plan.data.text == (Source(path="{lang}.txt"),)


def test_an_include_is_also_found_among_the_shipped_recipes(write):
    recipe = load(write("include = 'german_korean.toml'\n[languages.tr]"))
    assert "tr" in recipe.plans
    assert recipe.name == "german_korean"


def test_a_file_with_a_byte_order_mark_is_read(write, sound):
    assert load(write("\ufeff" + sound)).name == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", r"mine\.toml: expected TOML, found a syntax error: Invalid value \(at "),
        ("include = 3", r"mine\.toml: include: expected the name of a file .*, found 3"),
        ("include = 'x.toml'", r"include: expected the name of a file beside it or .* found 'x\.toml'"),
        ("include = 'mine.toml'", r"include goes in a circle: mine\.toml -> mine\.toml; remove one"),
    ],
)
def test_files_that_cannot_be_read(write, text, message):
    with pytest.raises(RecipeError, match=message):
        load(write(text))


def test_a_file_that_is_not_utf_8(tmp_path: Path):
    path = tmp_path / "latin.toml"
    path.write_bytes(b"name = '\xe4'")
    with pytest.raises(RecipeError, match=r"latin\.toml: expected UTF-8 text, found byte 8 that is not"):
        load(path)


def test_a_recipe_that_is_nowhere():
    with pytest.raises(RecipeError, match=r"found 'eightteen'; did you mean 'eighteen'\? shipped: "):
        load_recipe("eightteen")


def test_a_hub_without_a_path_is_reported(tmp_path):
    (tmp_path / "r.toml").write_text('[hub]\npath = ""\n[languages.en]\n')
    with pytest.raises(RecipeError, match=r"hub\.path: expected a folder, found ''"):
        load_recipe(tmp_path / "r.toml", check_files=False)
