import io
import json
import sys

import pytest
from tiny_models import sentences

from modenc.cli.main import main
from modenc.encoder import ModularEncoder


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(sentences("en")[:3] + sentences("kk")[:3]) + "\n", encoding="utf-8")
    return path


GERMAN = "Das ist ein ganz gewöhnlicher deutscher Satz."


def test_identify_writes_language_modules_and_text(tiny_hub, texts, capsys):
    assert main(["identify", "--hub", str(tiny_hub.path), "--input", str(texts)]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["en"] * 3 + ["kk"] * 3
    assert [row[2] for row in rows] == ["en"] * 3 + ["kk"] * 3
    assert all(0 <= float(row[1]) <= 1 for row in rows)
    assert [row[3] for row in rows] == sentences("en")[:3] + sentences("kk")[:3]


def test_identify_as_json_has_language_and_modules(tiny_hub, tmp_path, capsys):
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"text": GERMAN}) + '\n{"text": "1\\n2"}\n{"text": "x \\ud800 y"}\n')
    assert main(["identify", "--hub", str(tiny_hub.path), "--input", str(path), "--json"]) == 0
    german, digits, odd = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert list(german) == ["code", "confidence", "modules", "text"]
    assert (german["code"], german["modules"], german["text"]) == ("de", "base", GERMAN)
    assert german["confidence"] > 0.5
    assert digits == {"code": "und", "confidence": 0.0, "modules": "en", "text": "1\n2"}
    assert odd["text"] == "x \ud800 y"


@pytest.mark.parametrize(
    ("options", "modules"),
    [
        ([], ["base", "kk"]),
        (["--fallback", "az"], ["az", "kk"]),
        (["--fallback", "error"], ["-", "kk"]),
        (["--min-confidence", "1"], ["base", "base"]),
    ],
)
def test_identify_honors_fallback_and_min_confidence(tiny_hub, tmp_path, capsys, options, modules):
    (tmp_path / "t.txt").write_text(f"{GERMAN}\n{sentences('kk')[0]}\n", encoding="utf-8")
    words = ["identify", "--hub", str(tiny_hub.path), "--input", str(tmp_path / "t.txt"), *options]
    assert main(words) == 0
    assert [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()] == modules


def test_identify_keeps_one_line_a_text(tiny_hub, tmp_path, capsys):
    (tmp_path / "t.jsonl").write_text('{"text": "a\\tb\\nc"}\n{"text": ""}\n{"text": "x \\ud800 y"}\n')
    assert main(["identify", "--hub", str(tiny_hub.path), "--input", str(tmp_path / "t.jsonl")]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [row[3] for row in rows] == ["a b c", "", "x ? y"]


def test_identify_reads_standard_input(tiny_hub, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sentences("kk")[0].encode())))
    assert main(["identify", "--hub", str(tiny_hub.path)]) == 0
    assert capsys.readouterr().out.startswith("kk\t")


def test_standard_input_that_is_not_utf8(tiny_hub, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fine\ncaf\xe9\n")))
    assert main(["identify", "--hub", str(tiny_hub.path)]) == 2
    assert "standard input, line 2: expected UTF-8, found byte 0xe9" in capsys.readouterr().err


def test_search_finds_the_line_itself_first(tiny_hub, texts, capsys):
    query = sentences("kk")[1]
    assert main(["search", query, "--hub", str(tiny_hub.path), "--input", str(texts), "--top", "2"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 2
    assert rows[0] == ["1.000", "kk", query]
    assert float(rows[1][0]) <= 1.0


def test_search_uses_the_prompts_of_queries_and_documents(tiny_hub, texts, capsys, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path, prompts={"query": "find: ", "document": "passage: "})
    monkeypatch.setattr("modenc.cli.search.open_encoder", lambda _: encoder)
    query, lines = sentences("kk")[1], texts.read_text(encoding="utf-8").splitlines()
    words = ["--hub", str(tiny_hub.path), "--input", str(texts), "--top", "99", "--json"]
    assert main(["search", query, *words]) == 0
    found = {row["text"]: row["score"] for row in map(json.loads, capsys.readouterr().out.splitlines())}
    cosines = encoder.similarity(encoder.encode_query(query), encoder.encode_document(lines))[0]
    assert found == pytest.approx(dict(zip(lines, cosines.tolist(), strict=True)), abs=1e-5)
    same = encoder.similarity(encoder.encode(query), encoder.encode(lines))[0]
    assert found != pytest.approx(dict(zip(lines, same.tolist(), strict=True)), abs=1e-5)


def test_search_across_shards_keeps_the_best(tiny_hub, texts, capsys, monkeypatch):
    words = ["search", sentences("en")[2], "--hub", str(tiny_hub.path), "--input", str(texts)]
    assert main(words) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr("modenc.cli.search.LINES_AT_ONCE", 2)
    assert main(words) == 0
    assert capsys.readouterr().out == whole


@pytest.mark.parametrize(
    ("query", "lines", "message"), [(" ", "a\n", "empty one"), ("a", "", "lines to search, found none")]
)
def test_search_without_something_to_search(tiny_hub, tmp_path, capsys, query, lines, message):
    (tmp_path / "t.txt").write_text(lines)
    assert main(["search", query, "--hub", str(tiny_hub.path), "--input", str(tmp_path / "t.txt")]) == 2
    assert message in capsys.readouterr().err


def test_a_size_below_one_is_refused(tiny_hub, texts, capsys):
    with pytest.raises(SystemExit):
        main(["search", "a", "--hub", str(tiny_hub.path), "--input", str(texts), "--top", "0"])
    assert "expected 1 to 2147483647, found 0" in capsys.readouterr().err


def test_search_never_finds_blank_lines(tiny_hub, tmp_path, capsys):
    kept = [*sentences("en")[:3], "7", "🙂", "C+"]
    blank = ["", " \u3000", "\u200b\ufeff", "\u00ad", "...", "—", "«!»", "\u0301"]
    (tmp_path / "t.txt").write_text("\n".join([*blank, *kept, *blank]), encoding="utf-8")
    words = ["--hub", str(tiny_hub.path), "--input", str(tmp_path / "t.txt"), "--top", "99", "--json"]
    assert main(["search", "x", *words]) == 0
    found = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    assert sorted(found) == sorted(kept)
    for query in blank[1:]:
        assert main(["search", query, *words]) == 2
        assert "expected a query, found an empty one" in capsys.readouterr().err
    (tmp_path / "t.txt").write_text("\n".join(blank), encoding="utf-8")
    assert main(["search", "x", *words]) == 2
    assert "expected lines to search, found none" in capsys.readouterr().err
