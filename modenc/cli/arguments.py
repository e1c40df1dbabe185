"""Parsers, the options that several commands share, and what opens what they name."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from modenc.suggest import closest_match

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

logger = logging.getLogger(__name__)

AUTO = "auto"
_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files"}
"""How shtab asks shells to complete file names."""


class Parser(argparse.ArgumentParser):
    """A parser that guesses what a mistyped choice was meant to be."""

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument; one that takes a file or folder is completed as such."""
        action = super().add_argument(*names, **options)
        if action.metavar in ("FILE", "DIR", "RECIPE"):
            action.complete = _FILES  # type: ignore[attr-defined]
        return action

    def error(self, message: str) -> NoReturn:
        """Print usage and ``message``, and exit with code 2."""
        wrong = re.search(r"invalid choice: '(.+)' \(choose from (.+)\)", message)
        meant = closest_match(wrong[1], re.findall(r"[\w-]+", wrong[2])) if wrong else None
        super().error(f"{message}; did you mean {meant!r}?" if meant else message)


def bounded(kind: type[int] | type[float], least: float, most: float) -> Callable[[str], float]:
    """A ``type`` for argparse: a number from ``least`` to ``most``."""

    def number(word: str) -> float:
        value = kind(word)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {least} to {most}, found {value}")
        return value

    number.__name__ = kind.__name__  # for argparse's message of what is no number
    return number


positive = bounded(int, 1, 2**31 - 1)
share = bounded(float, 0, 1)

_SHARED: dict[str, tuple[str | None, str, dict[str, Any]]] = {
    "--hub": ("DIR", "hub folder", {"required": True}),
    "--revision": ("REVISION", "commit, branch or tag of a hub on Hugging Face (default: main)", {}),
    "--input": ("FILE", "texts; - is standard input", {"required": True}),
    "--output": ("FILE", "", {"required": True, "type": Path}),
    "--lang": ("CODE", "language code (kk, kaz, kaz_Cyrl and kk-KZ mean the same)", {}),
    "--column": ("NAME", "column of TSV, CSV, JSONL and Parquet", {"default": "text"}),
    "--fallback": (
        "base|error|CODE",
        "for a language without modules: the base alone, an error, or another language's modules "
        "(default: the pivot's where they are a sentence-encoding adapter alone, else base)",
        {},
    ),
    "--min-confidence": (
        "P",
        "a text whose share (see modenc identify) is below this goes to the fallback",
        {"type": share, "default": 0.0},
    ),
    "--no-align": (
        None,
        "leave the alignment modules out: best within one language, not comparable across",
        {"dest": "align", "action": "store_false"},
    ),
    "--batch-size": ("N", "texts in a forward pass", {"type": positive, "default": 32}),
    "--compute": (
        None,
        "precision of the computation; int8: on CPUs, by OpenVINO; auto: bf16 where the hardware has it",
        {"choices": ("fp32", "bf16", "int8", AUTO), "default": "fp32"},
    ),
    "--device": ("NAME", "where to compute, such as cpu or cuda:1 (default: automatic)", {}),
    "--max-memory": (
        "BYTES|2GB",
        "limit for all languages together, the base aside; the least recently used are unloaded",
        {},
    ),
    "--seed": ("N", "random seed", {"type": bounded(int, 0, 2**32 - 1), "default": 13}),
    "--json": (None, "print JSON", {}),
    "--force": (None, "", {}),
}
_SHORT = {"--input": ("-i",), "--output": ("-o",), "--quiet": ("-q",)}


def add(parser: Any, *names: str, help: str | None = None, **changes: Any) -> None:
    """Add shared options; ``help`` and ``changes`` replace what :func:`option` is given for each."""
    for name in names:
        metavar, usual, options = _SHARED[name]
        option(parser, name, changes.pop("metavar", metavar), help or usual, **{**options, **changes})


def option(parser: Any, name: str, metavar: str | None, help: str, **options: Any) -> None:
    """Add an option, a flag unless something else is given; its help states the default."""
    if options.get("default") not in (None, [], "", argparse.SUPPRESS):
        help += f" (default: {options['default']})"
    if metavar is not None:
        options["metavar"] = metavar
    elif not {"choices", "action"} & options.keys():
        options["action"] = "store_true"
    parser.add_argument(*_SHORT.get(name, ()), name, help=help, **options)


def add_hub(parser: Any) -> None:
    """``--hub`` and ``--revision``."""
    add(parser, "--hub", help="hub folder, or the id of a hub on Hugging Face")
    add(parser, "--revision")


def add_opening(parser: Any) -> None:
    """What decides which hub, and which of its languages a text goes to."""
    add_hub(parser)
    add(parser, "--fallback", "--min-confidence")


def add_encoding(parser: Any) -> None:
    """The options of commands that turn texts into vectors, but those of :func:`add_opening`."""
    text = "language of the texts (kk, kaz, kaz_Cyrl and kk-KZ mean the same); auto: detect each"
    add(parser, "--lang", metavar="auto|CODE", default=AUTO, help=text)
    add(parser, "--no-align", "--batch-size", "--compute", "--device", "--max-memory", "--column")


def add_cluster(parser: Any) -> None:
    """``--on`` and ``--address``, of commands that can work on several machines."""
    option(parser, "--on", None, "compute on the machines of a Ray cluster (docs/ray.md)", choices=("ray",))
    text = (
        "of the cluster's head node (default: RAY_ADDRESS, or this machine's cluster, or this machine alone)"
    )
    option(parser, "--address", "HOST:PORT", text)


