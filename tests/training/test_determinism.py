"""One seed, one machine, one number of threads: the same bytes, in whichever process."""

import subprocess
import sys

import pytest

from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.training.pipeline import train

pytestmark = pytest.mark.slow


def test_another_process_gives_the_same_bytes(trained, tmp_path):
    options = [f"hub.path={tmp_path / 'hub'}", f"run.work_dir={tmp_path / 'runs'}"]
    command = [sys.executable, "-m", "modenc.cli", "train", str(trained), *options]
    subprocess.run(command, check=True, capture_output=True)
    assert checksums(Hub.open(tmp_path / "hub")) == checksums(Hub.open(load_recipe(trained).hub))


def test_another_seed_gives_others(trained, tmp_path):
    first = load_recipe(trained)
    options = [f"hub.path={tmp_path / 'hub'}", f"run.work_dir={tmp_path / 'runs'}"]
    other = load_recipe(trained, [*options, f"run.seed={first.plans['en'].run.seed + 1}"])
    train(other)
    before, after = (checksums(Hub.open(recipe.hub)) for recipe in (first, other))
    weights = {name for name in before if name[1].endswith("adapter_model.safetensors")}
    assert weights
    assert all(before[name] != after[name] for name in weights)


def checksums(hub):
    """(language, file) → SHA-256, of all but the page for people, which has the date on it."""
    return {
        (lang, name): record["sha256"]
        for lang in hub.languages()
        for name, record in hub.card(lang).files.items()
        if name != "README.md"
    }
