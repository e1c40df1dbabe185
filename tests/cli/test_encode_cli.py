import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tiny_models import sentences

from modenc.cli import encode as encode_verb
from modenc.cli import encode_job
from modenc.cli.main import main
from modenc.encoder import ModularEncoder

TEXTS = [text for lang in ("en", "kk", "az") for text in sentences(lang)[:4]]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def encode(tiny_hub):
    """Runs ``modenc encode`` on the tiny hub."""

    def run(source, output, *options):
        return main(
            ["encode", "--hub", str(tiny_hub.path), "--input", str(source), "--output", str(output), *options]
        )

    return run


@pytest.fixture
def expected(tiny_hub):
    return ModularEncoder(tiny_hub.path).encode(TEXTS)


def _replace_kk(hub):
    """Kazakh with the base's vocabulary and Azerbaijani adapters."""
    with hub.staging("kk") as staging:
        shutil.copytree(hub.path / "az" / "se", staging / "se")
        hub.publish(staging, hub.card("kk"))


def _cut_off_after(monkeypatch, calls):
    """Let ``encode`` work ``calls`` times, then end as a killed process does; gives the texts it saw."""
    seen = []
    real = ModularEncoder.encode

    def encode(self, inputs, **options):
        if len(seen) == calls:
            raise KeyboardInterrupt
        seen.append([str(text) for text in inputs])
        return real(self, inputs, **options)

    monkeypatch.setattr(ModularEncoder, "encode", encode)
    return seen


@pytest.mark.parametrize("shard_size", [1, 5, 12, 100])
def test_shards_change_nothing(encode, texts, expected, tmp_path, shard_size):
    output = tmp_path / "v.npy"
    assert encode(texts, output, "--shard-size", str(shard_size)) == 0
    found = np.load(output)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt", "v.npy"]


def test_parquet_states_index_and_language(encode, texts, expected, tmp_path):
    assert encode(texts, tmp_path / "v.parquet", "--shard-size", "5") == 0
    file = pq.ParquetFile(tmp_path / "v.parquet")
    assert file.metadata.num_row_groups == 3
    table = file.read()
    assert table.column_names == ["index", "language", "vector"]
    assert table["index"].to_pylist() == list(range(12))
    assert table["language"].to_pylist() == ["en"] * 4 + ["kk"] * 4 + ["az"] * 4
    np.testing.assert_allclose(np.array(table["vector"].to_pylist()), expected, atol=1e-5)


def test_jsonl_and_parquet_columns(encode, expected, tmp_path):
    jsonl = tmp_path / "t.jsonl"
    jsonl.write_text("".join(json.dumps({"body": text, "id": 1}) + "\n" for text in TEXTS), encoding="utf-8")
    pq.write_table(pa.table({"body": TEXTS}), tmp_path / "t.parquet")
    for source in (jsonl, tmp_path / "t.parquet"):
        assert encode(source, tmp_path / "v.npy", "--column", "body") == 0
        np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)


def test_lang_and_no_align_reach_the_encoder(encode, texts, tiny_hub, tmp_path):
    assert encode(texts, tmp_path / "v.npy", "--lang", "kaz_Cyrl", "--no-align") == 0
    encoder = ModularEncoder(tiny_hub.path)
    np.testing.assert_allclose(
        np.load(tmp_path / "v.npy"), encoder.encode(TEXTS, lang="kk", align=False), atol=1e-5
    )


def test_computing_and_memory_reach_the_encoder(encode, texts, expected, tmp_path, capsys):
    assert encode(texts, tmp_path / "v.npy", "--compute", "bf16", "--max-memory", "1KB") == 0
    vectors = np.load(tmp_path / "v.npy")
    np.testing.assert_allclose(vectors, expected, atol=0.1)
    assert np.abs(vectors - expected).max() > 1e-5
    assert encode(texts, tmp_path / "v.npy", "--max-memory", "much") != 0
    assert "max_memory: expected bytes, or a text such as" in capsys.readouterr().err


