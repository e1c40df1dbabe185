"""``modenc install``: copy a language's modules into a hub."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "install",
        help=summary,
        description="Copy a language's folder into a hub of the same base. Checksums, shapes and the base "
        "are checked first; modules of that language that are there already are replaced.",
        epilog="examples:\n"
        "  modenc install downloads/kk adapters_hub/me5-small\n"
        "  modenc install other_hub adapters_hub/me5-small --lang kk",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="FOLDER", help="a language's folder, or a hub together with --lang")
    parser.add_argument("hub", metavar="HUB", help="hub folder to copy into")
    parser.add_argument("--lang", metavar="CODE", help="the language that FOLDER is expected to hold")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Install it and say what came."""
    from modenc.hub.store import Hub

    hub = Hub.open(args.hub)
    card = hub.install(args.folder, args.lang)
    sys.stdout.write(f"installed {card.name} ({card.lang}) in {hub.path}: {len(card.files)} files\n")
    return 0