def on_cluster(args: argparse.Namespace) -> bool:
    """Whether the command is to work on a cluster.

    Raises:
        OptionError: ``--address`` without ``--on``.
        MissingExtraError: Ray is not installed.
    """
    from modenc.errors import OptionError

    if args.address and not args.on:
        raise OptionError("--address names a Ray cluster: expected --on ray with it, found none; add it")
    if args.on:
        import modenc.distributed  # noqa: F401  # so that a missing extra is found before any work
    return bool(args.on)


def add_logging(parser: Any) -> None:
    """``--log-level`` and ``--quiet``, of every command that does something."""
    group = parser.add_mutually_exclusive_group()
    level = {"choices": ("DEBUG", "INFO", "WARNING", "ERROR"), "type": str.upper}
    quiet = {"dest": "log_level", "action": "store_const", "const": "ERROR"}
    # A default would replace what stands before the command.
    option(group, "--log-level", None, "log verbosity (default: INFO)", default=argparse.SUPPRESS, **level)
    option(group, "--quiet", None, "log errors only, show no progress", default=argparse.SUPPRESS, **quiet)


def add_command(commands: Any, name: str, run: Callable[[argparse.Namespace], int | None]) -> Parser:
    """A parser for one command, with the options that all have.

    Args:
        commands: what ``add_subparsers`` gave.
        name: the command's name.
        run: carries it out and returns the exit code; its docstring is the command's help.
    """
    summary, _, text = (run.__doc__ or "").partition("\n")
    description, _, examples = textwrap.dedent(text).partition("Examples:\n")
    parser: Parser = commands.add_parser(
        name,
        help=summary[:1].lower() + summary[1:].removesuffix("."),
        description=description.strip("\n"),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    add_logging(parser)
    return parser


def add_noun(commands: Any, name: str, summary: str) -> Any:
    """A command with commands of its own; alone it prints its help."""
    parser = commands.add_parser(name, help=summary, description=summary.capitalize() + ".")
    parser.set_defaults(run=lambda _: parser.print_help(), parser=parser)
    add_logging(parser)
    return parser.add_subparsers(metavar="COMMAND")


def write(args: argparse.Namespace, content: Any, text: str) -> None:
    """Print ``content`` with ``--json``, on one line; else ``text``."""
    sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n" if args.json else text)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines with aligned columns; a row may be shorter than others."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def progress_bar(unit: str, total: int | None = None, initial: int = 0) -> Any:
    """A bar on standard error; none where that is no terminal, or with ``--quiet``."""
    from tqdm import tqdm

    hidden = None if logger.isEnabledFor(logging.WARNING) else True  # None: where there is no terminal
    look = {"unit": unit, "dynamic_ncols": True, "leave": False}
    return tqdm(total=total, initial=initial, file=sys.stderr, disable=hidden, **look)


def language_of(args: argparse.Namespace) -> str | None:
    """The code given with ``--lang``; None for ``auto``."""
    return None if args.lang.lower() == AUTO else str(args.lang)


def encoded(
    args: argparse.Namespace,
    encoder: ModularEncoder,
    texts: list[str],
    langs: Sequence[str | None] | None = None,
    **options: Any,
) -> tuple[NDArray[np.float32], list[str]]:
    """Vectors of texts as the arguments say, and the languages whose modules computed them.

    Texts that were cut are counted in ``args.cut``, instead of a warning for each batch.

    Args:
        args: the command's arguments.
        encoder: computes the vectors.
        texts: of any languages.
        langs: the language of each text, or None where ``--lang`` says it.
        **options: of ``ModularEncoder.encode``.

    Returns:
        Vectors [texts, width], and a code for each text.
    """
    from modenc.errors import TextsCutWarning

    # The languages are chosen here, and not by ``encode``, because they are shown.
    tagged = encoder.route(texts, language_of(args) if langs is None else langs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TextsCutWarning)
        vectors = encoder.encode(
            tagged, align=args.align, batch_size=args.batch_size, show_progress_bar=False, **options
        )
    for warning in caught:
        if isinstance(warning.message, TextsCutWarning):
            args.cut = getattr(args, "cut", 0) + warning.message.cut
        else:
            warnings.warn_explicit(str(warning.message), warning.category, warning.filename, warning.lineno)
    return vectors, [text.lang for text in tagged]


def report_cuts(args: argparse.Namespace, encoder: ModularEncoder) -> None:
    """Log how many of the texts that :func:`encoded` was given were cut."""
    if cut := getattr(args, "cut", 0):
        logger.info(
            "%d of the texts encoded in this run were longer than %d tokens and were cut; split them to have "
            "all of them in the vectors",
            cut,
            encoder.max_seq_length,
        )


def open_hub(args: argparse.Namespace) -> Hub:
    """The hub that ``--hub`` and ``--revision`` name; does not import torch.

    Raises:
        HubError: there is none.
    """
    from modenc.hub.remote import open_hub as opened

    return opened(args.hub, revision=args.revision)


def open_encoder(args: argparse.Namespace) -> ModularEncoder:
    """The encoder that the arguments describe.

    Raises:
        ModencError: it cannot be opened.
    """
    hub = open_hub(args)
    from modenc.encoder import ModularEncoder
    from modenc.threads import set_threads

    set_threads(0)
    names = ("fallback", "min_confidence", "compute", "max_memory", "device")
    options = {name: value for name, value in vars(args).items() if name in names}
    return ModularEncoder(hub, **options)
