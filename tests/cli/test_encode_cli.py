import errno
import io
import json
import os
import shutil
import sys
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tiny_models import sentences

from modenc import storage
from modenc.cli import encode as encode_verb
from modenc.cli.main import main
from modenc.encoder import ModularEncoder
from modenc.errors import TextsCutWarning

TEXTS = [text for lang in ("en", "kk", "az") for text in sentences(lang)[:4]]
LANGUAGES = ["en"] * 4 + ["kk"] * 4 + ["az"] * 4


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path):
    """The same texts in files of several formats, which are read in the order of their names."""
    folder = tmp_path / "texts"
    folder.mkdir()
    pq.write_table(pa.table({"text": TEXTS[:5]}), folder / "a.parquet")
    (folder / "b.txt").write_text("\n".join(TEXTS[5:8]) + "\n", encoding="utf-8")
    (folder / "c.tsv").write_text("\n".join(["text", *TEXTS[8:]]) + "\n", encoding="utf-8")
    (folder / "_SUCCESS").write_text("")
    return folder


@pytest.fixture
def encode(hub_copy):
    """Runs ``modenc encode`` on a tiny hub."""

    def run(source, output, *options):
        words = ["--hub", str(hub_copy.path), "--input", str(source), "--output", str(output)]
        return main(["encode", *words, *options])

    return run


@pytest.fixture
def expected(tiny_hub):
    return ModularEncoder(tiny_hub.path).encode(TEXTS)


def _vectors(path):
    """All vectors of a file or folder of parts."""
    return np.load(path) if path.suffix == ".npy" else np.array(pq.read_table(path)["vector"].to_pylist())


def _before_each_call(monkeypatch, act):
    """Let ``encode`` first call ``act`` with the number of calls before; returns the texts it was given."""
    seen = []
    real = ModularEncoder.encode

    def encode(self, inputs, **options):
        act(len(seen))
        seen.append([str(text) for text in inputs])
        return real(self, inputs, **options)

    monkeypatch.setattr(ModularEncoder, "encode", encode)
    return seen


def _interrupt_after(monkeypatch, calls):
    def interrupt(number):
        if number == calls:
            raise KeyboardInterrupt

    return _before_each_call(monkeypatch, interrupt)


def _replace_kk(hub):
    """Kazakh with the base's vocabulary and Azerbaijani adapters."""
    with TemporaryDirectory() as temporary:
        shutil.copytree(hub.version_folder("az") / "se", f"{temporary}/se")
        hub.publish(temporary, hub.card("kk"))


@pytest.mark.parametrize("at_once", [1, 5, 4096])
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_a_file_has_a_row_for_each_text(encode, texts, expected, tmp_path, monkeypatch, suffix, at_once):
    monkeypatch.setattr(encode_verb, "_TEXTS_AT_ONCE", at_once)
    output = tmp_path / f"v{suffix}"
    assert encode(texts, output) == 0
    found = _vectors(output)
    assert found.shape == (12, 32)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    if suffix == ".npy":
        assert found.dtype == np.float32
    else:
        table = pq.read_table(output)
        assert table.column_names == ["index", "language", "vector"]
        assert table["index"].to_pylist() == list(range(12))
        assert table["language"].to_pylist() == LANGUAGES
    assert {path.name for path in tmp_path.iterdir()} == {"hub", "texts.txt", output.name}


@pytest.mark.parametrize("name", ["out", "out/", "out.v1/"])
def test_a_file_is_cut_into_parts(encode, texts, expected, tmp_path, name):
    assert encode(texts, f"{tmp_path}/{name}", "--part-size", "5") == 0
    output = tmp_path / name
    assert sorted(path.name for path in output.glob("[!.]*")) == [
        f"texts.txt-0000{n}.parquet" for n in range(3)
    ]
    table = pq.read_table(output)
    assert table["index"].to_pylist() == list(range(12))
    assert table["language"].to_pylist() == LANGUAGES
    np.testing.assert_allclose(_vectors(output), expected, atol=1e-5)


