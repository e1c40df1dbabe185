"""``modenc search``: the lines of a file nearest to a query, whatever their language."""

from __future__ import annotations

import argparse
import heapq
import sys
from typing import Any

from modenc.cli.arguments import add_encoding, add_hub, encoded, open_encoder, positive, report_cuts
from modenc.cli.text_io import CHARACTERS_AT_ONCE, LINES_AT_ONCE, batched, read_texts
from modenc.data.text import one_line
from modenc.errors import DataError


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "search",
        help=summary,
        description="Encodes the query and every line of FILE and writes the nearest lines: cosine, "
        "language, line, tab-separated. For a quick look: nothing is kept.",
        epilog="examples:\n"
        "  modenc search 'Where is the library?' --hub adapters_hub/me5-small --in texts.txt --top 3\n"
        "  modenc search Кітапхана --query-lang kk --hub adapters_hub/me5-small --in texts.jsonl",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("query", metavar="QUERY", help="what to look for, in any of the hub's languages")
    parser.add_argument(
        "--in", dest="input", required=True, metavar="FILE", help="texts; - is standard input"
    )
    parser.add_argument("--top", type=positive, default=5, metavar="N", help="lines to show (default: 5)")
    parser.add_argument("--query-lang", metavar="CODE", help="language of the query (default: identify it)")
    add_hub(parser)
    add_encoding(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from modenc.evaluate.retrieval import unit

    if not args.query.strip():
        raise DataError("expected a query, found an empty one; give a word or a sentence")
    encoder = open_encoder(args)
    query = unit(encoder.encode([args.query], lang=args.query_lang, align=args.align))[0]
    best: list[tuple[float, int, str, str]] = []
    first = 0
    for texts in batched(read_texts(args.input, args.column), LINES_AT_ONCE, CHARACTERS_AT_ONCE):
        vectors, codes = encoded(args, encoder, texts)
        # Earlier lines win ties: the negated line number is the second key.
        found = [
            (float(score), -(first + i), text, code)
            for i, (score, text, code) in enumerate(zip(unit(vectors) @ query, texts, codes, strict=True))
        ]
        best = heapq.nlargest(args.top, [*best, *found])
        first += len(texts)
    if not best:
        raise DataError(f"{args.input}: expected lines to search, found none; give a file with texts")
    report_cuts(args, encoder)
    for score, _, text, code in best:
        sys.stdout.write(f"{score:.3f}\t{code}\t{one_line(text)}\n")
    return 0
