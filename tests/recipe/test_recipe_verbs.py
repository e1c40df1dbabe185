"""modenc recipe list, show, copy and check, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modenc.cli.main import main
from modenc.recipe.files import recipes_folder, shipped_recipes
from modenc.recipe.loader import load_recipe


def test_list_shows_every_shipped_recipe_with_its_languages(capsys):
    assert main(["recipe", "list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in shipped_recipes())
    assert "en az kk ky ug uz tr de" in out
    assert "_defaults" not in out


def test_copy_copies_comments_and_all_and_refuses_to_replace(capsys, tmp_path: Path):
    destination = tmp_path / "mine.toml"
    assert main(["recipe", "copy", "eighteen", "-o", str(destination)]) == 0
    copied, shipped = (path.read_text().splitlines() for path in (destination, shipped_recipes()["eighteen"]))
    # All but the shipped hub, into which a copy must not train.
    assert [line for line in shipped if line not in copied] == ['path = "adapters_hub/me5-small"']
    assert [line for line in copied if line not in shipped] == [
        "# The shipped recipe has adapters_hub/me5-small here; a copy has a hub of its own.",
        'path = "adapters_hub/{recipe}"',
    ]
    assert load_recipe(destination, check_files=False).hub == Path("adapters_hub/eighteen")
    assert main(["recipe", "copy", "german_korean", "-o", str(destination)]) == 2
    assert "found one; give another name, or --force" in capsys.readouterr().err
    assert main(["recipe", "copy", "quickstart", "-o", str(destination), "--force"]) == 0
    assert main(["recipe", "copy", "quickstart", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "quickstart.toml").is_file()
    assert main(["recipe", "copy", "german_korean", "-o", str(tmp_path / "none" / "mine.toml")]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


def test_no_copy_of_a_shipped_recipe_trains_into_a_shipped_hub(tmp_path: Path):
    hubs = {path.parent for path in (Path(__file__).parents[2] / "adapters_hub").glob("*/hub.json")}
    assert {hub.name for hub in hubs} >= {"me5-small"}
    for name in shipped_recipes():
        assert main(["recipe", "copy", name, "-o", str(tmp_path)]) == 0
        recipe = load_recipe(tmp_path / f"{name}.toml", check_files=False)
        assert recipe.hub.name not in {hub.name for hub in hubs}, name


def test_a_copy_finds_the_shipped_hub_from_any_folder(tmp_path: Path):
    assert main(["recipe", "copy", "my_language", "-o", str(tmp_path / "mine.toml")]) == 0
    start = load_recipe(tmp_path / "mine.toml", check_files=False).start_from
    assert start == recipes_folder().resolve().parent / "adapters_hub" / "me5-small"


def test_copy_of_ones_own_recipe_is_byte_for_byte(tmp_path: Path):
    own = tmp_path / "own.toml"
    own.write_text('[hub]\npath = "adapters_hub/me5-small"\n[languages.kk]\n')
    assert main(["recipe", "copy", str(own), "-o", str(tmp_path / "copy.toml")]) == 0
    assert (tmp_path / "copy.toml").read_bytes() == own.read_bytes()


def test_check_says_what_would_be_trained(capsys):
    assert main(["recipe", "check", "german_korean", "--no-files", "sentence_encoding.scored_steps=0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "recipe 'german_korean' has no issues; base me5-small, hub 'adapters_hub/german_korean'\n  en: "
    )
    assert "alignment pivot" in out
    assert "de: vocabulary base, language adaptation none, sentence encoding copied from en, " in out


def test_check_lists_the_faults_and_gives_1(capsys):
    assert main(["recipe", "check", "german_korean", "--no-files", "vocabulary.size=1", "run.sed=1"]) == 1
    assert capsys.readouterr().out == (
        "recipe 'german_korean' has 2 issues:\n"
        "  run.sed: unknown key; did you mean 'seed'?\n"
        "  vocabulary.size: expected 300 or more, found 1\n"
    )


@pytest.mark.parametrize("verb", ["check", "show", "copy"])
def test_a_recipe_that_is_nowhere_is_an_error(capsys, verb):
    assert main(["recipe", verb, "turkik"]) == 2
    assert f"modenc recipe {verb}: expected a recipe file" in capsys.readouterr().err


def test_show_prints_a_recipe_that_is_the_same(capsys, tmp_path: Path):
    assert main(["recipe", "show", "german_korean", "alignment.keep_weight=0.5"]) == 0
    path = tmp_path / "mine.toml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    plans = load_recipe(path, check_files=False).plans
    assert plans == load_recipe("german_korean", ["alignment.keep_weight=0.5"], check_files=False).plans


def test_lists_and_checks_as_json(capsys):
    assert main(["recipe", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [item["name"] for item in listed["recipes"]] == list(shipped_recipes())
    assert {"turkic", "eighteen"} <= {item["name"] for item in listed["suites"]}
    assert main(["recipe", "check", "german_korean", "--no-files", "--json", "run.sed=1"]) == 1
    assert json.loads(capsys.readouterr().out)["issues"] == ["run.sed: unknown key; did you mean 'seed'?"]
    assert main(["recipe", "check", "german_korean", "--no-files", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert (checked["issues"], checked["base"]) == ([], "me5-small")
    assert checked["languages"]["de"]["language adaptation"] == "none"
