"""``modenc translate`` as a user runs it, on a program that imitates apertium."""

import gzip
import json
import re
import shutil

import pytest

from modenc.cli.main import main
from modenc.data.formats import read_file
from modenc.translation.apertium import Apertium

PAIRS = [
    ("4.6", "a man plays", "the man is playing"),
    ("0.2", "a cat sleeps", "blorf blorf blorf"),
    ("1.5", "crash here", "a dog runs"),
    ("3", "a man plays", "a \N{ZERO WIDTH NON-JOINER}bird  sings"),
]


@pytest.fixture
def translate(fake_apertium, monkeypatch):
    """Runs ``modenc translate`` from English to Kazakh; in Cyrillic, since capitals alone are copies."""
    real = Apertium.translate
    capitals = str.maketrans({chr(small): chr(0x410 + place) for place, small in enumerate(range(65, 91))})

    def in_cyrillic(self, texts):
        results = real(self, texts)
        return [type(one)(one.text.translate(capitals), one.unknown, one.failed) for one in results]

    monkeypatch.setattr(Apertium, "translate", in_cyrillic)

    def run(source, output, *options):
        languages = [] if "--source" in options else ["--source", "en", "--target", "kk"]
        return main(["translate", "-i", str(source), "-o", str(output), *languages, *options])

    return run


def kk(text):
    """What the stand-in makes of a text, in Cyrillic letters."""
    return "".join(chr(0x410 + ord(c) - 97) if "a" <= c <= "z" else c for c in text)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "sts.tsv"
    rows = "".join("\t".join(row) + "\n" for row in PAIRS)
    path.write_text(f"score\tsentence1\tsentence2\n{rows}", encoding="utf-8")
    return path


COLUMNS = ("--column", "sentence1", "--column", "sentence2")


def test_scored_pairs_stay_aligned(translate, table, tmp_path, capsys, caplog):
    output = tmp_path / "kk.tsv"
    with caplog.at_level("INFO"):
        assert translate(table, output, *COLUMNS) == 0
    assert list(read_file(output)) == [
        {
            "score": score,
            "sentence1": kk(first),
            "sentence2": kk(second),
        }
        for score, first, second in (PAIRS[0], ("3", "a man plays", "a bird sings"))
    ]
    assert "read 4, kept 2 (1 that the engine cannot translate, 1 with unknown words)" in caplog.text
    seen = capsys.readouterr()
    assert seen.out == f"{output}\t2\n"
    assert "%|" not in seen.err  # no bar where standard error is no terminal
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kk.tsv", "sts.tsv"]


def test_plain_text_becomes_a_table(translate, tmp_path, capsys):
    lines = ["a man plays", "", "blorf blorf now", "a dog runs"]
    source = tmp_path / "t.txt.gz"
    source.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert translate(source, tmp_path / "o.tsv", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "output": str(tmp_path / "o.tsv"),
        "read": 4,
        "kept": 3,
        "dropped": {"unknown_words": 1},
    }
    found = [(row["en"], row["kk"]) for row in read_file(tmp_path / "o.tsv")]
    assert found == [(line, kk(line)) for line in lines if "blorf" not in line]


def test_values_are_copied_as_they_are_written(translate, tmp_path):
    rows = [
        {"id": 7, "score": 1.5, "text": "a dog", "ok": True, "note": None, "in": {"deep": "x\ty"}},
        {"id": 2**70, "score": 2, "text": None, "ok": False, "note": "\ud83d", "in": {"deep": "y"}},
    ]
    source = tmp_path / "t.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert translate(source, tmp_path / "o.tsv") == 0
    assert list(map(list, map(dict.values, read_file(tmp_path / "o.tsv")))) == [
        ["7", "1.5", kk("a dog"), "true", "", "x y"],
        [str(2**70), "2", "", "false", "?", "y"],
    ]


@pytest.fixture
def ten_lines(tmp_path):
    path = tmp_path / "in" / "t.txt"
    path.parent.mkdir()
    path.write_text("".join(f"line {letter} of this\n" for letter in "abcdefghij"), encoding="utf-8")
    return path


def _cut_off_after(patch, calls):
    """Let apertium translate ``calls`` times, then end as a killed process does; gives the texts it saw."""
    seen = []
    real = Apertium.translate

    def translate(self, texts):
        if len(seen) == calls:
            raise KeyboardInterrupt
        seen.append(list(texts))
        return real(self, texts)

    patch.setattr(Apertium, "translate", translate)
    return seen