def test_a_folder_gives_parts_for_each_file(encode, folder, expected, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    assert encode(folder, output) == 0
    names = [f"{name}-00000.parquet" for name in ("a.parquet", "b.txt", "c.tsv")]
    assert sorted(path.name for path in output.glob("[!.]*")) == names
    assert [pq.read_table(output / name)["index"].to_pylist() for name in names] == [
        list(range(count)) for count in (5, 3, 4)
    ]
    np.testing.assert_allclose(_vectors(output), expected, atol=1e-5)
    assert encode(folder, tmp_path / "v.npy") == 0
    np.testing.assert_allclose(_vectors(tmp_path / "v.npy"), expected, atol=1e-5)


def test_parts_are_a_data_set_of_datasets(encode, folder, tmp_path):
    datasets = pytest.importorskip("datasets", reason="the training half is not installed")
    assert encode(folder, tmp_path / "out") == 0
    found = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=tmp_path / "cache")
    assert found["language"][:] == LANGUAGES


def test_a_rerun_encodes_only_the_missing_parts(encode, texts, expected, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    output = tmp_path / "out"
    with monkeypatch.context() as patch:
        _interrupt_after(patch, 2)
        assert encode(texts, output, "--part-size", "4") == 130
    finished = sorted(output.glob("*.parquet"))
    assert [path.name for path in finished] == ["texts.txt-00000.parquet", "texts.txt-00001.parquet"]
    finished[0].unlink()
    (output / ".texts.txt-00002.tmp-1-ab.parquet").write_text("of a killed process")
    (output / "mine.txt").write_text("no part")
    before = finished[1].stat().st_mtime_ns
    for seen_now in ([TEXTS[:4], TEXTS[8:]], []):
        with monkeypatch.context() as patch:
            seen = _before_each_call(patch, lambda _: None)
            assert encode(texts, output, "--part-size", "4") == 0
        assert seen == seen_now
    assert "1 of 3 parts are done" in caplog.text
    assert finished[1].stat().st_mtime_ns == before
    np.testing.assert_allclose(
        np.concatenate(list(map(_vectors, sorted(output.glob("*.parquet"))))), expected, atol=1e-5
    )
    assert {path.name for path in output.iterdir()} == {
        ".lock",
        ".modenc.json",
        "mine.txt",
        *(f"texts.txt-0000{n}.parquet" for n in range(3)),
    }


def test_a_rerun_encodes_new_and_changed_files_of_a_folder(encode, folder, tmp_path, monkeypatch):
    assert encode(folder, tmp_path / "out") == 0
    (folder / "b2.txt").write_text("One more.\n")
    (folder / "b.txt").write_text("Another.\n")
    seen = _before_each_call(monkeypatch, lambda _: None)
    assert encode(folder, tmp_path / "out") == 0
    assert seen == [["Another."], ["One more."]]
    assert pq.read_table(tmp_path / "out" / "b.txt-00000.parquet").num_rows == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "found modules {"),
        (["--no-align"], "found align True instead of False"),
        (["--part-size", "3"], "found part_size 5 instead of 3"),
        (["--normalize", "--truncate-dim", "8"], "found normalize False instead of True, truncate_dim None"),
        (["--compute", "bf16"], "found compute 'fp32' instead of 'bf16'"),
    ],
)
def test_parts_of_other_settings_are_neither_mixed_nor_deleted(
    encode, texts, hub_copy, tmp_path, capsys, change, message
):
    output = tmp_path / "out"
    assert encode(texts, output, "--part-size", "5") == 0
    (output / "texts.txt-00002.parquet").unlink()
    before = {path: path.read_bytes() for path in output.glob("*.parquet")}
    if change is None:
        _replace_kk(hub_copy)
    assert encode(texts, output, "--part-size", "5", *(change or [])) == 2
    error = capsys.readouterr().err
    assert "out: expected parts of the present settings" in error
    assert message in error
    assert "write to another folder, or delete the parts" in error
    assert {path: path.read_bytes() for path in output.glob("*.parquet")} == before


def test_other_parquet_files_in_the_folder_are_refused(encode, texts, folder, tmp_path, capsys):
    assert encode(folder, tmp_path / "out") == 0
    (folder / "c.tsv").unlink()
    assert encode(folder, tmp_path / "out") == 2
    assert "files of the present input, found 1 others (c.tsv-00000.parquet); move them" in (
        capsys.readouterr().err
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "texts.txt-00000.parquet").write_bytes(b"")
    assert encode(texts, tmp_path / "other") == 2
    assert "other: expected parts of the present settings, found column None" in capsys.readouterr().err