def test_empty_and_blank_lines(encode, tmp_path):
    (tmp_path / "none.txt").write_text("")
    assert encode(tmp_path / "none.txt", tmp_path / "v.npy") == 0
    assert np.load(tmp_path / "v.npy").shape == (0, 32)
    assert encode(tmp_path / "none.txt", tmp_path / "v.parquet") == 0
    assert pq.read_table(tmp_path / "v.parquet").num_rows == 0
    (tmp_path / "blank.txt").write_text("one\n\n \t\n\N{LINE SEPARATOR}two\n🙂")
    assert encode(tmp_path / "blank.txt", tmp_path / "v.npy") == 0
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.shape == (5, 32)
    assert np.isfinite(vectors).all()


def test_a_folder_is_read_in_the_order_of_its_names(encode, expected, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "texts"
    folder.mkdir()
    assert encode(folder, tmp_path / "v.npy") == 2
    assert "texts: expected a folder with files of texts, found none" in capsys.readouterr().err
    pq.write_table(pa.table({"text": TEXTS[:5]}), folder / "a.parquet")
    (folder / "b.txt").write_text("\n".join(TEXTS[5:8]) + "\n", encoding="utf-8")
    (folder / "c.tsv").write_text("\n".join(["text", *TEXTS[8:]]) + "\n", encoding="utf-8")
    (folder / "_SUCCESS").write_text("")
    assert encode(folder, folder / "v.npy") == 2
    assert "expected an output outside of the input's folder" in capsys.readouterr().err
    assert encode(folder, tmp_path / "v.npy", "--lang-column", "lang") == 2
    assert "found the plain text of" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        _cut_off_after(patch, 2)
        assert encode(folder, tmp_path / "v.npy", "--shard-size", "4") == 130
    with monkeypatch.context() as patch:
        seen = _cut_off_after(patch, 9)
        assert encode(folder, tmp_path / "v.npy", "--shard-size", "4") == 0
    assert seen == [TEXTS[8:]]
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)


def test_lone_surrogates_in_json(encode, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "a \\ud800 b"}\n')
    assert encode(tmp_path / "t.jsonl", tmp_path / "v.npy") == 0
    assert np.isfinite(np.load(tmp_path / "v.npy")).all()


def test_resumes_after_being_cut_off(encode, texts, expected, tmp_path, monkeypatch, caplog):
    output = tmp_path / "v.npy"
    with monkeypatch.context() as patch:
        _cut_off_after(patch, 2)
        assert encode(texts, output, "--shard-size", "5") == 130
    assert not output.exists()
    with monkeypatch.context() as patch, caplog.at_level("INFO"):
        seen = _cut_off_after(patch, 100)
        assert encode(texts, output, "--shard-size", "5") == 0
    assert seen == [TEXTS[10:]]
    assert "2 shards of 5 texts are done already" in caplog.text
    np.testing.assert_allclose(np.load(output), expected, atol=1e-5)
    assert encode(texts, tmp_path / "undisturbed.npy", "--shard-size", "5") == 0
    assert output.read_bytes() == (tmp_path / "undisturbed.npy").read_bytes()


def test_fills_the_gaps_that_a_run_on_a_cluster_left(encode, texts, expected, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        _cut_off_after(patch, 2)
        assert encode(texts, tmp_path / "v.npy", "--shard-size", "5") == 130
    (tmp_path / "v.npy.parts" / "0000000.npy").unlink()
    with monkeypatch.context() as patch:
        seen = _cut_off_after(patch, 100)
        assert encode(texts, tmp_path / "v.npy", "--shard-size", "5") == 0
    assert seen == [TEXTS[:5], TEXTS[10:]]
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)


