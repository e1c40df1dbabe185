"""``modenc eval``: evaluate hubs and sentence-transformers models on a suite of test sets."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import add_command, add_option, add_shared, write
from modenc.errors import DataError, require_extra

if TYPE_CHECKING:
    from modenc.evaluation.systems import System


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "eval", run)
    text = "the base me5-small, or a sentence-transformers model's name or folder; may be repeated"
    add_option(parser, "--model", "NAME", text, action="append", default=[])
    add_shared(
        parser, "--hub", action="append", default=[], required=False, help="hub folder; may be repeated"
    )
    text = "name of a shipped suite (see modenc recipe list), or a TOML file"
    add_option(parser, "--suite", "NAME|FILE", text, required=True)
    add_option(parser, "--data", "DIR", "folder of the suite's files", required=True, type=Path)
    add_shared(parser, "--output", metavar="DIR", help="folder for results")
    add_option(parser, "--prompt", "TEXT", "prefix of every text, for --model (default: the model's own)")
    add_shared(parser, "--no-align", "--batch-size")
    text = "let hubs detect each text's language (default: they get it from the test set)"
    add_option(parser, "--identify", None, text)
    add_shared(parser, "--seed", help="random seed of resampling")
    add_shared(parser, "--json", help="print all metrics as JSON, instead of tables")


def run(args: argparse.Namespace) -> None:
    """Evaluate hubs and models on a suite of test sets.

    Evaluates all hubs and models on the same test sets. Writes a folder with results.json for each, and
    tables.md with 95 % intervals and paired tests against the first.

    Examples:
        modenc eval --model me5-small --hub adapters_hub/me5-small --suite turkic --data DIR -o results
        modenc eval --hub adapters_hub/me5-small --identify --suite turkic --data DIR -o identified
        modenc eval --model sentence-transformers/LaBSE --prompt '' --suite my_suite.toml --data . -o out
    """
    require_extra("eval", "scipy", "sklearn", "faiss")
    from modenc.evaluation.evaluate import evaluate
    from modenc.evaluation.results import markdown

    if not args.model and not args.hub:
        raise DataError("expected --model or --hub, found neither; add one")
    measured = evaluate(_systems(args), args.suite, args.data, seed=args.seed, output=args.output)
    content = {item.name: [asdict(result) for result in item.results] for item in measured}
    write(args, content, markdown(measured))


def _systems(args: argparse.Namespace) -> Iterator[System]:
    from modenc.encoder import ModularEncoder
    from modenc.evaluation.systems import ModularSystem, open_model

    yield from (open_model(name, args.prompt, args.batch_size) for name in args.model)
    options = {"align": args.align, "identify": args.identify, "batch_size": args.batch_size}
    yield from (ModularSystem(ModularEncoder(hub), **options) for hub in args.hub)
