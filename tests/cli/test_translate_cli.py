"""``modenc translate`` as a user runs it, on a program that imitates apertium."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
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
        words = ["-i", str(source), "-o", str(output), "--engine", "apertium"]
        if "--mode" not in options and "--chain" not in options:
            words += ["--mode", "eng-kaz"]
        return main(["translate", *words, *options])

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
        assert translate(table, output, *COLUMNS, "--license", "CC-BY-SA-4.0") == 0
    assert list(read_file(output)) == [
        {
            "score": score,
            "sentence1": kk(first),
            "sentence2": kk(second),
            "sentence1_en": first,
            "sentence2_en": second,
            "unknown": "0.0",
        }
        for score, first, second in (PAIRS[0], ("3", "a man plays", "a bird sings"))
    ]
    assert "read 4, kept 2 (1 crashed the engine, 1 with unknown words)" in caplog.text
    seen = capsys.readouterr()
    assert seen.out == f"{output}\t2\n"
    assert "%|" not in seen.err  # no bar where standard error is no terminal
    record = json.loads((tmp_path / "kk.tsv.translation.json").read_text())
    assert record["translator"] == "apertium 9.8.7 (eng-kaz)"
    assert record["license"] == "CC-BY-SA-4.0"
    assert (record["text"], record["source"], record["target"]) == ("sts.tsv", "en", "kk")
    assert record["counts"]["dropped"] == {"crashed": 1, "unknown_words": 1}
    assert str(tmp_path) not in json.dumps(record)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "kk.tsv",
        "kk.tsv.translation.json",
        "sts.tsv",
    ]


def test_plain_text_becomes_a_table_or_lines_that_stay_aligned(translate, tmp_path, capsys):
    lines = ["a man plays", "", "blorf blorf now", "a dog runs"]
    source = tmp_path / "t.txt.gz"
    source.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert translate(source, tmp_path / "o.tsv.gz", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "output": str(tmp_path / "o.tsv.gz"),
        "read": 4,
        "kept": 3,
        "dropped": {"unknown_words": 1},
        "cut": 0,
    }
    found = [(row["en"], row["kk"]) for row in read_file(tmp_path / "o.tsv.gz")]
    assert found == [(line, kk(line)) for line in lines if "blorf" not in line]
    assert translate(source, tmp_path / "o.txt") == 0
    expected = ["" if "blorf" in line else kk(line) for line in lines]
    assert (tmp_path / "o.txt").read_text(encoding="utf-8").splitlines() == expected


def test_values_keep_their_types(translate, tmp_path):
    rows = [
        {"id": 7, "score": 1.5, "en": "a dog", "ok": True, "note": None, "in": {"deep": "x"}},
        {"id": 8, "score": 2, "en": None, "ok": False, "note": "n", "in": {"deep": "y"}},
    ]
    source = tmp_path / "t.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert translate(source, tmp_path / "o.jsonl", "--column", "en", "--no-originals") == 0
    first, second = map(json.loads, (tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines())
    assert first == {
        "id": 7, "score": 1.5, "ok": True, "note": None, "in.deep": "x", "kk": kk("a dog"), "unknown": 0.0
    }  # fmt: skip
    assert (second["kk"], second["note"]) == ("", "n")
    assert translate(source, tmp_path / "o.parquet", "--column", "en") == 0
    schema = pq.read_schema(tmp_path / "o.parquet")
    kinds = {"id": pa.int64(), "score": pa.float64(), "ok": pa.bool_(), "en": pa.string(), "kk": pa.string()}
    assert {name: schema.field(name).type for name in kinds} == kinds
    # JSON may hold half a character, and an integer that Arrow does not convert, in a column of numbers.
    odd = [{"en": "a dog", "note": "\ud83d", "n": 2**53 + 1}, {"en": "a cat", "note": "", "n": 0.5}]
    source.write_text("".join(json.dumps(row) + "\n" for row in odd), encoding="utf-8")
    assert translate(source, tmp_path / "odd.parquet", "--column", "en") == 0
    assert pq.read_table(tmp_path / "odd.parquet").select(["note", "n"]).to_pylist() == [
        {"note": "?", "n": float(2**53)},
        {"note": "", "n": 0.5},
    ]
    assert translate(tmp_path / "o.parquet", tmp_path / "again.tsv", "--column", "note") == 2


def test_a_translation_of_a_translation_has_the_license_and_translator_of_both(translate, table, tmp_path):
    assert translate(table, tmp_path / "a.tsv", *COLUMNS, "--license", "MIT") == 0
    options = ("--column", "sentence1", "--chain", "eng>tur>aze")
    source = tmp_path / "a.txt"
    source.write_text("a man\n", encoding="utf-8")
    shutil.copy(tmp_path / "a.tsv.translation.json", tmp_path / "a.txt.translation.json")
    assert translate(source, tmp_path / "b.jsonl", *options[2:], "--no-language-check") == 0
    record = json.loads((tmp_path / "b.jsonl.translation.json").read_text())
    assert record["license"] == "MIT"
    assert record["translator"] == "apertium 9.8.7 (eng-kaz), then apertium 9.8.7 (eng-tur, tur-aze)"
    assert [step["name"] for step in record["steps"]] == ["eng-kaz", "eng-tur", "tur-aze"]


def _cut_off_after(monkeypatch, calls):
    """Let apertium translate ``calls`` times, then end as a killed process does; gives the texts it saw."""
    seen = []
    real = Apertium.translate

    def translate(self, texts):
        if len(seen) == calls:
            raise KeyboardInterrupt
        seen.append(list(texts))
        return real(self, texts)

    monkeypatch.setattr(Apertium, "translate", translate)
    return seen


@pytest.mark.parametrize("ending", [".tsv", ".jsonl.gz", ".parquet", ".txt"])
def test_a_run_that_was_cut_off_goes_on_to_the_same_bytes(translate, tmp_path, monkeypatch, caplog, ending):
    source = tmp_path / "t.txt"
    source.write_text("".join(f"line {'abcdefghij'[i]} of this\n" for i in range(10)), encoding="utf-8")
    options = ("--shard-size", "3", "--no-language-check")
    whole, output = tmp_path / f"whole{ending}", tmp_path / f"cut{ending}"
    assert translate(source, whole, *options) == 0
    with monkeypatch.context() as patch:
        seen = _cut_off_after(patch, 2)
        assert translate(source, output, *options) == 130
    assert not output.exists()
    with monkeypatch.context() as patch:
        later = _cut_off_after(patch, 9)
        assert translate(source, output, *options) == 0
    # Nothing is done twice.
    assert [text for texts in (*seen, *later) for text in texts] == source.read_text().splitlines()
    assert output.read_bytes() == whole.read_bytes()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        f"{name}{ending}{end}" for name in ("whole", "cut") for end in ("", ".translation.json")
    } | {"t.txt"}
    # Another setting starts over.
    with monkeypatch.context() as patch:
        _cut_off_after(patch, 1)
        translate(source, output, *options)
    with caplog.at_level("INFO"):
        assert translate(source, output, *options, "--max-unknown", "0.5") == 0
    assert "is of another job (filters changed); starting over" in caplog.text


def test_an_input_that_changes_meanwhile_is_not_mixed(translate, table, tmp_path, monkeypatch, capsys):
    real = Apertium.translate

    def touching(self, texts):
        os.utime(table, ns=(0, 0))
        return real(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(Apertium, "translate", touching)
        assert translate(table, tmp_path / "o.tsv", *COLUMNS) == 2
    assert "sts.tsv: changed while it was translated; run the same command again" in capsys.readouterr().err
    assert not (tmp_path / "o.tsv").exists()
    assert translate(table, tmp_path / "o.tsv", *COLUMNS) == 0


@pytest.mark.slow
def test_a_killed_process_goes_on(fake_apertium, tmp_path):
    source = tmp_path / "t.txt"
    source.write_text("".join(f"{number} a line of it\n" for number in range(160)), encoding="utf-8")
    words = ["translate", "-i", source, "--engine", "apertium", "--mode", "spa-eng", "--no-language-check"]
    command = [sys.executable, "-m", "modenc.cli", *map(str, words), "--shard-size", "4", "-o"]
    subprocess.run([*command, tmp_path / "whole.txt"], check=True, capture_output=True)
    starts = len(fake_apertium.read_text().splitlines())
    process = subprocess.Popen([*command, tmp_path / "cut.txt"], stderr=subprocess.DEVNULL)
    parts = tmp_path / "cut.txt.parts"
    while process.poll() is None and len(list(parts.glob("0*.jsonl"))) < 10:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "cut.txt").exists()
    done = subprocess.run([*command, tmp_path / "cut.txt"], check=True, capture_output=True, text=True)
    assert "read 160, kept 160" in done.stderr
    assert "%|" not in done.stderr
    assert (tmp_path / "cut.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
    # The shard that was at work when it was killed is the only one to come again.
    assert starts <= len(fake_apertium.read_text().splitlines()) - starts <= starts + 1
    assert not parts.exists()


@pytest.mark.slow
def test_similarity_by_a_hub(translate, tiny_hub, tmp_path):
    source = tmp_path / "t.txt"
    source.write_text("a man plays\na dog runs\n", encoding="utf-8")
    options = ("--hub", str(tiny_hub.path), "--min-similarity")
    assert translate(source, tmp_path / "o.jsonl", *options, "-1") == 0
    rows = list(map(json.loads, (tmp_path / "o.jsonl").read_text().splitlines()))
    assert all(-1 <= row["similarity"] <= 1 for row in rows)
    assert translate(source, tmp_path / "none.jsonl", *options, "1") == 0
    assert (tmp_path / "none.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--column", "sentense1"),
            "expected a column 'sentense1' of text in UTF-8, found score, sentence1, sen",
        ),
        (("--mode", "eng-kas"), "expected a mode that apertium has"),
        (("--chain", "en"), 'expected codes with > between, as "en>tr>az"'),
        (("--chain", "en>kk", "--source", "en"), "--chain names all languages; leave out --source"),
        (("--source", "en"), "expected both --source and --target, found one"),
        (("--chain", "en>fr"), "found 'en-fr'; did you mean"),
        (("--hub", "x"), "--hub: expected --min-similarity with it, which needs vectors; give both"),
        (
            ("--model", "x"),
            "--model: expected --engine transformers or ctranslate2 with it, found apertium; leave it out",
        ),
        (
            ("--tokenizer", "x"),
            "--tokenizer: expected --engine ctranslate2 with it, found apertium; leave it out, or ch",
        ),
        (("--beams", "4"), "--beams: expected --engine transformers or ctranslate2 with it, found apertium"),
        (("--batch-size", "2"), "--batch-size: expected --engine transformers or ctranslate2 with it"),
        (
            ("--source", "en", "--target", "tr"),
            "--mode eng-kaz: expected a mode from en to tr, found one from",
        ),
    ],
)
def test_what_is_wrong_is_said(translate, table, tmp_path, capsys, options, message):
    assert translate(table, tmp_path / "o.tsv", *options) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["sts.tsv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-unknown", "2"), "--max-unknown: expected 0 to 1, found 2"),
        (("--time-limit", "0"), "--time-limit: expected 0.001 to 1000000, found 0"),
        (("--max-length-ratio", "0.5"), "--max-length-ratio: expected 1 to 1000, found 0.5"),
        (("--min-similarity", "nan"), "--min-similarity: expected -1 to 1, found nan"),
    ],
)
def test_numbers_that_cannot_be(translate, table, tmp_path, capsys, words, message):
    with pytest.raises(SystemExit, match="2"):
        translate(table, tmp_path / "o.tsv", *words)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "output", "message"),
    [
        ("sts.tsv", "o.csv", "expected an output ending in .txt, .tsv, .jsonl, .parquet"),
        ("sts.tsv", "o.parquet.gz", "found '.parquet.gz'; rename it"),
        ("sts.tsv", "sts.tsv", "expected another file than the input"),
        ("sts.tsv", "none/o.tsv", "none: no such folder; make it"),
        ("stz.tsv", "o.tsv", "no such file; did you mean 'sts.tsv'?"),
        ("sts.tsv", "o.txt", "expected one --column for a .txt, found 2; write a .tsv"),
        ("empty.tsv", "o.tsv", "expected rows to translate, found none"),
        ("taken.tsv", "o.tsv", "expected no column 'sentence1_en', which is an output column"),
        ("t.txt", "o.tsv", "plain text has no columns; leave out --column"),
    ],
)
def test_files_that_cannot_be_are_said(translate, table, tmp_path, capsys, source, output, message):
    (tmp_path / "empty.tsv").write_text("sentence1\tsentence2\n")
    (tmp_path / "taken.tsv").write_text("sentence1\tsentence2\tsentence1_en\na\tb\tc\n")
    (tmp_path / "t.txt").write_text("a\n")
    assert translate(tmp_path / source, tmp_path / output, *COLUMNS) == 2
    assert message in capsys.readouterr().err


def test_neural_engines_want_models_and_languages(table, tmp_path, capsys):
    words = ["translate", "-i", str(table), "-o", str(tmp_path / "o.tsv"), "--engine", "transformers"]
    assert main(words) == 2
    assert (
        "expected --model, and --source and --target (or --chain); found 0 models" in capsys.readouterr().err
    )
    for option, value in (("--mode", "eng-kaz"), ("--data-dir", "x"), ("--time-limit", "3")):
        assert main([*words, option, value]) == 2
        expected = (
            f"{option}: expected --engine apertium with it, found transformers; leave it out, or choose"
        )
        assert expected in capsys.readouterr().err
    assert main([*words, "--tokenizer", "x"]) == 2
    assert (
        "--tokenizer: expected --engine ctranslate2 with it, found transformers; leave"
        in capsys.readouterr().err
    )
    words += ["--column", "sentence1", "--model", str(tmp_path / "none"), "--source", "en", "--target"]
    assert main([*words, "no code"]) == 2
    assert "expected a language code such as 'kk'" in capsys.readouterr().err
    assert main([*words, "kk", "--column", "sentence3"]) == 2
    assert "expected a column 'sentence3'" in capsys.readouterr().err
    assert main([*words, "kk"]) == 2
    assert (
        "expected a translation model's folder, or its id on Hugging Face; found" in capsys.readouterr().err
    )


@pytest.mark.slow
def test_a_neural_model_from_end_to_end(table, tmp_path, capsys):
    pytest.importorskip("sentencepiece", reason="the extra translate is not installed")
    import tiny_translators

    model = tiny_translators.save_tiny_marian(tmp_path / "opus-mt")
    words = ["--engine", "transformers", "--model", str(model), "--chain", "en>kk", "--beams", "1"]
    words += ["--no-language-check", "--max-length-ratio", "1000", "--column", "sentence1", "--json"]
    for name in ("one.tsv", "two.tsv"):
        assert main(["translate", "-i", str(table), "-o", str(tmp_path / name), *words]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["kept"] == len(PAIRS)
    assert (tmp_path / "one.tsv").read_bytes() == (tmp_path / "two.tsv").read_bytes()
    record = json.loads((tmp_path / "one.tsv.translation.json").read_text())
    assert record["translator"].endswith("(opus-mt)")
    assert os.sep not in record["steps"][0]["name"]
    assert "unknown" not in next(read_file(tmp_path / "one.tsv"))


@pytest.mark.slow
def test_a_resumed_run_never_mixes_two_models(tmp_path, monkeypatch, caplog):
    pytest.importorskip("sentencepiece", reason="the extra translate is not installed")
    import tiny_translators

    from modenc.translation.neural import NeuralStep

    model = tiny_translators.save_tiny_marian(tmp_path / "opus-mt")
    source = tmp_path / "t.txt"
    source.write_text("the new book\nthe old book\nthe red book\n", encoding="utf-8")
    words = [
        "translate",
        "-i",
        str(source),
        "--engine",
        "transformers",
        "--model",
        str(model),
        "--chain",
        "en>kk",
    ]
    words += ["--beams", "1", "--no-language-check", "--max-length-ratio", "1000", "--shard-size", "1", "-o"]
    with monkeypatch.context() as patch:
        real, seen = NeuralStep.translate, []

        def once(self, texts):
            if seen:
                raise KeyboardInterrupt
            seen.append(texts)
            return real(self, texts)

        patch.setattr(NeuralStep, "translate", once)
        assert main([*words, str(tmp_path / "o.txt")]) == 130
    shutil.rmtree(model)
    tiny_translators.save_tiny_marian(model, (">>kaz<<", ">>uzb_Latn<<", ">>tur<<"))
    with caplog.at_level("INFO"):
        assert main([*words, str(tmp_path / "o.txt")]) == 0
    assert "is of another job (engine changed); starting over" in caplog.text
    assert main([*words, str(tmp_path / "whole.txt")]) == 0
    assert (tmp_path / "o.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()
