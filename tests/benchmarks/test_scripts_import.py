"""Scripts that no other test runs still find what they import from modenc."""

import importlib
import os
from pathlib import Path
from unittest.mock import patch

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path.stem for folder in ("benchmarks", "torture") for path in (ROOT / folder).glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_imports(name):
    try:
        with patch.dict(os.environ):  # some set variables for the processes that they start
            importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("modenc"):
            raise
        pytest.skip(f"{error.name} is not installed")
