"""Parsers, options that several commands share, and functions that open the hubs that they name."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import textwrap
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

logger = logging.getLogger(__name__)

AUTO = "auto"


def bounded(kind: type[int] | type[float], least: float, most: float) -> Callable[[str], float]:
    """Return a ``type`` for argparse: a number from ``least`` to ``most``."""

    def number(word: str) -> float:
        value = kind(word)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {least} to {most}, found {value}")
        return value

    number.__name__ = kind.__name__  # argparse's messages name it
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
        "(default: the pivot's modules if they are only a sentence-encoding adapter, else the base)",
        {},
    ),
    "--min-confidence": (
        "P",
        "use the fallback for texts whose confidence (see modenc identify) is below this",
        {"type": share, "default": 0.0},
    ),
    "--no-align": (
        None,
        "leave the alignment modules out: embeddings are comparable within a language only",
        {},
    ),
    "--batch-size": ("N", "texts in a forward pass", {"type": positive, "default": 32}),
    "--compute": (
        None,
        "precision of the computation; auto: bf16 if the hardware has it",
        {"choices": ("fp32", "bf16", AUTO), "default": "fp32"},
    ),
    "--device": ("NAME", "device to compute on, such as cpu or cuda:1 (default: automatic)", {}),
    "--seed": ("N", "random seed", {"type": bounded(int, 0, 2**32 - 1), "default": 13}),
    "--json": (None, "print JSON", {}),
    "--force": (None, "", {}),
}
_SHORT = {"--input": ("-i",), "--output": ("-o",), "--quiet": ("-q",)}


def add_shared(parser: Any, *names: str, help: str | None = None, **changes: Any) -> None:
    """Add shared options; ``help`` and ``changes`` replace their usual arguments of :func:`add_option`."""
    for name in names:
        metavar, usual, options = _SHARED[name]
        add_option(parser, name, changes.pop("metavar", metavar), help or usual, **{**options, **changes})


def add_option(parser: Any, name: str, metavar: str | None, help: str, **options: Any) -> None:
    """Add an option whose help states its default; without a metavar a flag; ``--no-x`` unsets ``x``."""
    if options.get("default") not in (None, [], "", argparse.SUPPRESS):
        help += f" (default: {options['default']})"
    if metavar is not None:
        options["metavar"] = metavar
    elif name.startswith("--no-"):
        options |= {"dest": name[5:].replace("-", "_"), "action": "store_false"}
    elif not {"choices", "action"} & options.keys():
        options["action"] = "store_true"
    parser.add_argument(*_SHORT.get(name, ()), name, help=help, **options)


def add_hub(parser: Any) -> None:
    """Add ``--hub`` and ``--revision``."""
    add_shared(parser, "--hub", help="hub folder, or the id of a hub on Hugging Face")
    add_shared(parser, "--revision")


def add_hub_and_routing(parser: Any) -> None:
    """Add ``--hub`` and the options that choose the modules for a text."""
    add_hub(parser)
    add_shared(parser, "--fallback", "--min-confidence")


def add_encoding(parser: Any) -> None:
    """Add the other options of commands that encode texts, see :func:`add_hub_and_routing`."""
    text = "language of the texts (kk, kaz, kaz_Cyrl and kk-KZ mean the same); auto: detect each"
    add_shared(parser, "--lang", metavar="auto|CODE", default=AUTO, help=text)
    add_shared(parser, "--no-align", "--batch-size", "--compute", "--device", "--column")


def add_cluster(parser: Any) -> None:
    """Add ``--on`` and ``--address``, for commands that can run on several machines."""
    add_option(
        parser, "--on", None, "compute on the machines of a Ray cluster (docs/ray.md)", choices=("ray",)
    )
    text = "address of the cluster's head node (default: RAY_ADDRESS, else a cluster on this machine)"
    add_option(parser, "--address", "HOST:PORT", text)


def on_cluster(args: argparse.Namespace) -> bool:
    """Say whether the command runs on a cluster.

    Raises:
        OptionError: ``--address`` without ``--on``.
        MissingExtraError: Ray is not installed.
    """
    from modenc.errors import OptionError, require_extra

    if args.address and not args.on:
        raise OptionError("--address: expected --on ray with it, found none; add --on ray")
    if args.on:
        require_extra("ray", "ray")
    return bool(args.on)


def add_quiet(parser: Any) -> None:
    """Add ``--quiet``."""
    # A default would replace a value given before the command's name.
    add_option(parser, "--quiet", None, "log errors only, show no progress", default=argparse.SUPPRESS)


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int | None]
) -> argparse.ArgumentParser:
    """Add the parser of a command, with the options of all commands; ``run``'s docstring is its help."""
    summary, _, text = (run.__doc__ or "").partition("\n")
    description, _, examples = textwrap.dedent(text).partition("Examples:\n")
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary[:1].lower() + summary[1:].removesuffix("."),
        description=description.strip("\n"),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    add_quiet(parser)
    return parser


