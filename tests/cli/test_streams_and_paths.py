"""The command line where its streams, paths and numbers are not what they usually are."""

import os
import subprocess
import sys

import pytest
from tiny_models import sentences

from modenc.cli.main import main


def run(command, *words, **options):
    """One verb in a process of its own, through the shell line ``command`` with the verb as ``"$@"``."""
    return subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-m", "modenc.cli", *map(str, words)],
        capture_output=True,
        check=False,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_leaves_is_no_fault_of_ours_and_no_success(tmp_path, stream):
    words = ["recipe", "list"] if stream == "stdout" else ["hub", "list", "--hub", tmp_path / "none"]
    reader, writer = os.pipe()
    os.close(reader)
    other = "stderr" if stream == "stdout" else "stdout"
    command = [sys.executable, "-m", "modenc.cli", *map(str, words)]
    with subprocess.Popen(command, **{stream: writer, other: subprocess.PIPE}) as process:
        os.close(writer)
        output = process.communicate()[1 if stream == "stdout" else 0]
    assert (process.returncode, output) == (141, b"")


@pytest.mark.slow
def test_letters_that_the_output_lacks_are_escaped(tiny_hub, tmp_path):
    (tmp_path / "t.txt").write_text(sentences("kk")[0], encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = run('"$@"', "identify", "--hub", tiny_hub.path, "--input", tmp_path / "t.txt", env=environment)
    assert done.returncode == 0
    assert b"\\u04" in done.stdout


def test_a_file_name_that_is_not_utf8(tiny_hub, tmp_path):
    source = tmp_path / os.fsdecode(b"caf\xe9.txt")
    try:
        source.write_text("Good morning.\n")
    except OSError:
        pytest.skip("this file system takes no such name")
    output = tmp_path / "v.npy"
    assert main(["encode", "--hub", str(tiny_hub.path), "--input", str(source), "--output", str(output)]) == 0
    assert output.is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["identify", "--hub", "HUB", "--input", os.devnull], "expected a file, found a pipe or device"),
        (["identify", "--hub", "HUB", "--input", "HUB"], "expected a file, found a folder"),
        (["recipe", "check", "eighteen", "data.root=~nobody-of-this-name/x"], "data.root: expected a folder"),
        (["hub", "show", "--hub", "HUB", "--lang", "\udcff"], "expected a language code such as"),
    ],
)
def test_odd_arguments_are_explained(tiny_hub, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.tsv").mkdir()
    assert main([str(tiny_hub.path) if word == "HUB" else word for word in words]) in (1, 2)
    output = capsys.readouterr()
    assert message in output.out + output.err
    assert max(map(len, (output.out + output.err).splitlines())) < 1000


def test_a_hub_of_no_language_is_told(hub_copy, tmp_path, capsys):
    for lang in hub_copy.languages():
        hub_copy.remove(lang)
    (tmp_path / "t.txt").write_text("A child reads.\nA cow.\n")
    words = ["search", "A child reads.", "--hub", str(hub_copy.path), "--input", str(tmp_path / "t.txt")]
    assert main(words) == 2
    assert "has no languages to choose from; train or install one first" in capsys.readouterr().err
