"""``benchmarks/reproduce.py``: what it trains, what it copies, and what it does not make again."""

import shutil
import sys
from pathlib import Path

import pytest

from modenc.evaluation.results import Result, SystemResults, environment, save_results


@pytest.fixture(scope="module")
def reproduce(program):
    return program("reproduce")


@pytest.fixture
def called(reproduce, tmp_path, monkeypatch):
    """The words of every call of modenc; trainings and evaluations only leave their files."""
    calls = []

    def call(verb, *words):
        calls.append((verb, *words))
        if verb == "eval":
            about = {"system": {}, **environment()}
            results = (Result("kardes", "spearman", ("kk",), 75.0, 60),)
            output = Path(words[words.index("-o") + 1])
            save_results(SystemResults("hub", "turkic", 13, 1.0, about, results, {}), output / "hub")
            return
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        for key in ("run.work_dir", "hub.path"):
            Path(settings[key]).mkdir(parents=True, exist_ok=True)
        (Path(settings["run.work_dir"]) / "trained").touch()

    monkeypatch.setattr(reproduce, "call", call)
    return calls


def _run(reproduce, monkeypatch, tmp_path, *words):
    folders = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    monkeypatch.setattr(sys, "argv", ["reproduce", "--data", "D", *folders, *words])
    reproduce.main()


def test_reproduce_shares_first_stages_and_does_not_make_stored_runs_again(
    reproduce, called, tmp_path, monkeypatch, capsys
):
    words = [word for name in ("base", "mod_m", "mod_mc_jt") for word in ("--only", name)]
    _run(reproduce, monkeypatch, tmp_path, *words)
    assert [words[0] for words in called] == ["eval", "train", "eval", "train", "eval"]
    assert called[0][1:3] == ("--model", "me5-small")
    assert "run.seed=13" in called[1]
    assert "| metric | languages | n | base | mod_m | p | mod_mc_jt | p |" in capsys.readouterr().out
    shared = tmp_path / "runs" / "mod_mc_jt" / "seed-13"
    assert (shared / "work" / "trained").is_file()
    assert not shared.with_name("seed-13.part").exists()
    called.clear()
    shutil.rmtree(tmp_path / "runs")
    _run(reproduce, monkeypatch, tmp_path, *words)
    assert called == []


def test_reproduce_trains_full_variants_as_one_model(reproduce, called, tmp_path, monkeypatch):
    _run(reproduce, monkeypatch, tmp_path, "--only", "captions_full_m", "--seed", "14", "run.precision=fp32")
    model = str(tmp_path / "runs" / "captions_full_m" / "seed-14" / "model")
    train, evaluated = called
    assert train[-3:] == ("run.precision=fp32", "--monolithic", model)
    assert evaluated[1:5] == ("--model", model, "--suite", "captions")
    stored = reproduce.load_results(tmp_path / "results" / "captions_full_m" / "seed-14")
    assert (stored.name, stored.about["system"]["model"]) == ("captions_full_m", "captions_full_m")
