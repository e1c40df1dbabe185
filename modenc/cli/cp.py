"""``modenc cp``: a copy of a recipe to edit."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

EXAMPLES = """\
examples:
  modenc cp my_language mine.toml
  modenc cp turkic mine.toml
  modenc cp german_korean .
"""

_SHIPPED_HUB = re.compile(rb'^path = "(adapters_hub/[^"{]*)"$', re.MULTILINE)
_OWN_HUB = (
    b'# The shipped recipe has \\1 here; a copy leaves what is there alone.\npath = "adapters_hub/{recipe}"'
)


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "cp",
        help=summary,
        description="Copy a recipe to edit. The copy still finds what it includes, and trains into a hub "
        "of its own: hub.path is the one line that is changed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", help="a shipped recipe's name, or a file")
    parser.add_argument(
        "destination", nargs="?", default=".", type=Path, help="file or folder to copy to (default: here)"
    )
    parser.add_argument("--force", action="store_true", help="replace the destination if it exists")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Copy the file, comments and all."""
    from modenc.errors import RecipeError
    from modenc.recipe.files import recipes_folder
    from modenc.recipe.loader import find_recipe

    source, destination = find_recipe(args.recipe), args.destination
    if destination.is_dir():
        destination = destination / source.name
    if destination.exists() and not args.force:
        raise RecipeError(f"expected no file '{destination}', found one; give another name, or --force")
    try:
        content = source.read_bytes()
        if source.resolve().is_relative_to(recipes_folder().resolve()):
            content = _own_hub(content)
    except OSError as error:
        raise RecipeError(f"'{source}' cannot be read: {error.strerror}") from error
    try:
        destination.write_bytes(content)
    except OSError as error:
        raise RecipeError(f"'{destination}' cannot be written: {error.strerror}") from error
    sys.stdout.write(f"{destination}\n")
    return 0


def _own_hub(content: bytes) -> bytes:
    """A shipped recipe's text with a hub of the copy's own, lest it replace shipped modules."""
    return _SHIPPED_HUB.sub(_OWN_HUB, content, count=1)
