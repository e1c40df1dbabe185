"""``modenc``: the command line; a command's module is imported when the command is called."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

import modenc
from modenc.cli.arguments import add_quiet
from modenc.errors import ModencError

COMMANDS = {
    "hub": "list, show, check, install, import, remove and push a hub's languages",
    "recipe": "list, show, copy and check recipes",
    "train": "train the modules of a recipe's languages",
    "encode": "turn texts into embeddings",
    "identify": "detect the language of each text",
    "serve": "serve embeddings over HTTP, as OpenAI's API does",
    "search": "find the lines nearest to a query",
    "export": "export a language as a model for sentence-transformers, ONNX or OpenVINO",
    "eval": "evaluate hubs and models on a suite of test sets",
    "mine": "find translations in texts that are not aligned",
    "translate": "translate training text by machine",
}

_NOISY = {
    **dict.fromkeys(("accelerate", "httpx", "urllib3", "filelock", "fsspec"), logging.WARNING),
    **dict.fromkeys(("sentence_transformers", "datasets", "faiss", "uvicorn"), logging.WARNING),
    "adapters": logging.ERROR,  # it warns of each adapter that is not active yet
}


def build_parser(*called: str) -> argparse.ArgumentParser:
    """Build the parser of ``modenc``, with options only for the commands in ``called``."""
    parser = argparse.ArgumentParser(
        prog="modenc", description="Multilingual sentence embeddings with adapters for each language."
    )
    parser.add_argument("--version", action="version", version=f"modenc {modenc.__version__}")
    add_quiet(parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, summary in COMMANDS.items():
        if name in called:
            import_module(f"modenc.cli.{name}").add_commands(commands)
        else:
            commands.add_parser(name, help=summary, add_help=False)
    parser.set_defaults(run=lambda _: parser.print_help(), parser=parser)
    return parser


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; ``run`` of the result runs the command.

    Raises:
        SystemExit: the words are no valid command; the message is on standard error.
    """
    called = next((word for word in words if word in COMMANDS), "")
    args, rest = build_parser(called).parse_known_args(words)
    if hasattr(args, "overrides"):  # argparse only takes those before the first option
        args.overrides += [word for word in rest if "=" in word and not word.startswith("-")]
        rest = [word for word in rest if word not in args.overrides]
    if rest:
        args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 success, 1 a check failed, 2 an error.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # characters that it cannot encode are escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    args = parse(list(sys.argv[1:] if argv is None else argv))
    _set_up_logging(quiet=getattr(args, "quiet", False))
    try:
        return _run(args)
    except BrokenPipeError:  # it may come from writing an error message
        # Python would flush both streams once more when it exits.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 141  # as shells report SIGPIPE


def _run(args: argparse.Namespace) -> int:
    try:
        code = int(args.run(args) or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except (ModencError, OSError) as error:
        sys.stderr.write(f"{args.parser.prog}: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{args.parser.prog}: interrupted\n")
        return 130


def _set_up_logging(*, quiet: bool) -> None:
    level = logging.ERROR if quiet else logging.INFO
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr)
    logging.captureWarnings(True)
    if quiet or not sys.stderr.isatty():  # huggingface_hub reads this on import
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # Without the line of Python source, which does not help users of a command.
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}"
    # From transformers, when it sorts its checkpoints.
    warnings.filterwarnings("ignore", message="mtime may not be reliable")
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(least)
