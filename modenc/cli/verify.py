"""``modenc verify``: check a hub's files."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "verify",
        help=summary,
        description="Recompute every checksum and check that all parts fit each other and the base.",
        epilog="examples:\n"
        "  modenc verify adapters_hub/me5-small\n"
        "  modenc verify adapters_hub/me5-small --lang kk\n"
        "\n"
        "exit code: 0 all well, 1 problems (one a line), 2 no such hub or language",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("hub", metavar="HUB", help="hub folder")
    parser.add_argument("--lang", metavar="CODE", help="check this language alone")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the problems, or that there are none."""
    from modenc.hub.store import Hub
    from modenc.hub.verify import verify_hub

    hub = Hub.open(args.hub)
    problems = verify_hub(hub, args.lang)
    if problems:
        sys.stdout.write("".join(f"{problem}\n" for problem in problems))
        sys.stdout.write("install or train the damaged languages again\n")
        return 1
    checked = hub.card(args.lang).lang if args.lang else ", ".join(hub.languages()) or "no languages"
    sys.stdout.write(f"{hub.path}: all well ({checked})\n")
    return 0
