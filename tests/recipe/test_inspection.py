"""``modenc recipe check`` looks into the files: what would stop a training, or spoil it, hours later."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from modenc.cli.main import main
from modenc.errors import LanguageError
from modenc.recipe import inspection
from modenc.recipe.loader import load_recipe
from modenc.recipe.parse import RecipeIssues

RECIPE = """
[hub]
path = "{root}/hub"
[base]
model = "{root}/base"
[data]
root = "{root}"
text = [{{ path = "text.{{lang}}.txt", license = "MIT" }}]
[[data.parallel]]
path = "pairs.{{lang}}.tsv"
columns = {{ pivot = "en", text = "{{lang}}" }}
license = "MIT"
[sentence_encoding]
objective = "simcse"
optimizer.steps = 5
[alignment]
objective = "parallel"
[languages.en]
data.text = [{{ path = "text.en.txt", license = "MIT" }}]
[languages.sw]
"""
ENGLISH = "The children are playing in the garden behind the house, number {}."
SWAHILI = "Watoto wanacheza kwenye bustani nyuma ya nyumba yetu namba {}."


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A sound recipe of a person with a text file and a table of translations."""
    english, swahili = ([line.format(i) for i in range(120)] for line in (ENGLISH, SWAHILI))
    (tmp_path / "text.en.txt").write_text("\n".join(english))
    (tmp_path / "text.sw.txt").write_text("\n".join(swahili))
    rows = [f"{en}\t{sw}\tnews" for en, sw in zip(english, swahili, strict=True)]
    (tmp_path / "pairs.sw.tsv").write_text("\n".join(["en\tsw\tsource", *rows]))
    (tmp_path / "scored.sw.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *["1\ta b\tc d"] * 9]))
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text('{"model_type": "bert"}')
    path = tmp_path / "mine.toml"
    path.write_text(RECIPE.format(root=tmp_path))
    return path


def found(recipe: Path, *overrides: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The issues and the warnings."""
    try:
        sound = load_recipe(recipe, overrides)
    except RecipeIssues as issues:
        return issues.issues, issues.warnings
    return (), sound.warnings


def test_a_sound_recipe_has_neither_faults_nor_warnings(recipe):
    assert found(recipe) == ((), ())


def test_wrong_columns_are_named_with_those_there_are_and_the_one_meant(recipe):
    wrong = 'data.parallel=[{path="pairs.{lang}.tsv", columns={pivot="eng", text="swa"}, license="MIT"}]'
    issues, _ = found(recipe, wrong)
    assert issues == (
        "data.parallel[0].columns.text: pairs.sw.tsv: expected a column 'swa' (text), found 'en', 'sw', "
        "'source'; did you mean 'sw'? Then add columns = { text = \"sw\" } (for sw)",
        "data.parallel[0].columns.pivot: pairs.sw.tsv: expected a column 'eng' (pivot), found 'en', "
        "'sw', 'source'; did you mean 'en'? Then add columns = { pivot = \"en\" } (for sw)",
    )


def test_a_table_without_a_header_is_said_to_lack_it(recipe):
    table = recipe.parent / "pairs.sw.tsv"
    table.write_text(table.read_text().partition("\n")[2])
    issues, _ = found(recipe)
    assert all("add a header line with column names" in issue for issue in issues)
    assert len(issues) == 2


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_table_read_as_plain_text(recipe, ending):
    content = (recipe.parent / "pairs.sw.tsv").read_bytes()
    name = f"table.sw.txt{ending}"
    (recipe.parent / name).write_bytes(gzip.compress(content) if ending else content)
    issues, _ = found(recipe, f'languages.sw.data.text=[{{path="{name}", license="MIT"}}]')
    (issue,) = issues
    assert issue.startswith("languages.sw.data.text[0].path: most lines of table.sw.txt")
    assert 'columns = { text = "COLUMN" }' in issue


def test_one_file_for_several_languages(recipe):
    text = 'data.text=[{path="text.sw.txt", license="MIT"}]'
    issues, warnings = found(recipe, text, "languages.tr={alignment={objective='none'}}")
    assert any(
        "the same rows of text.sw.txt for en, sw, tr; put {lang} into the path" in issue for issue in issues
    )
    assert any("tr: 100% of 120 lines look like sw (Swahili)" in line for line in warnings)


@pytest.mark.parametrize(
    ("lang", "unchecked"), [("bs", ()), ("tr", ("languages.tr.data.check_language=false",)), ("tr", None)]
)
def test_one_file_for_languages_that_training_takes_for_the_same(recipe, lang, unchecked):
    (recipe.parent / "text.hr.txt").write_text("\n".join(f"Djeca se igraju u vrtu, {i}." for i in range(99)))
    text = 'data={text=[{path="text.hr.txt", license="MIT"}], parallel=[]}, alignment={objective="none"}'
    languages = [f"languages.{code}={{{text}}}" for code in ("hr", lang)]
    issues, warnings = found(recipe, *languages, *(unchecked or ()))
    assert (issues == ()) is (unchecked is not None)
    shared = [line for line in (*issues, *warnings) if f"the same rows of text.hr.txt for hr, {lang}" in line]
    assert len(shared) == 2


def test_a_development_set_for_several_languages_is_warned_of(recipe):
    issues, warnings = found(recipe, 'data.dev.sts=["scored.sw.tsv"]')
    assert issues == ()
    assert warnings[0].startswith("data.dev.sts[0]: the same rows of scored.sw.tsv for en, sw; put {lang}")


def test_a_column_may_choose_the_language(recipe):
    (recipe.parent / "all.tsv").write_text(
        "\n".join(
            [
                "lang\ttext",
                *(f"{c}\t{s.format(i)}" for i in range(99) for c, s in (("en", ENGLISH), ("sw", SWAHILI))),
            ]
        )
    )
    rows = 'data.text=[{path="all.tsv", where={lang=["{lang}"]}, license="MIT"}]'
    assert found(recipe, rows) == ((), ())
    issues, _ = found(recipe, rows.replace("lang=[", "language=["))
    assert "expected a column 'language', found 'lang', 'text'; did you mean 'lang'?" in issues[0]


def test_scores_and_filtered_columns_that_are_no_numbers(recipe):
    path = recipe.parent / "scored.sw.tsv"
    path.write_text(path.read_text() + "\nhigh\te f\tg h")
    issues, _ = found(recipe, 'languages.sw.data.dev.sts=["scored.sw.tsv"]')
    assert issues == (
        "languages.sw.data.dev.sts[0]: scored.sw.tsv, row 10: expected a number as score, found 'high'; "
        "fix or drop the row",
    )
    source = '{path="pairs.sw.tsv", columns={pivot="en",text="sw"}, license="MIT", at_least={source=1}}'
    issues, _ = found(recipe, f"languages.sw.data.parallel=[{source}]")
    assert "row 1: expected a number in 'source' (at_least), found 'news'" in issues[0]


def test_a_missing_license_is_warned_of(recipe):
    _, warnings = found(recipe, 'languages.sw.data.text=["text.sw.txt"]')
    assert warnings == (
        "languages.sw.data.text[0]: text.sw.txt states no license, and the modules' card will not either; "
        'add license = "..."',
    )


def test_another_language_than_said_is_warned_of(recipe):
    (recipe.parent / "text.sw.txt").write_text((recipe.parent / "text.en.txt").read_text())
    _, warnings = found(recipe)
    assert "sw: 100% of 120 lines look like en (English)" in warnings[0]


def test_filters_may_name_columns_of_the_languages_file_alone(recipe):
    for lang, line in (("en", ENGLISH), ("sw", SWAHILI)):
        more = ("\tunknown", "\t0.1") if lang == "sw" else ("", "")
        rows = [f"{i}\t{line.format(i)}{more[1]}" for i in range(120)]
        (recipe.parent / f"side.{lang}.tsv").write_text("\n".join([f"id\ttext{more[0]}", *rows]))
    source = 'data.parallel=[{path="side.{lang}.tsv", pivot_path="side.{pivot}.tsv", license="MIT", %s}]'
    assert found(recipe, source % "at_most={unknown=0.25}") == ((), ())
    issues, _ = found(recipe, source % "at_most={unknwn=0.25}")
    assert len(issues) == 1
    assert "side.sw.tsv: expected a column 'unknwn'" in issues[0]


def test_damaged_and_empty_files_are_issues(recipe):
    (recipe.parent / "text.sw.txt").write_text("")
    (recipe.parent / "pairs.sw.tsv").write_bytes(b"en\tsw\n\xff\t\xff\n")
    issues, _ = found(recipe)
    assert "data.text[0]: text.sw.txt: expected rows, found none (for sw)" in issues
    assert any("pairs.sw.tsv" in issue and "UTF-8" in issue for issue in issues)


def test_only_the_chosen_languages_files_are_looked_into(recipe, capsys):
    (recipe.parent / "text.sw.txt").unlink()
    assert main(["recipe", "check", str(recipe), "--lang", "eng"]) == 0
    assert main(["recipe", "check", str(recipe), "--lang", "sw"]) == 1
    out = capsys.readouterr().out
    assert "expected a file, found none" in out
    # English would have to be there first.
    assert "pivot: expected 'en' among the languages to train or in the hub" in out


def test_a_language_that_the_recipe_lacks(recipe, capsys):
    assert main(["recipe", "check", str(recipe), "--lang", "zu"]) == 1
    out = capsys.readouterr().out
    assert "expected one of the recipe's languages (en, sw), found 'zu'; add it with [languages.zu]" in out
    assert "its texts as text.zu.txt, pairs.zu.tsv below" in out


def test_two_joined_tables_with_columns_named_by_language(recipe):
    english, swahili = ([line.format(i) for i in range(120)] for line in (ENGLISH, SWAHILI))
    for lang, lines in (("en", english), ("sw", swahili)):
        rows = [f"{number}\t{line}" for number, line in enumerate(lines)]
        (recipe.parent / f"side.{lang}.tsv").write_text("\n".join([f"id\t{lang}", *rows]))
    for columns in ('text="{lang}"', 'text="{lang}", pivot="{pivot}"', 'text="sw", pivot="en"'):
        files = 'path="side.{lang}.tsv", pivot_path="side.{pivot}.tsv", license="MIT"'
        assert found(recipe, f"data.parallel=[{{{files}, columns={{{columns}}}}}]") == ((), ())
    issues, _ = found(recipe, f'data.parallel=[{{{files}, columns={{text="sw", pivot="eng"}}}}]')
    (issue,) = issues
    assert "side.en.tsv: expected a column 'eng' (text), found 'id', 'en'; did you mean 'en'?" in issue


def test_python_refuses_what_the_command_line_refuses(recipe, capsys):
    pytest.importorskip("peft", reason="the training half is not installed")

    table = recipe.parent / "pairs.sw.tsv"
    table.write_text(table.read_text().replace("en\tsw", "english\tsw", 1))
    assert main(["recipe", "check", str(recipe), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    with pytest.raises(RecipeIssues, match=r"expected a column 'en' \(pivot\)") as caught:
        load_recipe(recipe)
    assert list(caught.value.issues) == found["issues"]
    assert list(caught.value.warnings) == found["warnings"]
    assert main(["train", str(recipe)]) == 2
    assert "\n  ".join(found["issues"]) in capsys.readouterr().err
    assert not (recipe.parent / "hub").exists()


def test_a_training_logs_the_warnings_of_its_recipe(recipe, caplog):
    pytest.importorskip("peft", reason="the training half is not installed")
    from modenc.training.pipeline import train

    unstated = ["languages.sw.data.text=['text.sw.txt']"]
    with pytest.raises(LanguageError, match="expected at least one, found none"):
        train(load_recipe(recipe, unstated), languages=[])
    assert caplog.messages == [
        "warning: languages.sw.data.text[0]: text.sw.txt states no license, and the modules' card will "
        'not either; add license = "..."'
    ]


def test_filters_that_leave_nothing(recipe, monkeypatch):
    source = 'path="pairs.{lang}.tsv", columns={pivot="en", text="{lang}"}, license="MIT"'
    nothing = f'data.parallel=[{{{source}, where={{source=["bible"]}}}}]'
    issues, _ = found(recipe, nothing)
    assert issues == (
        "data.parallel[0]: pairs.sw.tsv: expected rows that pass the filters, found none "
        "(the first row has 'news' in 'source') (for sw)",
    )
    # The rest of a longer file may have some.
    monkeypatch.setattr(inspection, "_MOST_ROWS", 60)
    assert found(recipe, nothing) == ((), ())


def test_a_group_that_is_no_column(recipe):
    source = 'path="pairs.sw.tsv", columns={text="sw"}, license="MIT", group="photograph"'
    issues, _ = found(recipe, f"languages.sw.data.paraphrases=[{{{source}}}]")
    assert issues[0].endswith("found 'en', 'sw', 'source'; name the column with group = \"...\"")


@pytest.mark.parametrize(
    ("base", "line"),
    [("me5-smal", "did you mean 'me5-small'?"), ("./nowhere", "found no folder './nowhere'")],
)
def test_a_base_that_cannot_be_had(recipe, base, line):
    issues, _ = found(recipe, f"base.model={base}")
    assert line in issues[0]


def test_unchecked_languages_may_learn_from_one_file_on_purpose(recipe):
    text = 'data.text=[{path="text.sw.txt", license="MIT"}]'
    unchecked = "data.check_language=false"
    dev = 'data.dev.sts=["scored.{lang}.tsv"]'
    issues, warnings = found(recipe, text, unchecked, dev, "languages.tr={alignment={objective='none'}}")
    assert not [line for line in (*issues, *warnings) if "the same rows of text.sw.txt" in line]