@pytest.mark.parametrize(("fast", "found"), [(True, "bf16"), (False, "fp32")])
def test_auto_is_the_job_of_what_it_comes_to(encode, texts, tmp_path, monkeypatch, caplog, fast, found):
    monkeypatch.setattr("modenc.composition.options.has_bf16", lambda device: fast)
    words = [texts, tmp_path / "v.npy", "--shard-size", "5", "--compute"]
    jobs = []
    for compute, calls in (("auto", 2), (found, 0)):
        with monkeypatch.context() as patch, caplog.at_level("INFO"):
            _cut_off_after(patch, calls)
            assert encode(*words, compute) == 130
        jobs.append((tmp_path / "v.npy.parts" / "job.json").read_text())
    assert jobs[0] == jobs[1]
    assert json.loads(jobs[0])["compute"] == found
    assert "2 shards of 5 texts are done already" in caplog.text
    # Another machine makes something else of the same word.
    monkeypatch.setattr("modenc.composition.options.has_bf16", lambda device: not fast)
    with monkeypatch.context() as patch, caplog.at_level("INFO"):
        seen = _cut_off_after(patch, 100)
        assert encode(*words, "auto") == 0
    assert len(seen) == 3
    assert "is of another job (compute changed); starting over" in caplog.text


@pytest.mark.parametrize(("fast", "beside"), [(True, "bf16"), (False, "fp32")])
def test_int8_is_the_job_of_what_its_machine_computes_beside_it(monkeypatch, fast, beside):
    monkeypatch.setattr("modenc.composition.options.has_bf16", lambda device: fast)
    assert encode_job.actual_precision("int8", torch.device("cpu")) == f"int8 and {beside}"


@pytest.mark.parametrize("change", ["input", "setting"])
def test_starts_over_when_the_job_differs(encode, texts, tmp_path, monkeypatch, caplog, change):
    with monkeypatch.context() as patch:
        _cut_off_after(patch, 2)
        encode(texts, tmp_path / "v.npy", "--shard-size", "5")
    if change == "input":
        os.utime(texts, ns=(0, 0))
    with monkeypatch.context() as patch, caplog.at_level("INFO"):
        seen = _cut_off_after(patch, 100)
        assert (
            encode(
                texts,
                tmp_path / "v.npy",
                "--shard-size",
                "5",
                *(["--no-align"] if change == "setting" else []),
            )
            == 0
        )
    assert len(seen) == 3
    assert (
        f"is of another job ({'date' if change == 'input' else 'align'} changed); starting over"
        in caplog.text
    )


def test_changed_modules_start_over(hub_copy, texts, tmp_path, monkeypatch, caplog):
    words = [
        "encode",
        "--hub",
        str(hub_copy.path),
        "--input",
        str(texts),
        "--output",
        str(tmp_path / "v.npy"),
    ]
    with monkeypatch.context() as patch:
        _cut_off_after(patch, 1)
        main([*words, "--shard-size", "5"])
    _replace_kk(hub_copy)
    with caplog.at_level("INFO"):
        assert main([*words, "--shard-size", "5"]) == 0
    assert "modules changed" in caplog.text


def test_standard_input(encode, expected, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\r\n".join(TEXTS).encode())))
    with caplog.at_level("INFO"):
        assert encode("-", tmp_path / "v.npy") == 0
    assert "standard input cannot be read twice" in caplog.text
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "output", "message"),
    [
        ("texts.txt", "v.csv", r"expected an output ending in .npy or .parquet, found '.csv'"),
        ("texts.txt", "nowhere/v.npy", "nowhere: no such folder"),
        ("text.txt", "v.npy", "did you mean 'texts.txt'"),
        ("texts.doc", "v.npy", "expected a file ending in"),
        ("bad.txt", "v.npy", "bad.txt, line 2: expected UTF-8, found byte 0xff"),
        (
            "t.jsonl",
            "v.npy",
            r"'text' of text in UTF-8, found texts; did you mean --column texts\?",
        ),
        ("broken.jsonl", "v.npy", "broken.jsonl, line 1: not valid JSON"),
    ],
)
def test_bad_input_is_explained(encode, texts, tmp_path, capsys, source, output, message):
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\n")
    (tmp_path / "t.jsonl").write_text('{"texts": "a"}\n')
    (tmp_path / "broken.jsonl").write_text("{\n")
    (tmp_path / "texts.doc").write_text("a\n")
    assert encode(tmp_path / source, tmp_path / output) == 2
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(capsys.readouterr().err)
    assert not (tmp_path / output).exists()


