"""``modenc rm``: remove a language from a hub."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "rm",
        help=summary,
        description="Remove a language's modules, without asking; the other languages are untouched.",
        epilog="examples:\n  modenc rm adapters_hub/me5-small kk",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("hub", metavar="HUB", help="hub folder")
    parser.add_argument("lang", metavar="LANG", help="language code (kk, kaz, kaz_Cyrl)")
    parser.add_argument("--force", action="store_true", help="remove even the pivot")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Remove it and say what went."""
    from modenc.errors import HubError
    from modenc.hub.files import files_below
    from modenc.hub.store import Hub
    from modenc.languages import language_name

    hub = Hub.open(args.hub)
    root = hub.layout(args.lang).root
    if root.name == hub.info.pivot and not args.force:
        raise HubError(
            f"{hub.path}: {root.name} is the pivot, which the other languages are aligned to; "
            "add --force to remove it all the same"
        )
    sizes = [path.lstat().st_size for _, path in files_below(root)]
    hub.remove(args.lang)
    removed = f"{language_name(root.name)} ({root.name})"
    sys.stdout.write(f"removed {removed}: {root}, {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB\n")
    return 0