def test_one_process_at_a_time_writes_a_folder(encode, texts, tmp_path, monkeypatch, capsys):
    codes = []

    def encode_meanwhile(number):
        if number == 0 and not codes:
            codes.append(None)
            codes[0] = encode(texts, tmp_path / "out")

    _before_each_call(monkeypatch, encode_meanwhile)
    assert encode(texts, tmp_path / "out") == 0
    assert codes == [2]
    assert "out: another process writes it; wait until it is done" in capsys.readouterr().err
    assert _vectors(tmp_path / "out").shape == (12, 32)


@pytest.mark.parametrize("output", ["v.npy", "out"])
def test_a_full_disk_leaves_what_was_there_and_no_half_file(
    encode, texts, tmp_path, monkeypatch, capsys, output
):
    assert encode(texts, tmp_path / output) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(path):
        if path.suffix in (".npy", ".parquet"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage, "sync", full)
    if output == "out":
        assert encode(texts, tmp_path / "new") == 2
        assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [".lock", ".modenc.json"]
        shutil.rmtree(tmp_path / "new")
    else:
        assert encode(texts, tmp_path / output) == 2
    assert "cannot be written (No space left on device); what was finished before is kept" in (
        capsys.readouterr().err
    )
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("fast", "found"), [(True, "bf16"), (False, "fp32")])
def test_auto_is_what_it_comes_to_on_this_machine(encode, texts, tmp_path, monkeypatch, fast, found):
    monkeypatch.setattr("modenc.composition.bert.has_bf16", lambda device: fast)
    assert encode(texts, tmp_path / "out", "--compute", "auto") == 0
    assert encode(texts, tmp_path / "out", "--compute", found) == 0
    monkeypatch.setattr("modenc.composition.bert.has_bf16", lambda device: not fast)
    assert encode(texts, tmp_path / "out", "--compute", "auto") == 2


def test_no_texts_and_blank_lines(encode, tmp_path):
    (tmp_path / "none.txt").write_text("")
    for name, read in (("v.npy", np.load), ("v.parquet", pq.read_table), ("out", pq.read_table)):
        assert encode(tmp_path / "none.txt", tmp_path / name) == 0
        assert read(tmp_path / name).shape == ((0, 32) if name == "v.npy" else (0, 3))
    (tmp_path / "blank.txt").write_text("one\n\n \t\n\N{LINE SEPARATOR}two\n🙂")
    assert encode(tmp_path / "blank.txt", tmp_path / "v.npy") == 0
    vectors = np.load(tmp_path / "v.npy")
    assert vectors.shape == (5, 32)
    assert np.isfinite(vectors).all()


def test_options_reach_the_encoder(encode, texts, tiny_hub, expected, tmp_path):
    assert encode(texts, tmp_path / "v.npy", "--lang", "kaz_Cyrl", "--no-align") == 0
    of_kk = ModularEncoder(tiny_hub.path).encode(TEXTS, lang="kk", align=False)
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), of_kk, atol=1e-5)
    assert encode(texts, tmp_path / "v.npy", "--compute", "bf16") == 0
    vectors = np.load(tmp_path / "v.npy")
    np.testing.assert_allclose(vectors, expected, atol=0.1)
    assert np.abs(vectors - expected).max() > 1e-5


@pytest.mark.parametrize("output", ["v.npy", "v.parquet", "out"])
def test_prompt_name_chooses_the_prompt(encode, texts, tiny_hub, expected, tmp_path, monkeypatch, output):
    encoder = ModularEncoder(tiny_hub.path, prompts={"document": "passage: "})
    monkeypatch.setattr(encode_verb, "open_encoder", lambda _: encoder)
    for name, own in (("document", encoder.encode_document(TEXTS)), ("query", expected)):
        (tmp_path / name).mkdir()
        assert encode(texts, tmp_path / name / output, "--prompt-name", name) == 0
        np.testing.assert_allclose(_vectors(tmp_path / name / output), own, atol=1e-5)
    assert np.abs(encoder.encode_document(TEXTS) - expected).max() > 1e-3


def test_vectors_can_be_shorter_and_normalized(encode, texts, tiny_hub, tmp_path):
    assert encode(texts, tmp_path / "v.npy", "--normalize", "--truncate-dim", "16", "--device", "cpu") == 0
    expected = ModularEncoder(tiny_hub.path).encode(TEXTS, normalize_embeddings=True, truncate_dim=16)
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)


