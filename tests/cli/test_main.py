"""What all commands share: help, versions, --quiet."""

import argparse

import pytest

import modenc
from modenc.cli.arguments import table
from modenc.cli.main import COMMANDS, build_parser, main, parse


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
        "hub": ["list", "show", "check", "install", "import", "remove", "push"],
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


@pytest.mark.parametrize("words", [["-q", "recipe", "list"], ["recipe", "list", "--quiet"]])
def test_quiet_stands_before_or_behind_the_command(words):
    assert parse(words).quiet


def test_a_table_takes_rows_of_unequal_length():
    assert table([("a", "bcd"), ("ef", "g", "h"), ("ijk",)]) == "a    bcd\nef   g    h\nijk\n"


def test_an_interrupted_command_says_so(capsys, monkeypatch):
    args = parse(["hub", "list", "--hub", "h"])

    def interrupted(_):
        raise KeyboardInterrupt

    args.run = interrupted
    monkeypatch.setattr("modenc.cli.main.parse", lambda _: args)
    assert main([]) == 130
    assert capsys.readouterr().err == "modenc hub list: interrupted\n"
