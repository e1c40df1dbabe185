"""``modenc mine``: find translations in two texts that are not aligned."""

from __future__ import annotations

import argparse
from typing import Any

from modenc.cli.arguments import (
    add_command,
    add_hub,
    add_option,
    add_shared,
    open_encoder,
    positive,
    write,
)
from modenc.cli.text_io import check_output, read_texts
from modenc.errors import DataError, OptionError, require_extra
from modenc.storage import disk_errors, write_atomically

_EACH: dict[str, Any] = {"action": "append"}


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "mine", run)
    add_hub(parser)
    add_shared(
        parser, "--input", help="text file; given twice, once for each language; -: standard input", **_EACH
    )
    add_shared(parser, "--lang", help="language of each --input", required=True, **_EACH)
    text = "column of TSV, CSV, JSONL and Parquet; once, or once for each --input (default: text)"
    add_shared(parser, "--column", help=text, default=None, **_EACH)
    add_shared(parser, "--output", help="a .tsv file; its columns are the two codes and score")
    text = "smallest score of a pair, such as 1.05; 0: all pairs"
    add_option(parser, "--threshold", "X", text, type=float, required=True)
    add_option(
        parser, "--neighbors", "K", "neighbors that margins are computed from", type=positive, default=4
    )
    add_shared(parser, "--fallback", "--no-align", "--batch-size", "--compute", "--device")
    add_shared(parser, "--json", help="print the summary as JSON")


def run(args: argparse.Namespace) -> None:
    r"""Find translations in texts that are not aligned.

    Scores pairs of nearest neighbors by their ratio margin, and takes them from the best score down to the
    threshold, each sentence once. Sentences that differ in case or punctuation alone count as one. The
    embeddings of both texts are kept in memory, 1.5 GB for a million sentences of 384 numbers, and each is
    compared with all of the other text.

    Examples:
        modenc mine --hub adapters_hub/me5-small --input a.txt --lang kk --input b.txt --lang en \
            --output pairs.tsv --threshold 1.05
        modenc mine --hub adapters_hub/me5-small -i kk.jsonl --lang kk -i en.jsonl --lang en --column body \
            --threshold 1.05 -o pairs.tsv --json
    """
    require_extra("eval", "faiss", "scipy")
    columns = _checked(args)
    encoder = open_encoder(args)
    from modenc.evaluation.systems import ModularSystem
    from modenc.mining import mine

    left, right = (read_texts(source, column) for source, column in zip(args.input, columns, strict=True))
    pairs = mine(
        left,
        right,
        ModularSystem(encoder, align=args.align, batch_size=args.batch_size),
        (args.lang[0], args.lang[1]),
        threshold=args.threshold,
        neighbors=args.neighbors,
    )
    rows = [(*args.lang, "score"), *((pair.left, pair.right, f"{pair.score:.4f}") for pair in pairs)]
    with disk_errors(args.output, "nothing was written"):
        write_atomically(args.output, "".join("\t".join(row) + "\n" for row in rows))
    write(args, {"output": str(args.output), "pairs": len(pairs)}, f"{args.output}\t{len(pairs)}\n")


def _checked(args: argparse.Namespace) -> list[str]:
    """Check arguments before any slow work; returns the column of each input."""
    from modenc.languages import normalize_code

    for name in ("input", "lang"):
        if (count := len(getattr(args, name))) != 2:
            raise OptionError(f"--{name}: expected two, one for each side, found {count}")
    columns = args.column or ["text"]
    if len(columns) > 2:
        raise OptionError(f"--column: expected one, or one for each --input, found {len(columns)}")
    args.lang = [normalize_code(code) for code in args.lang]
    if args.output.suffix != ".tsv":
        raise DataError(f"{args.output}: expected a name ending in .tsv; rename it")
    for source in args.input:
        check_output(args.output, source)
    return columns * 2 if len(columns) == 1 else columns