def test_other_files_in_the_parts_folder_are_kept(encode, texts, tmp_path):
    (tmp_path / "v.npy.parts").mkdir()
    (tmp_path / "v.npy.parts" / "mine.txt").write_text("keep")
    assert encode(texts, tmp_path / "v.npy") == 0
    assert (tmp_path / "v.npy.parts" / "mine.txt").read_text() == "keep"


def test_no_hub_there(texts, tmp_path, capsys):
    words = ["--hub", str(tmp_path / "none"), "--input", str(texts), "--output", str(tmp_path / "v.npy")]
    assert main(["encode", *words]) == 2
    assert "modenc encode: " in capsys.readouterr().err


@pytest.mark.slow
def test_as_a_process_of_its_own(tiny_hub, texts, tmp_path):
    words = [
        "encode",
        "--hub",
        str(tiny_hub.path),
        "--input",
        str(texts),
        "--output",
        str(tmp_path / "v.npy"),
    ]
    done = subprocess.run([sys.executable, "-m", "modenc.cli", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "12 vectors of 32 numbers" in done.stderr
    assert "12/12" not in done.stderr  # no progress where nobody watches


def test_the_input_is_never_overwritten(tiny_hub, tmp_path, capsys):
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path)
    before = path.read_bytes()
    assert main(["encode", "--hub", str(tiny_hub.path), "--input", str(path), "--output", str(path)]) == 2
    assert "expected another file than the input" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_wrong_argument_throws_no_finished_shard_away(tiny_hub, tmp_path, capsys):
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(TEXTS), encoding="utf-8")
    words = [
        "encode",
        "--hub",
        str(tiny_hub.path),
        "--input",
        str(source),
        "--output",
        str(tmp_path / "v.npy"),
    ]
    parts = tmp_path / "v.npy.parts"
    parts.mkdir()
    for finished in ("job.json", "0000000.npy"):
        (parts / finished).write_text("{}")
    for wrong in (["--lang", "zz zz"], ["--fallback", "zz"]):
        assert main([*words, *wrong]) == 2
        assert sorted(path.name for path in parts.iterdir()) == ["0000000.npy", "job.json"]
    capsys.readouterr()


def test_one_process_at_a_time_writes_an_output(encode, texts, tmp_path, monkeypatch, capsys):
    real = ModularEncoder.encode
    codes = []

    def encode_meanwhile(self, inputs, **options):
        if not codes:
            codes.append(None)
            codes[0] = encode(texts, tmp_path / "v.npy", "--shard-size", "4")
        return real(self, inputs, **options)

    monkeypatch.setattr(ModularEncoder, "encode", encode_meanwhile)
    assert encode(texts, tmp_path / "v.npy", "--shard-size", "5") == 0
    assert codes == [2]
    assert "v.npy: another process writes it; wait until it is done" in capsys.readouterr().err
    assert np.load(tmp_path / "v.npy").shape == (12, 32)
    assert not (tmp_path / "v.npy.parts").exists()


def test_an_input_that_changes_meanwhile_is_not_mixed(encode, texts, tmp_path, monkeypatch, capsys):
    real = ModularEncoder.encode

    def touching(self, inputs, **options):
        os.utime(texts, ns=(0, 0))
        return real(self, inputs, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ModularEncoder, "encode", touching)
        assert encode(texts, tmp_path / "v.npy") == 2
    assert (
        "changed while it was encoded (differing: date); run the same command again"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "v.npy").exists()
    assert encode(texts, tmp_path / "v.npy") == 0


def _encode_words(hub, source, output, *options):
    return ["encode", "--hub", str(hub.path), "--input", str(source), "--output", str(output), *options]


