"""Training and encoding with ``--on ray``, a graph of tasks, and messages where there is no Ray."""

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow.parquet as pq
import pytest
from tiny_models import sentences
from tiny_recipe import save_tiny_recipe

from modenc import errors
from modenc.cli.main import main
from modenc.errors import ClusterError, RecipeError
from modenc.hub.store import Hub

pytest.importorskip("ray", reason="ray is not installed (the extra ray)")

from modenc.distributed import Job, cluster, run_graph


@pytest.fixture
def train(tmp_path):
    """Runs ``modenc train`` on a recipe that needs no training."""
    pytest.importorskip("peft", reason="the training half is not installed")
    (tmp_path / "r.toml").write_text(
        '[languages.en]\nvocabulary.method = "base"\nlanguage_adaptation.objective = "none"\n'
        'sentence_encoding.objective = "none"\n'
    )
    return lambda *words: main(["train", str(tmp_path / "r.toml"), f"hub.path={tmp_path}/hub", *words])


def test_a_missing_ray_is_named(train, monkeypatch, capsys):
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == "ray" else find_spec(name))
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    assert train("--on", "ray") == 2
    assert (
        "ray not installed; this part of modenc needs the extra 'ray'. Run: pip install \"modenc[ray]\""
        in (capsys.readouterr().err)
    )


def test_an_address_without_a_cluster_is_refused(train, capsys):
    assert train("--address", "10.0.0.1:6379") == 2
    assert "expected --on ray with it" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["-", "v.npy", "v.parquet"])
def test_encoding_to_one_file_stays_on_one_machine(tiny_hub, tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("one\n")
    words = ["--hub", str(tiny_hub.path), "-i", "texts.txt", "-o", output, "--on", "ray"]
    assert main(["encode", *words]) == 2
    assert f"--on ray: expected a folder for --output, found {output}" in capsys.readouterr().err


@pytest.mark.slow
def test_no_finished_stage_is_discarded_where_there_is_no_cluster(tmp_path, capsys, train):
    finished = tmp_path / "runs" / "en" / "alignment" / "done.json"
    finished.parent.mkdir(parents=True)
    finished.write_text("{}")
    words = [f"run.work_dir={tmp_path}/runs", "--force", "--on", "ray", "--address", "nowhere"]
    assert train(*words) == 2
    assert "nowhere: expected a Ray cluster that this process can join, found: " in capsys.readouterr().err
    assert finished.is_file()


# Nodes do not have this module: functions that they call are made in others.
def note(path):
    def call():
        with path.open("a") as file:
            file.write("here\n")
        return path.name

    return call


def failing(message):
    def call():
        raise RecipeError(message)

    return call


def dying(path):
    def call():
        with path.open("a") as file:
            file.write("here\n")
        os._exit(1)

    return call


@pytest.mark.slow
@pytest.mark.cluster
def test_a_graph_runs_in_its_order_and_says_what_failed(head, add_node, tmp_path):
    add_node()
    with cluster(head.address):
        jobs = [Job("one", note(tmp_path / "a")), Job("two", note(tmp_path / "b"), (0,))]
        assert run_graph(jobs, 1) == ["a", "b"]
        jobs = [Job("one", failing("no such stage")), Job("two", note(tmp_path / "c"), (0,))]
        with pytest.raises(RecipeError, match=r"^no such stage$"):
            run_graph(jobs, 1)
        assert not (tmp_path / "c").exists()
        with pytest.raises(ClusterError, match="What is finished is kept"):
            run_graph([Job("three", dying(tmp_path / "d"))], 1)
        assert (tmp_path / "d").read_text().count("here") == 4, "once, and three times again"


@pytest.mark.slow
@pytest.mark.cluster
def test_training_goes_on_when_a_node_is_lost(head, add_node, lose_node, tiny_xlmr, tmp_path, capsys):
    path = save_tiny_recipe(tmp_path, tiny_xlmr)
    nodes = [add_node(), add_node()]

    def lose_one():
        while not list((tmp_path / "runs").glob("*/sentence_encoding/checkpoints/checkpoint-*")):
            time.sleep(0.02)
        lose_node(nodes[0])

    loss = Thread(target=lose_one, daemon=True)
    loss.start()
    assert main(["train", str(path), "--on", "ray", "--address", head.address]) == 0
    loss.join(60)
    assert not loss.is_alive()
    assert capsys.readouterr().out == f"en\t{tmp_path}/hub/en\nkk\t{tmp_path}/hub/kk\n"
    assert Hub.open(tmp_path / "hub").verify() == []


@pytest.mark.slow
@pytest.mark.cluster
def test_parts_are_those_of_one_machine(head, add_node, tiny_hub, tmp_path, monkeypatch, caplog):
    """With paths relative to the folder in which the command is run."""
    caplog.set_level("INFO")
    monkeypatch.chdir(tmp_path)
    texts = [text for lang in ("en", "kk", "az") for text in sentences(lang)[:20]]
    Path("texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = ["encode", "--hub", str(tiny_hub.path), "-i", "texts.txt", "--part-size", "20", "--output"]
    assert main([*words, "one"]) == 0
    add_node(), add_node()
    cluster_words = ["--on", "ray", "--address", head.address]
    assert main([*words, "other", *cluster_words]) == 0
    one, other = pq.read_table("one"), pq.read_table("other")
    assert one.drop(["vector"]) == other.drop(["vector"])
    vectors = [np.array(table["vector"].to_pylist()) for table in (one, other)]
    np.testing.assert_allclose(*vectors, atol=1e-5)
    assert main([*words, "other", *cluster_words]) == 0
    assert "3 of 3 parts are done" in caplog.text
