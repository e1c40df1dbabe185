"""Makefile, CI, pre-commit and quickstart agree with each other and with the package."""

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _requirements():
    lines = (ROOT / "quickstart/requirements.txt").read_text().splitlines()
    return {line.split("==")[0] for line in lines if line and not line.startswith("#")}


def test_quickstart_installs_the_catalogs_its_recipe_reads():
    data = tomllib.loads((ROOT / "recipes/quickstart.toml").read_text(encoding="utf-8"))["data"]
    needed = {
        package for role in ("text", "parallel") for source in data[role] for package in source["gettext"]
    }
    assert needed == _requirements()


def test_quickstart_sentences_are_parallel_and_distinct():
    tree = ast.parse((ROOT / "quickstart/sentences.py").read_text(encoding="utf-8"))
    table = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.AnnAssign))
    assert len({len(texts) for texts in table.values()}) == 1
    texts = [text for texts in table.values() for text in texts]
    assert len(set(texts)) == len(texts)


def test_ci_runs_what_the_readme_says():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    for command in re.findall(r"^make ([\w-]+)", script.read_text(), flags=re.MULTILINE):
        assert f"make {command}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "mypy"])
def test_pre_commit_and_make_check_run_the_same(command):
    assert f"entry: {command}\n" in (ROOT / ".pre-commit-config.yaml").read_text()
    assert f"$(BIN)/{command}" in (ROOT / "Makefile").read_text()


def test_no_two_files_differ_in_case_alone():
    """Disks of macOS and Windows would keep one of them."""
    folders = ("benchmarks", "docs", "modenc", "recipes", "tests", "torture")
    names = [str(path).lower() for folder in folders for path in (ROOT / folder).rglob("*")]
    assert len(names) > 300
    assert len(set(names)) == len(names)


def test_torch_bounds_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    torch = next(line for line in project["dependencies"] if line.startswith("torch"))
    assert f'"{torch}"' in (ROOT / "Makefile").read_text()
    assert (ROOT / "LICENSE").read_text().strip().startswith("Apache License")
