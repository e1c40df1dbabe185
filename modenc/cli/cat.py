"""``modenc cat``: a recipe with all defaults filled in."""

from __future__ import annotations

import argparse
import sys
import tomllib
from typing import Any

from modenc.cli.recipe_arguments import add_recipe

EXAMPLES = """\
examples:
  modenc cat turkic
  modenc cat turkic --explain
  modenc cat turkic alignment.keep_weight=0.1 > mine.toml
"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "cat",
        help=summary,
        description="Print a recipe as training sees it: includes, defaults and overrides resolved. "
        "The output is a recipe itself.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_recipe(parser)
    parser.add_argument("--explain", action="store_true", help="say above each key what it means")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the resolved recipe; faults are an error, missing data are not."""
    from modenc.recipe.loader import load_recipe

    text = load_recipe(args.recipe, args.overrides, check_files=False).text
    sys.stdout.write(_explained(text) if args.explain else text)
    return 0


def _explained(text: str) -> str:
    from modenc.recipe.explain import explain, source_keys
    from modenc.recipe.toml_text import to_toml

    sources = ["# The keys of a source, as in data.text = [{ path = ... }]:"]
    for key, meaning in source_keys().items():
        sources += [f"#   {key}", *(f"#       {line}" for line in meaning.splitlines())]
    return to_toml(tomllib.loads(text), comment=explain) + "\n" + "\n".join(sources) + "\n"
