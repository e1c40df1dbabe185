"""Corrections: whole words of the language's own texts are replaced, and the pivot's are left alone."""

from pathlib import Path

import pytest

from modenc.data.corrections import correct, read_corrections
from modenc.data.joining import read_cross_scored, read_parallel
from modenc.data.sources import read_rows, resolve_source
from modenc.data.training_sets import PARALLEL, load
from modenc.errors import DataError
from modenc.recipe.files import find_data_file, recipes_folder
from modenc.recipe.settings import Source

TABLE = {"haggında": "haqqında", "garda": "qarda", "tom'un": "Tomun", "beyaz": "ağ", "vb": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Onun haggında garda.", "Onun haqqında qarda."),
        ("GARDA, Garda: gardan", "Qarda, Qarda: gardan"),
        ("Tom'un iti vb. beyaz-2", "Tomun iti . ağ-2"),
        ("Haggi\u0307nda", "Haggi\u0307nda"),
        ("", ""),
    ],
)
def test_whole_words_are_replaced_and_keep_their_capital(text, expected):
    assert correct(text, TABLE, "uz") == expected


@pytest.mark.parametrize(
    ("lang", "expected"),
    [
        ("az", "İyul ayı İyul ayı Ilıq İl İl"),
        ("tr", "İyul ayı İyul ayı Ilıq İl İl"),
        ("uz", "Iyul ayı Iyul ayı ILIK Il Il"),
    ],
)
def test_the_two_letters_i_keep_their_dots(lang, expected):
    table = {"iyul": "iyul ayı", "ılık": "ılıq", "yıl": "il", "sene": "il"}
    assert correct("İyul IYUL ILIK Yıl Sene", table, lang) == expected


def _write(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def root(tmp_path):
    _write(tmp_path / "words.tsv", "word\treplacement", "garda\tqarda", "gar\tqar", "snow\tqar")
    _write(tmp_path / "pairs.tsv", "en\ttext\tunknown", "Snow, garda\tGar, snow\t0.5")
    return tmp_path


def test_a_source_is_corrected_in_all_columns_but_the_pivots(root):
    source = Source(path="pairs.tsv", columns={"pivot": "en"}, corrections="words.tsv")
    corrected = {"pivot": "Snow, garda", "text": "Qar, qar", "unknown": "0.5"}
    assert list(read_parallel(source, root)) == [corrected]
    plain = Source(path="pairs.tsv", columns={"pivot": "en"})
    assert [row["text"] for row in read_parallel(plain, root)] == ["Gar, snow"]


def test_the_pivots_file_is_left_alone(root):
    for lang in ("az", "en"):
        _write(root / f"scored.{lang}.tsv", "id\tscore\tsentence1\tsentence2", "gar\t3\tsnow\tgarda")
    source = Source(path="scored.az.tsv", pivot_path="scored.en.tsv", corrections="words.tsv")
    (row,) = read_cross_scored(resolve_source(source, "az", "en"), root)
    texts = [value for value in row.values() if value in ("snow", "garda", "qar", "qarda")]
    assert sorted(texts) == ["garda", "qar", "qarda", "snow"]


def test_text_files_are_corrected_and_the_name_takes_the_languages_code(root):
    _write(root / "words.az.tsv", "word\treplacement", "garda\tqarda")
    _write(root / "text.txt", "Garda", "snow")
    source = Source(path="text.txt", corrections="words.{lang}.tsv")
    assert [row["text"] for row in read_rows(source, root, "az", "en")] == ["Qarda", "snow"]


def test_the_language_decides_on_capital_letters(root):
    _write(root / "words.tsv", "word\treplacement", "yıl\til")
    _write(root / "text.txt", "Yıl")
    source = Source(path="text.txt", corrections="words.tsv")
    texts = {lang: [row["text"] for row in read_rows(source, root, lang, "en")] for lang in ("az", "uz")}
    assert texts == {"az": ["İl"], "uz": ["Il"]}


def test_columns_without_texts_are_left_alone(root):
    _write(root / "pairs.tsv", "en\ttext\tsource\tid", "Snow\tGar\tsnow\tgar")
    source = Source(
        path="pairs.tsv", columns={"pivot": "en"}, where={"source": ("snow",)}, corrections="words.tsv"
    )
    (row,) = read_parallel(source, root)
    assert row == {"pivot": "Snow", "text": "Qar", "source": "snow", "id": "gar"}


@pytest.mark.parametrize(
    ("translator", "credit"),
    [
        ("a rule", "a rule, corrected with words.tsv"),
        ("", "a translator without a name, corrected with words.tsv"),
    ],
)
def test_records_of_sources_name_the_table(root, translator, credit):
    source = Source(path="pairs.tsv", columns={"pivot": "en"}, translator=translator, corrections="words.tsv")
    (record,) = load(PARALLEL, [source], "az", root=root).sources
    assert record.translator == credit


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["word\treplaced", "a\tb"], "expected the columns word, replacement, found word, replaced: no"),
        (["word\treplacement", "Garda\tqarda"], "row 1: expected a word in lower case, found 'Garda'"),
        (["word\treplacement", "a b\tqarda"], "row 1: expected a word in lower case, found 'a b'"),
        (["word\treplacement", "a\tb", "a\tc"], "row 2: expected each word once, found 'a' again"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path, lines, message):
    _write(tmp_path / "words.tsv", *lines)
    with pytest.raises(DataError, match=message):
        read_corrections(tmp_path / "words.tsv")


def test_the_shipped_tables_are_found_and_sound(tmp_path):
    tables = sorted((recipes_folder() / "corrections").glob("*.tsv"))
    assert [path.stem for path in tables] == ["az", "ky", "ug", "uz"]
    for path in tables:
        name = f"corrections/{path.name}"
        assert find_data_file(name, tmp_path) == path
        assert len(read_corrections(path)) > (250 if path.stem == "ug" else 300)
    (tmp_path / "corrections").mkdir()
    _write(tmp_path / "corrections" / "az.tsv", "word\treplacement", "a\tb")
    assert read_corrections(find_data_file("corrections/az.tsv", tmp_path)) == {"a": "b"}