def test_shards_of_one_state_of_the_hub_are_never_joined_with_anothers(
    hub_copy, texts, tmp_path, monkeypatch, capsys
):
    whole = shutil.copytree(hub_copy.path, tmp_path / "whole")
    words = _encode_words(hub_copy, texts, tmp_path / "v.npy", "--lang", "kk", "--shard-size", "5")
    assert main(words) == 0
    right = np.load(tmp_path / "v.npy")
    real = ModularEncoder.encode

    def replacing(self, inputs, **options):
        if str(inputs[0]) == TEXTS[5]:
            _replace_kk(hub_copy)
            self.unload("kk")
        return real(self, inputs, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ModularEncoder, "encode", replacing)
        assert main(words) == 2
    assert "changed while it was encoded (differing: modules)" in capsys.readouterr().err
    hub_copy.install(whole / "kk")
    assert main(words) == 0
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), right, atol=1e-5)


def test_a_language_that_is_not_used_may_change(hub_copy, texts, tmp_path, monkeypatch):
    real = ModularEncoder.encode

    def removing(self, inputs, **options):
        hub_copy.remove("az")
        return real(self, inputs, **options)

    monkeypatch.setattr(ModularEncoder, "encode", removing)
    assert main(_encode_words(hub_copy, texts, tmp_path / "v.npy", "--lang", "kk")) == 0


def test_standard_input_goes_on_where_the_hub_changes(hub_copy, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXTS).encode())))
    real = ModularEncoder.encode

    def replacing(self, inputs, **options):
        _replace_kk(hub_copy)
        return real(self, inputs, **options)

    monkeypatch.setattr(ModularEncoder, "encode", replacing)
    with pytest.warns(UserWarning, match="changed during the run: vectors are of both its states"):
        assert main(_encode_words(hub_copy, "-", tmp_path / "v.npy", "--lang", "kk")) == 0
    assert np.load(tmp_path / "v.npy").shape == (12, 32)


def test_a_folder_that_was_half_cleared_is_used_again(encode, texts, expected, tmp_path):
    parts = tmp_path / "v.npy.parts"
    parts.mkdir()
    (parts / ".lock").touch()
    assert encode(texts, tmp_path / "v.npy") == 0
    parts.mkdir()
    (parts / "job.json").write_text("")
    (parts / "0000003.npy").write_text("old")
    assert encode(texts, tmp_path / "v.npy") == 0
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    assert not parts.exists()


def test_lines_of_megabytes_are_cut_as_they_are_read(encode, tiny_hub, tmp_path, monkeypatch):
    lines = [f"  {text} " * 100_000 for text in TEXTS[:3]]
    (tmp_path / "long.txt").write_text("\n".join(lines), encoding="utf-8")
    given = []
    real = encode_job.encode_texts
    monkeypatch.setattr(
        encode_job, "encode_texts", lambda *args, **options: given.extend(args[2]) or real(*args, **options)
    )
    assert encode(tmp_path / "long.txt", tmp_path / "v.npy") == 0
    encoder = ModularEncoder(tiny_hub.path)
    assert max(map(len, given)) == encoder[0].max_characters
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), encoder.encode(lines), atol=1e-5)


NO_TORCH = """
import sys
from modenc.cli.main import main
code = main(sys.argv[1:])
loaded = [name for name in ("torch", "transformers", "sentence_transformers") if name in sys.modules]
assert code == 2 and not loaded, (code, loaded)
"""


@pytest.mark.parametrize(
    ("hub", "source", "output", "lang", "message"),
    [
        ("nope", "texts.txt", "v.npy", "kk", "nope: expected a hub's folder, found no such folder"),
        ("org/nope", "texts.txt", "v.npy", "kk", "org/nope: expected the files of 'main' in this"),
        ("", "texts.txt", "v.csv", "kk", "expected an output ending in .npy or .parquet"),
        ("", "nowhere.txt", "v.npy", "kk", "nowhere.txt: no such file"),
        ("", "texts.txt", "v.npy", "no language", "no language"),
    ],
)
def test_what_cannot_be_is_refused_before_torch_is_imported(
    tiny_hub, texts, tmp_path, hub, source, output, lang, message
):
    words = ["encode", "--hub", hub or str(tiny_hub.path), "--lang", lang]
    words += ["--input", str(tmp_path / source), "--output", str(tmp_path / output)]
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert message in done.stderr


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_line_of_a_one_column_table_has_its_vector_if_it_is_blank_too(encode, expected, tmp_path, end):
    lines = ["text", TEXTS[0], "", *TEXTS[1:], "", ""]
    (tmp_path / "t.tsv").write_bytes(end.join(lines).encode())
    assert encode(tmp_path / "t.tsv", tmp_path / "v.npy") == 0
    vectors = np.load(tmp_path / "v.npy")
    assert len(vectors) == len(TEXTS) + 2
    np.testing.assert_array_equal(vectors[[0, *range(2, len(TEXTS) + 1)]], expected)


