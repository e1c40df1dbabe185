"""Fixtures shared by all tests. No test reaches a network or the user's cache."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when huggingface_hub is first imported
if "PYTEST_XDIST_WORKER" in os.environ:
    # A worker a core (`make test`): more threads than that would only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read once, when torch is first imported

import pytest
import tiny_languages
import tiny_models

from modenc.hub.store import Hub

if importlib.util.find_spec("peft") is None:
    # `make test-next`: what adapters pins keeps the training half off the newest transformers.
    collect_ignore = [
        *("benchmarks", "cli/test_eval_cli.py", "cli/test_train_cli.py"),
        *("cli/test_mine_cli.py", "mining"),
        *("composition/test_body.py", "evaluation", "test_readme.py", "training"),
    ]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of the session's own, shared by its workers; ``MODENC_TEST_CACHE`` names one to keep."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MODENC_CACHE", os.environ.get("MODENC_TEST_CACHE") or str(folder))
        yield


@pytest.fixture(scope="session")
def tiny_xlmr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny XLM-R (2 layers, 32 wide) with a Unigram tokenizer."""
    return tiny_models.save_tiny_xlmr(tmp_path_factory.mktemp("bases") / "tiny_xlmr")


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny BERT (2 layers, 32 wide) with a WordPiece tokenizer."""
    return tiny_models.save_tiny_bert(tmp_path_factory.mktemp("bases") / "tiny_bert")


@pytest.fixture(scope="session")
def tiny_hub(tmp_path_factory: pytest.TempPathFactory, tiny_xlmr: Path) -> Hub:
    """A hub on ``tiny_xlmr``: en (LA, SE; pivot), az (LA, SE, CLA), kk (all parts). Not to be changed."""
    return tiny_languages.make_hub(tmp_path_factory.mktemp("hubs") / "tiny", tiny_xlmr)


@pytest.fixture
def hub_copy(tmp_path: Path, tiny_hub: Hub) -> Hub:
    """A copy of ``tiny_hub`` that a test may change."""
    import shutil

    shutil.copytree(tiny_hub.path, tmp_path / "hub")
    return Hub.open(tmp_path / "hub")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The files that torch unpickles."""
    import torch

    files: list[object] = []
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda file, **how: files.append(file) or load(file, **how))
    return files


@pytest.fixture
def fake_apertium(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a stand-in for ``apertium`` on PATH; gives the log that has a line for each start of it."""
    import sys

    folder = tmp_path_factory.mktemp("bin")
    code = Path(__file__).with_name("fake_apertium.py").read_text(encoding="utf-8").split("\n", 1)[1]
    program = folder / "apertium"
    program.write_text(f"#!{sys.executable} -IS\n{code}", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / "starts.log"
