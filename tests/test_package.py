import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TRAINING_ONLY = ("adapters", "peft", "deepfocus", "datasets", "accelerate", "fasttext")


def run_python(code, *flags, path=()):
    """Run a program in a process of its own; returns what it wrote."""
    search = ":".join(map(str, [ROOT, *path]))
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": search, "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def base_install(tmp_path_factory):
    """A search path with every installed package but those of the train extra."""
    folder = tmp_path_factory.mktemp("site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        name = package.name.split("-")[0].removesuffix(".py").lower()
        if name not in TRAINING_ONLY and not package.name.startswith("__editable__"):
            (folder / package.name).symlink_to(package)
    return folder


@pytest.mark.slow
def test_encoding_needs_nothing_of_the_train_extra(base_install, tiny_hub, tmp_path):
    code = (
        f"import os, sys; os.environ['MODENC_CACHE'] = {str(tmp_path)!r}; from modenc import ModularEncoder; "
        f"e = ModularEncoder({str(tiny_hub.path)!r}); v = e.encode(['Good morning', 'Қайырлы таң']); "
        f"assert v.shape == (2, 32); assert not set({TRAINING_ONLY!r}) & set(sys.modules)"
    )
    run_python(code, "-S", path=[base_install])