@pytest.mark.parametrize("output", ["v.npy", "out"])
def test_a_column_states_the_languages(encode, tiny_hub, tmp_path, output):
    codes = ["kk", None, "en", "kaz_Cyrl", " base ", "", "und", " ", "mul", "az", "UND", "zxx"]
    rows = [{"text": text, "code": code} for text, code in zip(TEXTS, codes, strict=True)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--part-size", "5"] if output == "out" else []
    assert encode(tmp_path / "t.jsonl", tmp_path / output, "--lang-column", "code", *options) == 0
    langs = [(code or "").strip() or None for code in codes]
    expected = ModularEncoder(tiny_hub.path).encode(TEXTS, lang=langs)
    np.testing.assert_allclose(_vectors(tmp_path / output), expected, atol=1e-5)


def test_standard_input_and_output(encode, texts, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\r\n".join(TEXTS).encode())))
    assert encode("-", tmp_path / "v.npy") == 0
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    assert encode(texts, "-") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["language"] for row in rows] == LANGUAGES
    np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-5)
    assert {path.name for path in tmp_path.iterdir()} == {"hub", "texts.txt", "v.npy"}


@pytest.mark.parametrize(
    ("source", "output", "options", "message"),
    [
        ("texts.txt", "v.csv", [], "ending in .npy or .parquet, or a folder, found '.csv'; rename it"),
        ("texts.txt", "nowhere/v.npy", [], "nowhere: no such folder"),
        ("in", "in/", [], "expected an output outside of the input"),
        ("in", "in/v.npy", [], "expected an output outside of the input"),
        ("in", "out", [], "in: expected a folder with files of texts, found none"),
        ("t.parquet", "t.parquet", [], "expected an output outside of the input"),
        ("-", "out", [], "expected a file or folder for --input, found -, which a rerun cannot read"),
        ("text.txt", "out", [], "did you mean 'texts.txt'"),
        ("bad.txt", "out", [], "bad.txt, line 2: expected UTF-8, found byte 0xff"),
        ("null.jsonl", "out", ["--part-size", "2"], "null.jsonl, row 10: expected a text in 'text'"),
        ("t.jsonl", "v.npy", ["--column", "texts"], "did you mean 'text'? name the right one with --column"),
        ("t.jsonl", "v.npy", ["--lang-column", "code", "--lang", "kk"], "found --lang kk; leave one out"),
        ("texts.txt", "v.npy", ["--lang-column", "code"], "a table and no --lang, found the plain text of"),
    ],
)
def test_what_cannot_be_encoded_is_refused_first(
    encode, texts, tmp_path, monkeypatch, capsys, source, output, options, message
):
    (tmp_path / "in").mkdir()
    (tmp_path / "bad.txt").write_bytes(b"good\n\xff\n")
    (tmp_path / "t.jsonl").write_text('{"text": "a", "code": null}\n{"text": "b", "code": "English"}\n')
    (tmp_path / "null.jsonl").write_text('{"text": "a"}\n' * 9 + '{"text": null}\n')
    pq.write_table(pa.table({"text": ["a", "b"], "n": [1, 2]}), tmp_path / "t.parquet")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(encode_verb, "open_encoder", None)
    source = source if source == "-" else tmp_path / source
    assert encode(source, f"{tmp_path}/{output}", *options) == 2
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_texts_that_are_cut_are_warned_of(encode, tmp_path):
    (tmp_path / "long.txt").write_text("a small child reads " * 60 + "\n" + "short\n" * 9)
    with pytest.warns(TextsCutWarning, match="1 of 10 texts were longer than 128 tokens"):
        assert encode(tmp_path / "long.txt", tmp_path / "v.npy") == 0


def test_lines_of_megabytes_are_cut_as_they_are_read(encode, tiny_hub, tmp_path, monkeypatch):
    lines = [f"  {text} " * 100_000 for text in TEXTS[:3]]
    (tmp_path / "long.txt").write_text("\n".join(lines), encoding="utf-8")
    seen = _before_each_call(monkeypatch, lambda _: None)
    assert encode(tmp_path / "long.txt", tmp_path / "v.npy") == 0
    encoder = ModularEncoder(tiny_hub.path)
    assert max(map(len, seen[0])) == encoder.max_characters
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), encoder.encode(lines), atol=1e-5)
