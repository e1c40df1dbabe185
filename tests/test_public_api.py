"""The examples in the docstrings of what ``modenc`` exports run as they stand."""

import doctest

import pytest
from tiny_recipe import save_tiny_recipe
from tiny_suites import task

import modenc
from modenc.encoder import ModularEncoder
from modenc.hub.store import Hub

pytest.importorskip("faiss", reason="the extra eval is not installed")

from modenc.mining import mine

SUITE = task("sts", "sts", "sts.{lang}.tsv", languages=["kk"])


@pytest.fixture
def places(tmp_path, tiny_hub, tiny_xlmr, monkeypatch):
    """A folder with the files that the examples name."""
    recipe = save_tiny_recipe(tmp_path / "recipe", tiny_xlmr)
    (tmp_path / "my_recipe.toml").write_text(recipe.read_text())
    (tmp_path / "adapters_hub").mkdir()
    (tmp_path / "adapters_hub" / "me5-small").symlink_to(tiny_hub.path)
    (tmp_path / "my_suite.toml").write_text(SUITE)
    (tmp_path / "data").symlink_to(recipe.parent / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "described",
    [
        ModularEncoder,
        ModularEncoder.route,
        Hub,
        modenc.load_recipe,
        modenc.train,
        modenc.evaluate,
        modenc.export,
        mine,
    ],
    ids=lambda described: described.__qualname__,
)
def test_examples_run(described, places):
    (example,) = (test for test in doctest.DocTestFinder(recurse=False).find(described) if test.examples)
    assert len(example.examples) >= 2
    assert doctest.DocTestRunner().run(example).failed == 0