def add_noun(commands: Any, name: str, summary: str) -> Any:
    """Add a command that has subcommands; without one it prints its help."""
    parser = commands.add_parser(name, help=summary, description=summary.capitalize() + ".")
    parser.set_defaults(run=lambda _: parser.print_help(), parser=parser)
    add_quiet(parser)
    return parser.add_subparsers(metavar="COMMAND")


def write(args: argparse.Namespace, content: Any, text: str) -> None:
    """Print ``content`` on one line with ``--json``; otherwise ``text``."""
    sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n" if args.json else text)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as lines with aligned columns; a row may be shorter than others."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def progress_bar(unit: str, total: int | None = None) -> Any:
    """Make a progress bar on standard error; it is hidden if that is no terminal, or by ``--quiet``."""
    from tqdm import tqdm

    # With None, tqdm hides it if there is no terminal.
    hidden = None if logger.isEnabledFor(logging.WARNING) else True
    look = {"unit": unit, "dynamic_ncols": True, "leave": False}
    return tqdm(total=total, file=sys.stderr, disable=hidden, **look)


def given_language(args: argparse.Namespace) -> str | None:
    """Return the code given with ``--lang``; None for ``auto`` and ``und``."""
    from modenc.languages import is_undetermined

    return None if args.lang.lower() == AUTO or is_undetermined(args.lang) else str(args.lang)


def encode_texts(
    args: argparse.Namespace,
    encoder: ModularEncoder,
    texts: list[str],
    langs: Sequence[str | None] | None = None,
    **options: Any,
) -> tuple[NDArray[np.float32], list[str]]:
    """Encode texts according to a command's arguments, and to ``options`` of ``ModularEncoder.encode``.

    ``langs`` replaces ``--lang``.

    Returns:
        Vectors [texts, width], and for each text the code of the language whose modules encoded it.
    """
    # Languages are chosen here, since ``encode`` does not return them.
    tagged = encoder.route(texts, given_language(args) if langs is None else langs)
    vectors = encoder.encode(
        tagged, align=args.align, batch_size=args.batch_size, show_progress_bar=False, **options
    )
    return vectors, [text.lang for text in tagged]


def open_hub(args: argparse.Namespace) -> Hub:
    """Open the hub that ``--hub`` and ``--revision`` name, without importing torch.

    Raises:
        HubError: there is no such hub.
    """
    from modenc.hub import remote

    return remote.open_hub(args.hub, revision=args.revision)


def open_encoder(args: argparse.Namespace) -> ModularEncoder:
    """Open the encoder that the arguments describe.

    Raises:
        ModencError: the hub, the base or an option is wrong.
    """
    hub = open_hub(args)
    from modenc.encoder import ModularEncoder

    names = ("fallback", "min_confidence", "compute", "device")
    options = {name: value for name, value in vars(args).items() if name in names}
    return ModularEncoder(hub, **options)