def test_a_table_of_a_header_alone_is_refused_without_its_columns(encode, tmp_path, capsys):
    (tmp_path / "t.tsv").write_text("body\n")
    assert encode(tmp_path / "t.tsv", tmp_path / "v.npy") == 2
    assert "t.tsv: expected a column 'text' of text in UTF-8, found body" in capsys.readouterr().err
    assert encode(tmp_path / "t.tsv", tmp_path / "v.npy", "--column", "body", "--lang-column", "lang") == 2
    assert "t.tsv: expected a column 'lang' of text in UTF-8, found body" in capsys.readouterr().err
    assert not (tmp_path / "v.npy").exists()


@pytest.mark.parametrize(
    ("line", "found"), [('{"text": null}', "null"), ('{"text": 5}', "5"), ('{"text": true}', "true")]
)
def test_json_that_is_no_text_is_refused_with_its_line(encode, tmp_path, capsys, line, found):
    (tmp_path / "t.jsonl").write_text(f'{{"text": "a", "n": 1}}\n{line}\n')
    assert encode(tmp_path / "t.jsonl", tmp_path / "v.npy") == 2
    assert f"t.jsonl, line 2: expected a text in 'text', found {found}" in capsys.readouterr().err
    assert not (tmp_path / "v.npy").exists()


def test_parquet_that_is_no_text_is_refused_with_its_row(encode, tmp_path, capsys):
    pq.write_table(pa.table({"text": ["a", None], "n": [1, 2]}), tmp_path / "t.parquet")
    assert encode(tmp_path / "t.parquet", tmp_path / "v.npy") == 2
    assert "t.parquet, row 2: expected a text in 'text', found null" in capsys.readouterr().err
    assert encode(tmp_path / "t.parquet", tmp_path / "v.npy", "--column", "n") == 2
    assert "row 1: expected a text in 'n', found 1" in capsys.readouterr().err


def test_texts_that_are_cut_are_counted_in_the_summary(encode, tmp_path, caplog):
    (tmp_path / "long.txt").write_text("a small child reads " * 60 + "\n" + "short\n" * 9 + "one two " * 200)
    with caplog.at_level("INFO"):
        assert encode(tmp_path / "long.txt", tmp_path / "v.npy", "--shard-size", "2") == 0
    assert caplog.text.count("were cut") == 1
    assert "2 of the texts encoded in this run were longer than 128 tokens and were cut" in caplog.text


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_a_column_states_the_languages(encode, tiny_hub, tmp_path, monkeypatch, suffix):
    codes = ["kk", "", "en", "kaz_Cyrl"] * 3
    rows = [{"text": text, "code": code} for text, code in zip(TEXTS, codes, strict=True)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output = tmp_path / f"v{suffix}"
    words = (tmp_path / "t.jsonl", output, "--lang-column", "code", "--shard-size", "5")
    with monkeypatch.context() as patch:  # the languages are resumed with the texts
        _cut_off_after(patch, 1)
        assert encode(*words) == 130
    assert encode(*words) == 0
    expected = ModularEncoder(tiny_hub.path).encode(TEXTS, lang=[code or None for code in codes])
    found = np.load(output) if suffix == ".npy" else np.array(pq.read_table(output)["vector"].to_pylist())
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("texts.txt", ["--lang-column", "code"], "expected a table and no --lang, found the plain text of"),
        ("t.jsonl", ["--lang-column", "code", "--lang", "kk"], "found --lang kk; leave one out"),
        ("t.jsonl", ["--lang-column", "cod"], "did you mean --lang-column code?"),
        ("texts.txt", ["--precision", "binary", "--truncate-dim", "12"], "a multiple of 8 numbers, found 12"),
        ("t.jsonl", ["--column", "last"], "row 1: expected a column 'last' of text"),
    ],
)
def test_options_that_do_not_fit_are_refused(encode, texts, tmp_path, capsys, name, options, message):
    (tmp_path / "t.jsonl").write_text('{"text": "a", "code": "en"}\n')
    assert encode(tmp_path / name, tmp_path / "v.npy", *options) == 2
    assert message in capsys.readouterr().err


