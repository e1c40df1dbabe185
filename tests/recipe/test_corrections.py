"""The script and tables of ``recipes/corrections``: whole words are replaced in the named columns alone."""

import gzip
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from modenc.data.formats import read_file
from modenc.errors import DataError

FOLDER = Path(__file__).resolve().parents[2] / "recipes" / "corrections"
script = SimpleNamespace(**runpy.run_path(str(FOLDER / "apply.py")))


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
    table = {"haggında": "haqqında", "garda": "qarda", "tom'un": "Tomun", "beyaz": "ağ", "vb": ""}
    assert script.correct(text, table, "uz") == expected


@pytest.mark.parametrize(
    ("lang", "expected"),
    [("az", "İyul ayı İyul ayı Ilıq İl İl"), ("uz", "Iyul ayı Iyul ayı ILIK Il Il")],
)
def test_the_two_letters_i_keep_their_dots(lang, expected):
    table = {"iyul": "iyul ayı", "ılık": "ılıq", "yıl": "il", "sene": "il"}
    assert script.correct("İyul IYUL ILIK Yıl Sene", table, lang) == expected


def test_the_named_columns_of_a_table_are_corrected(tmp_path):
    (tmp_path / "words.tsv").write_text("word\treplacement\nyıl\til\nsnow\tqar\n", "utf-8")
    source, output = tmp_path / "x.tsv.gz", tmp_path / "x.corrected.tsv.gz"
    source.write_bytes(gzip.compress("id\ten\ttext\tunknown\nyıl\tSnow\tYıl, snow\t0.50\n".encode()))
    words = ["az", str(tmp_path / "words.tsv"), str(source), str(output)]
    script.main([*words, "text"])
    expected = {"id": "yıl", "en": "Snow", "text": "İl, qar", "unknown": "0.50"}
    assert list(read_file(output)) == [expected]
    with pytest.raises(DataError, match=r"x\.tsv\.gz, row 1: expected a column 'texts' of text"):
        script.main([*words, "text", "texts"])
    assert list(read_file(output)) == [expected]


@pytest.mark.parametrize("lang", ["az", "ky", "ug", "uz"])
def test_a_shipped_table_has_each_word_once_in_lower_case(lang):
    words = [row["word"] for row in read_file(FOLDER / f"{lang}.tsv")]
    assert len(set(words)) == len(words) > 250
    assert all(script.WORD.fullmatch(word) and word == script.lower(word) for word in words)
