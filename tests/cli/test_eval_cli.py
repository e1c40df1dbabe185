"""``modenc eval`` as a user runs it, on a tiny hub and a tiny base."""

import json

import pytest
import tiny_models
from tiny_suites import columns, task

from modenc.cli.main import main

SUITE = 'description = "two languages"\n' + "".join(
    [
        task("sim", "sts", "sts.{lang}.tsv", languages=["en", "kk"]),
        task("bi", "bitext", columns("bitext.tsv"), pairs=["en-kk"]),
        task("shape", "geometry", "shape.{lang}.tsv", languages=["en", "kk"]),
    ]
)


@pytest.fixture
def suite(tmp_path):
    texts = {lang: tiny_models.sentences(lang)[:12] for lang in ("en", "kk")}
    for lang, lines in texts.items():
        rows = [f"{i % 5}\t{lines[i]}\t{lines[(i * 5 + 1) % 12]}" for i in range(12)]
        (tmp_path / f"sts.{lang}.tsv").write_text("\n".join(["score\tsentence1\tsentence2", *rows]) + "\n")
        numbered = [f"{i}\t{line}" for i, line in enumerate(lines)]
        (tmp_path / f"shape.{lang}.tsv").write_text("\n".join(["id\ttext", *numbered]) + "\n")
    pairs = ["\t".join(pair) for pair in zip(texts["en"], texts["kk"], strict=True)]
    (tmp_path / "bitext.tsv").write_text("\n".join(["en\tkk", *pairs]) + "\n")
    (tmp_path / "two.toml").write_text(SUITE)
    return tmp_path / "two.toml"


@pytest.mark.slow
def test_two_hubs_side_by_side(suite, tiny_hub, hub_copy, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["--suite", str(suite), "--data", str(tmp_path), "-o", str(out)]
    hubs = ["--hub", str(tiny_hub.path), "--hub", str(hub_copy.path)]
    code = main(["eval", *hubs, *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    names = [f"{hub.path.name}-modular" for hub in (tiny_hub, hub_copy)]
    assert captured.out == (out / "tables.md").read_text()
    (row,) = [line for line in captured.out.splitlines() if line.startswith("| spearman | kk | 12 |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    # The same modules give the same figure, and no difference to be sure of.
    assert cells[3] == cells[4]
    assert cells[5] == "1.000"
    stored = json.loads((out / names[0] / "results.json").read_text())
    assert stored["suite"] == "two"
    assert set(stored["system"]["modules"]) == {"en", "kk", "az"}
    assert {result["metric"] for result in stored["results"]} >= {"spearman", "xsim_error", "mining_f1"}


def test_alignment_and_identification_are_switches(suite, tiny_hub, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["--hub", str(tiny_hub.path), "--suite", str(suite), "--data", str(tmp_path), "-o", str(out)]
    assert main(["eval", *arguments]) == main(["eval", *arguments, "--no-align", "--identify"]) == 0
    capsys.readouterr()
    name = f"{tiny_hub.path.name}-modular"
    plain, other = (
        json.loads((out / folder / "results.json").read_text())
        for folder in (name, f"{name}-not-aligned-identified")
    )
    assert (plain["system"]["align"], plain["system"]["identify"]) == (True, False)
    assert (other["system"]["align"], other["system"]["identify"]) == (False, True)
    values = [
        {r["metric"]: r["value"] for r in run["results"] if r["languages"] == ["kk"]}
        for run in (plain, other)
    ]
    assert values[0] != values[1]


def test_any_sentence_transformer_is_a_system(suite, tiny_bert, tmp_path, capsys):
    arguments = ["--suite", str(suite), "--data", str(tmp_path), "-o", str(tmp_path / "out")]
    assert main(["eval", "--model", str(tiny_bert), "--prompt", "", *arguments]) == 0
    assert f"| {tiny_bert.name} |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected --model or --hub, found neither"),
        (["--hub", "{hub}", "--hub", "{hub}"], "expected systems with different names"),
        (
            ["--hub", "{hub}", "--data", "nowhere"],
            "data nowhere: expected the folder of the suite's files",
        ),
        (["--hub", "{hub}", "--suite", "turkish"], "did you mean 'turkic'"),
    ],
)
def test_what_cannot_be_evaluated(arguments, message, suite, tiny_hub, tmp_path, capsys):
    given = [part.format(hub=tiny_hub.path) for part in arguments]
    defaults = ["--suite", str(suite), "--data", str(tmp_path), "-o", str(tmp_path / "out")]
    assert main(["eval", *defaults, *given]) == 2
    assert message in capsys.readouterr().err


def test_all_missing_files_are_told_of_at_once_and_first(suite, tmp_path, capsys):
    for name in ("sts.kk.tsv", "bitext.tsv"):
        (tmp_path / name).unlink()
    arguments = ["--suite", str(suite), "--data", str(tmp_path), "-o", str(tmp_path / "out")]
    # Before the model is looked for, which there is not.
    assert main(["eval", "--model", "no-such-model", *arguments]) == 2
    error = capsys.readouterr().err
    assert "found 2 missing:\n  sts.kk.tsv (task sim)\n  bitext.tsv (task bi)\n" in error
    assert "or set optional = true for their tasks" in error
