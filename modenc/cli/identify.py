"""``modenc identify``: detect the language of each text."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from itertools import islice
from typing import Any

from modenc.cli.arguments import add_command, add_hub_and_routing, add_shared, open_encoder, write
from modenc.cli.text_io import LINES_AT_ONCE, STDIN, read_texts
from modenc.data.text import one_line


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "identify", run)
    add_hub_and_routing(parser)
    add_shared(parser, "--input", required=False, default=STDIN)
    add_shared(parser, "--column")
    add_shared(parser, "--json", help="print a JSON object a line, with code, confidence, modules and text")


def run(args: argparse.Namespace) -> None:
    """Detect the language of each text.

    Prints a line for each text, tab-separated:
      code        most probable language of all that the identifier knows; languages of the hub are favored
      confidence  its probability, 0 to 1, among the hub's languages and the most probable other one
      modules     language of the hub whose modules encode the text, or the fallback; with --fallback error
                  - (null in JSON) for a text that it refuses
      text        the text
    Texts without letters have the code 'und' and are encoded with the pivot's modules.

    Examples:
        modenc identify --hub adapters_hub/me5-small --input texts.txt
        echo 'Қайырлы таң' | modenc identify --hub adapters_hub/me5-small
    """
    encoder = open_encoder(args)
    lines = read_texts(args.input, args.column)
    while texts := list(islice(lines, LINES_AT_ONCE)):
        for text, found in zip(texts, encoder.identify(texts), strict=True):
            row = f"{found.code}\t{found.confidence:.3f}\t{found.modules or '-'}\t{one_line(text)}\n"
            write(args, {**asdict(found), "text": text}, row)