def test_a_fault_in_the_last_row_is_found_before_the_first_is_encoded(encode, tmp_path, monkeypatch, capsys):
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n' * 9 + '{"text": null}\n')
    seen = _cut_off_after(monkeypatch, 0)
    assert encode(tmp_path / "t.jsonl", tmp_path / "v.npy", "--shard-size", "2") == 2
    assert "line 10: expected a text in 'text', found null" in capsys.readouterr().err
    assert seen == []


def test_a_wrong_code_in_the_last_row_is_found_first_and_placed(encode, tmp_path, monkeypatch, capsys):
    rows = [{"text": "a", "code": code} for code in ("en", None, "base", " kaz ", "English")]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = (tmp_path / "t.jsonl", tmp_path / "v.npy", "--lang-column", "code", "--shard-size", "2")
    with monkeypatch.context() as patch:
        seen = _cut_off_after(patch, 0)
        assert encode(*words) == 2
    assert "t.jsonl, row 5, 'code': expected a language code such as" in capsys.readouterr().err
    assert seen == []
    # Null means an unknown language, as an empty field does.
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    assert encode(*words) == 0


def test_a_refused_text_is_numbered_in_the_file(encode, tmp_path, capsys):
    lines = ["The children are reading."] * 7 + ["Das Wetter ist heute wirklich schön in Berlin."]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert encode(tmp_path / "t.txt", tmp_path / "v.npy", "--shard-size", "3", "--fallback", "error") == 2
    assert "text 7: identified as German" in capsys.readouterr().err


def test_an_input_that_grows_while_it_is_counted_is_not_mixed(encode, texts, tmp_path, monkeypatch, capsys):
    real = encode_verb.open_encoder

    def growing(args):
        with texts.open("a") as file:
            file.write("one more line\n")
        return real(args)

    with monkeypatch.context() as patch:
        patch.setattr(encode_verb, "open_encoder", growing)
        assert encode(texts, tmp_path / "v.npy") == 2
    assert "changed while it was encoded (differing: size, date)" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
@pytest.mark.parametrize(
    ("precision", "dtype"), [("float32", "float32"), ("binary", "int8"), ("ubinary", "uint8")]
)
def test_vectors_can_be_shorter_normalized_and_binary(
    encode, texts, tiny_hub, tmp_path, suffix, precision, dtype
):
    output = tmp_path / f"v{suffix}"
    words = ("--normalize", "--truncate-dim", "16", "--device", "cpu", "--precision", precision)
    assert encode(texts, output, *words, "--shard-size", "5") == 0
    expected = ModularEncoder(tiny_hub.path).encode(
        TEXTS, normalize_embeddings=True, truncate_dim=16, precision=precision
    )
    if suffix == ".npy":
        found = np.load(output)
        assert found.dtype == dtype
    else:
        found = np.array(pq.read_table(output)["vector"].to_pylist())
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_vectors_to_standard_output(encode, texts, expected, tmp_path, capsys):
    assert encode(texts, "-") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["language"] for row in rows] == ["en"] * 4 + ["kk"] * 4 + ["az"] * 4
    np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_progress_moves_with_each_batch(encode, texts, tmp_path, monkeypatch):
    moves = []
    bar = SimpleNamespace(update=moves.append)
    monkeypatch.setattr(encode_verb, "progress_bar", lambda *given: moves.append(given) or nullcontext(bar))
    assert encode(texts, tmp_path / "v.npy", "--batch-size", "5") == 0
    assert moves == [(" texts", 12, 0), 5, 5, 2]
