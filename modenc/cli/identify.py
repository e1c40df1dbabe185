"""``modenc identify``: the language of each text."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import add_column, add_hub, open_encoder
from modenc.cli.text_io import CHARACTERS_AT_ONCE, LINES_AT_ONCE, STDIN, batched, read_texts
from modenc.data.text import one_line

if TYPE_CHECKING:
    from modenc.composition.language_choice import Routing


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "identify",
        help=summary,
        description="Writes, tab-separated: code, the text's language among all that the identifier knows; "
        "confidence, 0 to 1; modules, the hub's language that encodes it, or what --fallback says; share, "
        "what that was decided on, 0 to 1: the probability of the hub's likeliest language among the hub's "
        "and the likeliest other; and the text. Texts without letters are 'und' and go to the pivot.",
        epilog="examples:\n"
        "  modenc identify --hub adapters_hub/me5-small --input texts.txt\n"
        "  echo 'Қайырлы таң' | modenc identify --hub adapters_hub/me5-small",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_hub(parser)
    parser.add_argument("--input", default=STDIN, metavar="FILE", help="texts; - is standard input (default)")
    add_column(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="an object a line, with code, confidence, modules, share and text",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    encoder = open_encoder(args)
    for texts in batched(read_texts(args.input, args.column), LINES_AT_ONCE, CHARACTERS_AT_ONCE):
        for text, found in zip(texts, encoder.identify(texts), strict=True):
            sys.stdout.write(_as_json(found, text) if args.json else _as_row(found, text))
    return 0


def _as_row(found: Routing, text: str) -> str:
    cells = (found.code, f"{found.confidence:.3f}", found.modules, f"{found.share:.3f}", one_line(text))
    return "\t".join(cells) + "\n"


def _as_json(found: Routing, text: str) -> str:
    # Lone surrogates, which JSON's input can have, are written as escapes.
    content = {**asdict(found), "text": text}
    try:
        return json.dumps(content, ensure_ascii=False).encode("utf-8").decode("utf-8") + "\n"
    except UnicodeEncodeError:
        return json.dumps(content) + "\n"
