"""``modenc completion``: a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from modenc.cli.arguments import add_command


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "completion", run)
    parser.add_argument("shell", choices=("bash", "zsh"), help="which shell")


def run(args: argparse.Namespace) -> None:
    """Print a script that completes commands in a shell.

    Write it where your shell looks for completions, once for each version of modenc.

    Examples:
        modenc completion bash > ~/.local/share/bash-completion/completions/modenc
        modenc completion zsh > ~/.zfunc/_modenc
    """
    import shtab

    from modenc.cli.main import COMMANDS, build_parser

    sys.stdout.write(shtab.complete(build_parser(*COMMANDS), args.shell) + "\n")
