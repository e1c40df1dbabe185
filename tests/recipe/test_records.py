"""Records that ``modenc translate`` writes beside a file are used in recipes and cards."""

import json
from dataclasses import asdict, replace

import pytest
import tiny_models

from modenc.provenance import TranslationRecord, joint_license, read_record, record_path, write_record
from modenc.recipe.issues import RecipeIssues
from modenc.recipe.loader import load_recipe

pytest.importorskip("peft", reason="the training half is not installed")

from modenc.training.data_access import TrainingData

RECORD = TranslationRecord(
    translator="apertium 3.8.3 (eng-kaz)",
    license="CC-BY-SA-4.0",
    text="sts.tsv",
    source="en",
    target="kk",
    made_by="modenc 0.1.0",
    steps=[{"tool": "apertium 3.8.3", "name": "eng-kaz"}],
    columns=["text"],
    filters={},
    counts={},
)


@pytest.fixture
def recipe(tmp_path):
    """Writes a recipe on two files, of which the first has a record."""
    for name, lines in (("a.kk.txt", slice(0, 160)), ("b.kk.txt", slice(160, 320))):
        (tmp_path / name).write_text("\n".join(tiny_models.sentences("kk")[lines]), encoding="utf-8")
    write_record(tmp_path / "a.kk.txt", RECORD)

    def write(text):
        path = tmp_path / "r.toml"
        path.write_text(
            f'pivot = "en"\n[hub]\npath = "{tmp_path}/hub"\n[data]\nroot = "{tmp_path}"\n{text}\n'
            '[sentence_encoding]\nobjective = "simcse"\n[alignment]\nobjective = "none"\n'
            "[languages.en]\ndata.text = []\nsentence_encoding.objective = 'none'\n[languages.kk]\n",
            encoding="utf-8",
        )
        return path

    return write


def _sources(path, *overrides):
    return load_recipe(path, overrides, check_files=False).plans["kk"].data.text


def test_a_source_without_a_license_has_that_of_its_record(recipe):
    path = recipe('text = ["{lang}.none", "a.{lang}.txt", "b.{lang}.txt"]')
    assert [source.license for source in _sources(path)] == ["", "CC-BY-SA-4.0", ""]
    assert [source.translator for source in _sources(path)] == ["", RECORD.translator, ""]
    (own,) = _sources(recipe('text = [{ path = "a.{lang}.txt", license = "MIT" }]'))
    assert (own.license, own.translator) == ("MIT", RECORD.translator)
    (own,) = _sources(recipe('text = [{ path = "a.{lang}.txt", translator = "a person" }]'))
    assert (own.license, own.translator) == ("CC-BY-SA-4.0", "a person")


def test_the_license_counts_for_what_may_be_trained_on(recipe):
    path = recipe('licenses = ["MIT"]\ntext = ["a.{lang}.txt", { path = "b.{lang}.txt", license = "MIT" }]')
    assert [source.path for source in _sources(path)] == ["b.{lang}.txt"]
    (_, kept) = _sources(path, 'data.licenses=["MIT", "CC-BY-SA-4.0"]')
    assert kept.path == "b.{lang}.txt"
    with pytest.raises(RecipeIssues, match=r"data\.text\[0\]\.license: expected a license"):
        load_recipe(recipe('licenses = ["MIT"]\ntext = ["b.{lang}.txt"]'), check_files=False)


def test_records_of_both_sides_count(recipe, tmp_path):
    path = recipe('text = ["a.kk.txt"]\nparallel = [{ path = "a.{lang}.txt", pivot_path = "a.{pivot}.txt" }]')

    def stated():
        (source,) = load_recipe(path, check_files=False).plans["kk"].data.parallel
        return source.license, source.translator

    (tmp_path / "a.en.txt").write_text("x\n")
    assert stated() == ("CC-BY-SA-4.0", RECORD.translator)
    other = replace(RECORD, translator="apertium 3.8.3 (tur-eng)")
    write_record(tmp_path / "a.en.txt", other)
    both = f"{RECORD.translator}; {other.translator}"
    assert stated() == ("CC-BY-SA-4.0", both)
    write_record(tmp_path / "a.en.txt", replace(other, license="MIT"))
    assert stated() == ("mixed: CC-BY-SA-4.0, MIT", both)
    write_record(tmp_path / "a.en.txt", replace(other, license=""))
    assert stated() == ("", both)
    # Only the pivot's file has a record.
    record_path(tmp_path / "a.kk.txt").unlink()
    write_record(tmp_path / "a.en.txt", other)
    assert stated() == ("CC-BY-SA-4.0", other.translator)


@pytest.mark.parametrize(
    ("licenses", "joint"),
    [
        ([], ""),
        (["MIT"], "MIT"),
        (["MIT", "mit"], "MIT"),
        (["MIT", ""], ""),
        (["MIT", "CC0-1.0"], "mixed: MIT, CC0-1.0"),
        (["mixed: MIT, CC0-1.0", "mit"], "mixed: MIT, CC0-1.0"),
        (["mixed: MIT, CC0-1.0", "CC-BY-4.0"], "mixed: MIT, CC0-1.0, CC-BY-4.0"),
    ],
)
def test_licenses_of_several_files(licenses, joint):
    assert joint_license(licenses) == joint


def test_cards_name_text_translator_and_license(recipe, tmp_path):
    plan = load_recipe(recipe('text = ["a.{lang}.txt", "b.{lang}.txt"]'), check_files=False).plans["kk"]
    found = [(record.source, record.license, record.translator) for record in TrainingData(plan).text.sources]
    assert found == [("a.kk.txt", "CC-BY-SA-4.0", RECORD.translator), ("b.kk.txt", "", "")]


def test_records_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "kk.tsv.gz"
    assert read_record(path) is None
    write_record(path, RECORD)
    assert record_path(path).name == "kk.tsv.gz.translation.json"
    assert read_record(path) == RECORD


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_file_that_was_packed_since_has_its_record(tmp_path, ending):
    write_record(tmp_path / "kk.tsv", RECORD)
    assert read_record(tmp_path / f"kk.tsv{ending}") == RECORD
    own = replace(RECORD, license="MIT")
    write_record(tmp_path / f"kk.tsv{ending}", own)
    assert read_record(tmp_path / f"kk.tsv{ending}") == own


def test_records_of_a_later_version_are_read(tmp_path, caplog):
    record_path(tmp_path / "t.tsv").write_text(json.dumps({**asdict(RECORD), "device": "cpu"}))
    assert read_record(tmp_path / "t.tsv") == RECORD
    assert not caplog.text


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "null",
        "[" * 100_000,
        json.dumps({**asdict(RECORD), "license": 3}),
        '{"license": "MIT"}',
    ],
)
def test_a_damaged_record_is_left_out_with_a_warning(tmp_path, caplog, content):
    record_path(tmp_path / "t.tsv").write_text(content)
    assert read_record(tmp_path / "t.tsv") is None
    assert "t.tsv.translation.json: not what modenc translate writes" in caplog.text
