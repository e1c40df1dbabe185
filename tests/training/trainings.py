"""Helpers for trainings that are killed, resumed or left alone, and for comparing their results."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from transformers import set_seed

from modenc.cli.main import main
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.training.pipeline import train
from modenc.training.trainers import last_checkpoint

SCORED_PAIRS = "data.scored_pairs=['sts.{pivot}.tsv']"
# Without dev data the last weights are kept, whatever so short a training does to the scores.
NO_DEV = ["data.dev.sts=[]", "data.dev.text_held_out=0", "data.dev.parallel_held_out=0"]


def hashes(folder):
    """Hash each file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def record(recipe_file, lang, stage):
    """Read the record of a finished stage in the work folder beside a recipe."""
    return json.loads((recipe_file.parent / "runs" / lang / stage / "done.json").read_text())


def training_again_changes_nothing(recipe, hub, caplog):
    """Check that a finished training is not published again."""
    before = hashes(hub.path)
    caplog.clear()
    with caplog.at_level("INFO", logger="modenc"):
        train(recipe)
    assert hashes(hub.path) == before
    assert "in the hub" not in caplog.text


def undisturbed(path, overrides, folder, languages=None):
    """Train a copy of a recipe's work folder and hub without interruption; return fingerprints of modules."""
    shutil.copytree(path.parent, folder / "undisturbed")
    places = [f"hub.path={folder}/undisturbed/hub", f"run.work_dir={folder}/undisturbed/runs"]
    # Random numbers that were drawn before in the process change nothing.
    set_seed(7)
    train(load_recipe(path, [*overrides, *places]), languages=languages)
    return fingerprints(Hub.open(folder / "undisturbed" / "hub"))


def fingerprints(hub):
    """Collect language → fingerprint of its modules."""
    return {lang: hub.card(lang).fingerprint() for lang in hub.languages()}


def resumptions(words, caplog):
    """Run ``modenc`` again; return how many trainings resumed from a checkpoint."""
    caplog.clear()
    with caplog.at_level("INFO", logger="modenc"):
        assert main(words) == 0
    return caplog.text.count("resuming from checkpoint-")


def kill_once_saved(words, folder):
    """Kill ``modenc`` as soon as the folder has a checkpoint that was written to its end."""
    command = [sys.executable, "-m", "modenc.cli", *words]
    with subprocess.Popen(
        command, env={**os.environ, "HF_HUB_OFFLINE": "1"}, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 300
        while process.poll() is None and last_checkpoint(folder) is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert process.poll() is None, "finished before it could be killed"
        process.send_signal(signal.SIGKILL)
