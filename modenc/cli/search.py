"""``modenc search``: find the lines of a file nearest to a query, across languages."""

from __future__ import annotations

import argparse
import heapq
from itertools import islice
from typing import Any

from modenc.cli.arguments import (
    add_command,
    add_encoding,
    add_hub_and_routing,
    add_option,
    add_shared,
    encode_texts,
    open_encoder,
    positive,
    write,
)
from modenc.cli.text_io import LINES_AT_ONCE, read_texts
from modenc.data.text import is_blank, one_line
from modenc.errors import DataError


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "search", run)
    parser.add_argument("query", metavar="QUERY", help="word or sentence, in any of the hub's languages")
    add_shared(parser, "--input")
    add_option(parser, "--top", "N", "number of lines to print", type=positive, default=5)
    add_option(parser, "--query-lang", "CODE", "language of the query (default: detect it)")
    add_hub_and_routing(parser)
    add_encoding(parser)
    add_shared(parser, "--json", help="print a JSON object a line, with score, language and text")


def run(args: argparse.Namespace) -> None:
    """Find the lines nearest to a query.

    Encodes the query with the hub's prompt for queries and all lines of FILE with that for documents, and
    prints the nearest lines, tab-separated: cosine, language, line. Lines without a letter, digit or symbol
    are left out. Embeddings are not stored, so each search encodes the file again.

    Examples:
        modenc search 'Where is the library?' --hub adapters_hub/me5-small --input texts.txt --top 3
        modenc search Кітапхана --query-lang kk --hub adapters_hub/me5-small --input texts.jsonl
    """
    from modenc.evaluation.retrieval import unit

    if is_blank(args.query):
        raise DataError("expected a query, found an empty one; give a word or a sentence")
    encoder = open_encoder(args)
    query = unit(encoder.encode_query([args.query], lang=args.query_lang, align=args.align))[0]
    best: list[tuple[float, int, str, str]] = []
    first = 0
    lines = (text for text in read_texts(args.input, args.column) if not is_blank(text))
    while texts := list(islice(lines, LINES_AT_ONCE)):
        vectors, codes = encode_texts(args, encoder, texts, prompt_name="document")
        # The negated line number sorts earlier lines first if scores are equal.
        found = [
            (float(score), -(first + i), text, code)
            for i, (score, text, code) in enumerate(zip(unit(vectors) @ query, texts, codes, strict=True))
        ]
        best = heapq.nlargest(args.top, [*best, *found])
        first += len(texts)
    if not best:
        raise DataError(f"{args.input}: expected lines to search, found none; give a file with texts")
    for score, _, text, code in best:
        line = f"{score:.3f}\t{code}\t{one_line(text)}\n"
        write(args, {"score": score, "language": code, "text": text}, line)
