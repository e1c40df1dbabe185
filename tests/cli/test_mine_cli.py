"""``modenc mine`` as users run it, on a tiny hub."""

import json
import re

import pytest
from tiny_models import sentences

from modenc.cli.main import main
from modenc.mining import mine


@pytest.fixture
def sides(tmp_path):
    """Two files, of 60 sentences each."""
    for lang in ("kk", "en"):
        text = "".join(f"{sentence}\n" for sentence in sentences(lang)[:60])
        (tmp_path / f"{lang}.txt").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def words(sides, tiny_hub):
    """The command line without --threshold."""
    texts = [word for lang in ("kk", "en") for word in ("-i", str(sides / f"{lang}.txt"), "--lang", lang)]
    return ["mine", "--hub", str(tiny_hub.path), *texts, "-o", str(sides / "pairs.tsv")]


def test_it_writes_what_python_finds(words, sides, tiny_hub, capsys):
    assert main([*words, "--threshold", "0", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    found = mine(sentences("kk")[:60], sentences("en")[:60], tiny_hub.path, ("kk", "en"), threshold=0)
    rows = [line.split("\t") for line in (sides / "pairs.tsv").read_text(encoding="utf-8").splitlines()]
    assert rows == [["kk", "en", "score"], *([*pair[:2], f"{pair.score:.4f}"] for pair in found)]
    assert len(rows) > 3
    assert summary["pairs"] == len(rows) - 1
    assert sorted(path.name for path in sides.iterdir()) == ["en.txt", "kk.txt", "pairs.tsv"]


def test_columns_of_one_table(sides, tiny_hub, capsys):
    rows = zip(sentences("kk")[:40], sentences("en")[20:60], strict=True)
    text = "own\ttheirs\n" + "".join(f"{kk}\t{en}\n" for kk, en in rows)
    (sides / "both.tsv").write_text(text, encoding="utf-8")
    source = ["-i", str(sides / "both.tsv")]
    words = [*source, "--lang", "kk", "--column", "own", *source, "--lang", "en", "--column", "theirs"]
    output = str(sides / "pairs.tsv")
    assert main(["mine", "--hub", str(tiny_hub.path), *words, "-o", output, "--threshold", "1"]) == 0
    assert capsys.readouterr().out.startswith(f"{output}\t")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--lang": ["kk"]}, r"--lang: expected two, one for each side, found 1"),
        ({"--lang": ["kk", "kaz_Cyrl"]}, r"expected two languages, found kk for both"),
        ({"-i": ["kk.txt", "em.txt"]}, r"em.txt: no such file; did you mean 'en.txt'"),
        ({"-o": ["pairs.npy"]}, r"pairs.npy: expected a name ending in .tsv"),
        ({"-o": ["none/pairs.tsv"]}, r"none: no such folder"),
        ({"--column": ["a", "b", "c"]}, r"--column: expected one, or one for each --input, found 3"),
    ],
)
def test_wrong_words_say_what_was_expected(sides, tiny_hub, capsys, changes, message, monkeypatch):
    monkeypatch.chdir(sides)
    given = {
        "-i": ["kk.txt", "en.txt"],
        "--lang": ["kk", "en"],
        "-o": ["pairs.tsv"],
        "--threshold": ["1"],
    } | changes
    words = [word for name, values in given.items() for value in values for word in (name, value)]
    assert main(["mine", "--hub", str(tiny_hub.path), *words]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_threshold_is_needed(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "the following arguments are required: --threshold" in capsys.readouterr().err
