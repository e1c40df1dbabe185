"""Graphs of jobs on nodes that are lost, and what is said where a cluster cannot be used."""

import os
import sys
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

import pytest

from modenc import extras
from modenc.cli.main import main
from modenc.errors import ClusterError, RecipeError
from modenc.hub.remote import RemoteHub, Repository

pytest.importorskip("ray", reason="ray is not installed (the extra ray)")

from modenc.cli.encode_on_cluster import arguments_for_nodes
from modenc.distributed.cluster import Resources, cluster, shared_folders
from modenc.distributed.graph import RETRIES, Job, run_graph


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
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "ray" else find_spec(name))
    for name in [name for name in sys.modules if name == "ray" or name.startswith("modenc.distributed")]:
        monkeypatch.delitem(sys.modules, name)
    assert train("--on", "ray") == 2
    assert (
        "ray not installed; this part of modenc needs the extra 'ray'. Run: pip install "
        '"modenc[ray]"' in capsys.readouterr().err
    )


@pytest.mark.slow
def test_no_finished_stage_is_discarded_before_the_cluster_answers(tmp_path, capsys, train):
    finished = tmp_path / "runs" / "en" / "alignment" / "done.json"
    finished.parent.mkdir(parents=True)
    finished.write_text("{}")
    words = [f"run.work_dir={tmp_path}/runs", "--force", "--on", "ray", "--address", "127.0.0.1:1"]
    assert train(*words) == 2
    assert "found nothing that answers" in capsys.readouterr().err
    assert finished.is_file()


def test_nodes_open_the_commit_that_is_open_here(tiny_hub):
    args = Namespace(hub="organization/name", revision=None, run=main)
    remote = RemoteHub(tiny_hub.path, tiny_hub.info, Repository(args.hub), "a" * 40)
    assert vars(arguments_for_nodes(args, remote)) == {"hub": args.hub, "revision": "a" * 40}
    assert vars(arguments_for_nodes(args, tiny_hub)) == {"hub": args.hub, "revision": None}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--address", "10.0.0.1:6379"], "expected --on ray with it"),
        (["--on", "ray", "--monolithic", "model"], "leave out --monolithic and torchrun"),
    ],
)
def test_options_that_do_not_fit_are_refused(train, capsys, words, message):
    assert train(*words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("output", ["-", "v.npy", "v.parquet"])
def test_encoding_to_one_file_stays_on_one_machine(tiny_hub, tmp_path, monkeypatch, capsys, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("one\n")
    words = ["--hub", str(tiny_hub.path), "-i", "texts.txt", "-o", output, "--on", "ray"]
    assert main(["encode", *words]) == 2
    assert f"--on ray: expected a folder for --output, found {output}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", r"127.0.0.1:1: .* found nothing that answers \(.*refused.*ray start --head --port 1"),
        ("127.0.0.1", r"127.0.0.1: expected HOST:PORT of a Ray cluster's head node, such as"),
        ("ray://127.0.0.1:1", "expected HOST:PORT"),
    ],
)
def test_a_cluster_that_is_not_there_is_named(address, message):
    with pytest.raises(ClusterError, match=message), cluster(address):
        pass


def note(path):
    """A function that adds a line to a file; can be sent to nodes, which do not have this module."""

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
        note_(path)
        os._exit(1)

    note_ = lambda path: path.open("a").write("here\n")  # noqa: E731
    return call


@pytest.mark.slow
@pytest.mark.cluster
def test_a_graph_runs_in_its_order_and_says_what_failed(head, add_node, tmp_path):
    add_node()
    with cluster(head.address):
        with pytest.raises(
            ClusterError, match="expected a node with 2 cores, the number of threads here, found"
        ):
            Resources.of_cluster(2)
        resources = Resources.of_cluster(1)
        assert (resources.cores, resources.gpus) == (1, 0)
        with shared_folders([tmp_path]) as check:
            jobs = [Job("one", note(tmp_path / "a")), Job("two", note(tmp_path / "b"), (0,))]
            assert run_graph(jobs, resources, check) == ["a", "b"]
            jobs = [Job("one", failing("no such stage")), Job("two", note(tmp_path / "c"), (0,))]
            with pytest.raises(RecipeError, match=r"^no such stage$"):
                run_graph(jobs, resources, check)
            assert not (tmp_path / "c").exists()
            with pytest.raises(ClusterError, match=r"(?s)^three: .*What is finished is kept"):
                run_graph([Job("three", dying(tmp_path / "d"))], resources, check)
            assert (tmp_path / "d").read_text().count("here") == 1 + RETRIES
        assert not list(tmp_path.glob(".ray-*"))
        # A path that leads elsewhere in another process, as one that is not shared does on another machine.
        folder = os.open(tmp_path, os.O_RDONLY)
        message = (
            r"node [\d.]+ \(\w+\): expected /proc/self/fd/\d+/runs on a file system that all nodes share"
        )
        with (
            pytest.raises(ClusterError, match=message),
            shared_folders([Path(f"/proc/self/fd/{folder}/runs")]),
        ):
            pass
        os.close(folder)