def test_a_rerun_translates_only_the_missing_parts(translate, ten_lines, tmp_path, monkeypatch, caplog):
    options = ("--part-size", "3", "--no-language-check")
    output = tmp_path / "parts"
    with monkeypatch.context() as patch:
        seen = _cut_off_after(patch, 2)
        assert translate(ten_lines, output, *options) == 130
    names = [f"t.txt-0000{number}.tsv" for number in range(4)]
    assert sorted(path.name for path in output.glob("*.tsv")) == names[:2]
    (output / ".t.txt-00002.tmp-1-2.tsv").touch()  # of a killed process
    with monkeypatch.context() as patch, caplog.at_level("INFO"):
        later = _cut_off_after(patch, 9)
        assert translate(ten_lines, output, *options) == 0
    assert "parts: 2 of 4 parts are done" in caplog.text
    assert [text for texts in (*seen, *later) for text in texts] == ten_lines.read_text().splitlines()
    assert sorted(path.name for path in output.glob("[!.]*")) == names
    rows = [row for name in names for row in read_file(output / name)]
    assert translate(ten_lines, tmp_path / "whole.tsv", "--no-language-check") == 0
    assert rows == list(read_file(tmp_path / "whole.tsv"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--max-unknown", "0.5"), "found max_unknown 0.25 instead of 0.5; write to another folder"),
        (("--source", "es", "--target", "en"), "found translator .*, source 'en' instead of 'es'"),
        (
            ("--part-size", "4"),
            "of the present input, found 1 others",
        ),
    ],
)
def test_parts_of_anything_else_are_refused(translate, ten_lines, tmp_path, capsys, change, message):
    options = ("--part-size", "3", "--no-language-check")
    assert translate(ten_lines, tmp_path / "parts", *options) == 0
    assert translate(ten_lines, tmp_path / "parts", *options, *change) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_folder_of_files_gives_parts_for_each(translate, ten_lines, tmp_path):
    shutil.copy(ten_lines, ten_lines.with_name("b.txt"))
    assert translate(ten_lines.parent, f"{tmp_path}/parts.kk/", "--no-language-check") == 0
    found = sorted(path.name for path in (tmp_path / "parts.kk").glob("*.tsv"))
    assert found == ["b.txt-00000.tsv", "t.txt-00000.tsv"]
    assert len(list(read_file(tmp_path / "parts.kk" / "b.txt-00000.tsv"))) == 10


def test_rows_have_the_columns_of_the_first_one(translate, tmp_path, capsys):
    source = tmp_path / "t.jsonl"
    source.write_text('{"text": "a dog", "n": 1}\n{"n": 2, "text": "b"}\n')
    assert translate(source, tmp_path / "o.tsv", "--no-language-check") == 0
    source.write_text('{"text": "a"}\n{"text": "b", "n": 1}\n')
    assert translate(source, tmp_path / "o.tsv") == 2
    assert "row 2: expected the columns of row 1, found a difference in n; give" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--column", "sentense1"),
            "expected a column 'sentense1' of text in UTF-8, found 'score', 'sentence1', 'sen",
        ),
        ((*COLUMNS, "--source", "en", "--target", "fr"), "found 'en-fr'; install its pair"),
        (("--model", "x", "--data-dir", "."), "--data-dir: expected no --model with it; leave it out"),
        ((*COLUMNS, "--model", "none"), "expected a translation model's folder, or its id on Hugging Face;"),
    ],
)
def test_what_is_wrong_is_said(translate, table, tmp_path, capsys, options, message):
    if "none" in options:
        pytest.importorskip("sentencepiece", reason="the extra translate is not installed")
    assert translate(table, tmp_path / "o.tsv", *options) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["sts.tsv"]


@pytest.mark.parametrize(
    ("source", "output", "message"),
    [
        ("sts.tsv", "o.csv", "expected an output ending in .tsv, or a folder"),
        ("empty.tsv", "o.tsv", "expected rows to translate, found none"),
        ("t.txt", "o.tsv", "t.txt, row 1: expected a column 'sentence1' of text in UTF-8, found 'text'"),
    ],
)
def test_files_that_cannot_be_are_said(translate, table, tmp_path, capsys, source, output, message):
    (tmp_path / "empty.tsv").write_text("sentence1\tsentence2\n")
    (tmp_path / "t.txt").write_text("a\n")
    assert translate(tmp_path / source, tmp_path / output, *COLUMNS) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_neural_model_from_end_to_end(table, tmp_path, capsys):
    pytest.importorskip("sentencepiece", reason="the extra translate is not installed")
    import tiny_translators

    model = tiny_translators.save_tiny_nllb(tmp_path / "nllb")
    words = ["--model", str(model), "--source", "en", "--target", "kk", "--no-language-check"]
    words += ["--column", "sentence1", "--json"]
    assert main(["translate", "-i", str(table), "-o", str(tmp_path / "one.tsv"), *words]) == 0
    assert json.loads(capsys.readouterr().out)["read"] == len(PAIRS)
