"""What all commands share: help, versions, guesses, verbosity, completion."""

import argparse
import logging
import os
import subprocess
import sys

import pytest

import modenc
from modenc.cli.arguments import table
from modenc.cli.main import COMMANDS, build_parser, main, parse

NO_OTHER_COMMAND = """
import sys
from modenc.cli.main import main
main(sys.argv[1:])
loaded = {name for name in sys.modules if name.startswith("modenc.cli.")}
assert loaded == {f"modenc.cli.{name}" for name in ("main", "arguments", sys.argv[1])}, loaded
assert not {"torch", "transformers", "pyarrow"} & set(sys.modules)
"""
SET_FOR_TORCH = """
import os, sys
from importlib.abc import MetaPathFinder
from modenc.cli.main import main

class Watch(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "torch":
            print("policy", os.environ.get("OMP_WAIT_POLICY"), file=sys.stderr)

sys.meta_path.insert(0, Watch())
sys.exit(main(sys.argv[1:]))
"""


def commands(parser, words=()):
    """Every command with its parser, ``hub`` and ``recipe`` aside."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from commands(below, (*words, name))
            return
    yield " ".join(words), parser


ALL = dict(commands(build_parser(*COMMANDS)))


def test_the_commands_are_nouns_with_verbs_and_actions():
    nouns = {
        "hub": ["list", "show", "check", "install", "import", "remove", "push", "pull"],
        "recipe": ["list", "show", "copy", "check"],
    }
    expected = [f"{noun} {verb}" for noun, verbs in nouns.items() for verb in verbs]
    assert list(ALL) == expected + [name for name in COMMANDS if name not in nouns]


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_examples_and_the_options_of_all(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([*name.split(), "--help"])
    text = capsys.readouterr().out
    assert "examples:\n    " in text
    assert "--quiet" in text


@pytest.mark.parametrize("words", ["hub --quiet list --hub h", "hub list --quiet --hub h", "recipe -q list"])
def test_nouns_take_the_options_of_all(words):
    assert parse(words.split()).log_level == "ERROR"


@pytest.mark.parametrize(
    ("words", "text"), [([], "COMMAND ..."), (["hub"], "modenc hub"), (["recipe"], "copy")]
)
def test_without_a_command_there_is_help(capsys, words, text):
    assert main(words) == 0
    assert text in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"modenc {modenc.__version__}\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["trian"], "train"),
        (["hub", "lst"], "list"),
        (["recipe", "chekc"], "check"),
        (["--log-level=infos"], "INFO"),
    ],
)
def test_a_mistyped_word_is_guessed(capsys, words, meant):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert f"did you mean {meant!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "level"),
    [
        (["--log-level", "debug", "recipe", "list"], "DEBUG"),
        (["recipe", "list", "--log-level", "debug"], "DEBUG"),
        (["-q", "recipe", "list"], "ERROR"),
        (["recipe", "list", "--quiet"], "ERROR"),
    ],
)
def test_verbosity_stands_before_or_behind_the_command(words, level):
    assert parse(words).log_level == level


def test_quiet_shows_no_progress(monkeypatch):
    from modenc.cli.arguments import progress_bar

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for level, hidden in ((logging.INFO, False), (logging.ERROR, True)):
        monkeypatch.setattr(logging.getLogger("modenc.cli.arguments"), "level", level)
        logging.getLogger("modenc.cli.arguments").manager._clear_cache()
        with progress_bar(" texts", 1) as bar:
            assert bool(bar.disable) == hidden


@pytest.mark.parametrize("words", [("hub", "list", "--hub", "adapters_hub/none"), ("recipe",)])
def test_a_light_command_imports_itself_alone(words):
    done = subprocess.run([sys.executable, "-c", NO_OTHER_COMMAND, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command(capsys, shell):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("modenc", "recipe", "remove", "--lang-column", "--monolithic", "ubinary"):
        assert word in script, word


def test_a_table_takes_rows_of_unequal_length():
    assert table([("a", "bcd"), ("ef", "g", "h"), ("ijk",)]) == "a    bcd\nef   g    h\nijk\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "r.toml"], "modenc train: interrupted; the same command resumes from what is finished\n"),
        (["encode", "--hub", "h", "-i", "t.txt", "-o", "-"], "modenc encode: interrupted\n"),
        (["search", "--hub", "h", "-i", "t.txt", "-q", "x"], "modenc search: interrupted\n"),
        (["hub", "list", "--hub", "h"], "modenc hub list: interrupted\n"),
    ],
)
def test_an_interrupted_command_says_what_it_keeps(words, message, capsys, monkeypatch):
    args = parse(words)

    def interrupted(_):
        raise KeyboardInterrupt

    args.run = interrupted
    monkeypatch.setattr("modenc.cli.main.parse", lambda _: args)
    assert main(words) == 130
    assert capsys.readouterr().err == message


@pytest.mark.slow
@pytest.mark.parametrize(("given", "found"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(tiny_hub, given, found):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | given
    words = ["encode", "--hub", str(tiny_hub.path), "--input", "-", "--output", "-"]
    command = [sys.executable, "-c", SET_FOR_TORCH, *words]
    done = subprocess.run(
        command, input="Good morning", env=environment, capture_output=True, text=True, check=True
    )
    assert f"policy {found}\n" in done.stderr
