"""``modenc recipes``: the recipes that come with modenc."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

EXAMPLES = """\
examples:
  modenc recipes
  modenc cp turkic mine.toml
"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "recipes",
        help=summary,
        description="List the shipped recipes: name, what each is for, languages in the order of training.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line a recipe."""
    from modenc.recipe.loader import load_recipe, shipped_recipes

    for name, path in shipped_recipes().items():
        plans = load_recipe(path, check_files=False).plans
        sys.stdout.write(f"{name:16} {headline(path)}\n{'':16} {' '.join(plans)}\n")
    return 0


def headline(path: Path) -> str:
    """A recipe's first comment line: what it is for."""
    with path.open(encoding="utf-8") as lines:
        return next((line.strip("# \n") for line in lines if line.startswith("#")), "")
