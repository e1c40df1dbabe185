"""``modenc identify``: the language of each text."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from modenc.cli.arguments import add_column, add_hub, open_encoder
from modenc.cli.text_io import CHARACTERS_AT_ONCE, LINES_AT_ONCE, STDIN, batched, one_line, read_texts


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "identify",
        help=summary,
        description="Writes code, confidence (0 to 1, among the hub's languages) and text, tab-separated.",
        epilog="examples:\n"
        "  modenc identify --hub adapters_hub/me5-small --input texts.txt\n"
        "  echo 'Қайырлы таң' | modenc identify --hub adapters_hub/me5-small",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_hub(parser)
    parser.add_argument("--input", default=STDIN, metavar="FILE", help="texts; - is standard input (default)")
    add_column(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    encoder = open_encoder(args)
    for texts in batched(read_texts(args.input, args.column), LINES_AT_ONCE, CHARACTERS_AT_ONCE):
        for text, found in zip(texts, encoder.identify(texts), strict=True):
            sys.stdout.write(f"{found.code}\t{found.confidence:.3f}\t{one_line(text)}\n")
    return 0
