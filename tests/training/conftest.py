"""A small recipe over generated texts, on a tiny base."""

import shutil

import pytest
from tiny_recipe import save_tiny_recipe


@pytest.fixture(scope="session")
def tiny_recipe(tmp_path_factory, tiny_xlmr):
    """A function that writes a fresh recipe with data into a folder of its own and gives its path."""

    def make(name="tiny", base=tiny_xlmr):
        return save_tiny_recipe(tmp_path_factory.mktemp(name), base)

    return make


@pytest.fixture(scope="session")
def trained(tiny_recipe):
    """A recipe that was trained once; not to be changed."""
    from modenc.recipe.loader import load_recipe
    from modenc.training.pipeline import train

    path = tiny_recipe("trained")
    train(load_recipe(path))
    return path


@pytest.fixture
def copies(trained, tmp_path):
    """A function that copies a trained recipe's folder, so that a test may go on training there."""

    def copy(name):
        shutil.copytree(trained.parent, tmp_path / name)
        path = tmp_path / name / trained.name
        path.write_text(path.read_text().replace(str(trained.parent), str(path.parent)))
        return path

    return copy


@pytest.fixture
def copied(copies):
    """One such copy."""
    return copies("copy")
