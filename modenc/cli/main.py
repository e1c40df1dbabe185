"""``modenc``: one verb a file; a verb's module is imported only when it is called."""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from modenc.errors import ModencError

VERBS: dict[str, str] = {
    "recipes": "list the recipes that come with modenc",
    "cp": "copy a recipe to edit",
    "validate": "check a recipe and list all its faults",
    "cat": "print a recipe with all defaults filled in",
    "translate": "translate training text by machine",
    "clean": "drop from a bitext what does not translate",
    "train": "train the modules of a recipe's languages",
    "ls": "list the languages of a hub folder",
    "show": "show what a language's modules are and were trained on",
    "verify": "check a hub folder's files",
    "rm": "remove a language from a hub folder",
    "install": "copy a language's modules into a hub folder",
    "encode": "turn texts into vectors",
    "identify": "tell the language of each text",
    "search": "find the lines nearest to a query",
    "eval": "judge hubs and models on a suite of test sets",
}

_NOISY = [
    "accelerate",
    "httpx",
    "urllib3",
    "filelock",
    "fsspec",
    "sentence_transformers",
    "datasets",
    "faiss",
]


def build_parser(verb: str | None) -> argparse.ArgumentParser:
    """The parser of ``modenc``; only ``verb``'s own options are filled in."""
    parser = argparse.ArgumentParser(
        prog="modenc", description="Sentence vectors from modules of each language's own."
    )
    parser.add_argument(
        "--log-level",
        default="INFO",
        type=str.upper,
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        help="how much is said (default: INFO)",
    )
    subparsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, summary in VERBS.items():
        if name == verb:
            import_module(f"modenc.cli.{name}").add_parser(subparsers, summary)
        else:
            subparsers.add_parser(name, help=summary, add_help=False)
    return parser


def _ready_streams() -> None:
    """Have standard output take what its encoding lacks, and stand in for streams that are closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
            setattr(sys, name, nowhere)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the process's exit code (0 done, 1 a check failed, 2 an error)."""
    _ready_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in arguments if word in VERBS), None)
    args = build_parser(verb).parse_args(arguments)
    logging.basicConfig(level=args.log_level, format="%(message)s", stream=sys.stderr)
    logging.captureWarnings(True)
    # Without the line of Python that warned, which says nothing to whom a command is for.
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}"
    # Of how transformers puts its checkpoints in order.
    warnings.filterwarnings("ignore", message="mtime may not be reliable")
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It warns of each adapter that is not active yet.
    logging.getLogger("adapters").setLevel(logging.ERROR)
    try:
        return _run(args)
    except BrokenPipeError:  # also of what tells of an error, which may be this one in other words
        # Python would flush both once more at its end.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 141  # what shells say of others whose reader has left


def _run(args: argparse.Namespace) -> int:
    try:
        code = int(args.run(args) or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except (ModencError, OSError) as error:
        sys.stderr.write(f"modenc {args.verb}: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("modenc: interrupted; what was saved is kept\n")
        return 130
