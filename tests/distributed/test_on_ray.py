"""``--on ray``, on a cluster of several nodes of which one is lost midway: what comes out is the same."""

import time
from pathlib import Path
from threading import Thread

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from tiny_models import sentences
from tiny_recipe import save_tiny_recipe

from modenc.cli.main import main
from modenc.hub.store import Hub
from modenc.hub.verify import verify_hub

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


class Loss(Thread):
    """The loss of one of two nodes, once there is a file: of the one that works on ``task`` for it."""

    def __init__(self, add_node, lose_node, folder, pattern, task=""):
        super().__init__(daemon=True)
        self.nodes, self.lose_node = [add_node(), add_node()], lose_node
        self.file = lambda: next(folder.glob(pattern), None)
        self.task = lambda file: task.format(lang=file.relative_to(folder).parts[0])
        self.lost = None
        self.start()

    def run(self):
        while not (file := self.file()):
            time.sleep(0.02)
        for node in self.nodes:
            raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
            if any(self.task(file) in " ".join(one.cmdline()) for one in raylet.children(recursive=True)):
                self.lost = node
                self.lose_node(node)
                return


def fingerprints(folder):
    """Language → of its modules."""
    hub = Hub.open(folder)
    assert verify_hub(hub) == []
    return {lang: hub.card(lang).fingerprint() for lang in hub.languages()}


def logs(head):
    """What was logged on all nodes."""
    folder = Path(head.head_node.get_session_dir_path()) / "logs"
    return "\n".join(path.read_text(errors="replace") for path in folder.glob("worker-*.err"))


def test_training_goes_on_from_the_checkpoint_of_a_lost_node(
    head, add_node, lose_node, tiny_xlmr, tmp_path, capsys, caplog
):
    caplog.set_level("INFO")
    path = save_tiny_recipe(tmp_path, tiny_xlmr)
    words = ["train", str(path), "sentence_encoding.optimizer.steps=120"]
    assert main([*words, f"hub.path={tmp_path}/right", f"run.work_dir={tmp_path}/elsewhere"]) == 0
    capsys.readouterr()
    pattern = "*/sentence_encoding/checkpoints/checkpoint-*/trainer_state.json"
    loss = Loss(add_node, lose_node, tmp_path / "runs", pattern, "{lang}: sentence_encoding")
    assert main([*words, "--on", "ray", "--address", head.address]) == 0
    loss.join(60)
    assert loss.lost
    assert capsys.readouterr().out == f"en\t{tmp_path}/hub/en\nkk\t{tmp_path}/hub/kk\n"
    assert fingerprints(tmp_path / "hub") == fingerprints(tmp_path / "right")
    assert "resuming from checkpoint-" in logs(head)
    assert not list(tmp_path.rglob(".ray-*"))


@pytest.fixture
def texts(tmp_path):
    """A folder of files, with texts of three languages each."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(8):
        lines = [text for lang in ("en", "kk", "az") for text in sentences(lang)[number::40]]
        (folder / f"{number}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("input_is", ["folder", "file"])
def test_encoding_loses_nothing_with_a_node(
    head, add_node, lose_node, tiny_hub, texts, tmp_path, caplog, input_is
):
    caplog.set_level("INFO")
    source, options = texts, []
    if input_is == "file":
        source, options = tmp_path / "all.txt", ["--part-size", "20"]
        source.write_bytes(b"".join(path.read_bytes() for path in sorted(texts.iterdir())))
    words = ["encode", "--hub", str(tiny_hub.path), "--input", str(source), *options, "--output"]
    right, output = tmp_path / "right", tmp_path / "out"
    assert main([*words, str(right)]) == 0
    loss = Loss(add_node, lose_node, output, "*.parquet")
    assert main([*words, str(output), "--on", "ray", "--address", head.address]) == 0
    loss.join(60)
    assert loss.lost
    names = sorted(path.name for path in right.iterdir())
    assert sorted(path.name for path in output.glob("*") if ".tmp-" not in path.name) == names
    one, other = pq.read_table(right), pq.read_table(output)
    assert one.drop(["vector"]) == other.drop(["vector"])
    vectors = [np.array(table["vector"].to_pylist()) for table in (one, other)]
    np.testing.assert_allclose(*vectors, atol=1e-5)
    assert one.num_rows == sum(len(path.read_bytes().splitlines()) for path in texts.iterdir())
    # What is there is not encoded again, and nothing is mixed.
    assert main([*words, str(output), "--on", "ray", "--address", head.address]) == 0
    assert f"{len(names) - 1} of {len(names) - 1} parts are done" in caplog.text
    assert main([*words, str(output), "--no-align", "--on", "ray", "--address", head.address]) == 2
