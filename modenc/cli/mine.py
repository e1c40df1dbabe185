"""``modenc mine``: find translations in two texts that are not aligned."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    add_command,
    add_hub,
    add_option,
    add_shared,
    bounded,
    open_encoder,
    positive,
    write,
)
from modenc.cli.text_io import check_output, read_texts
from modenc.errors import DataError, OptionError
from modenc.extras import require_extra
from modenc.storage import disk_errors, write_atomically

if TYPE_CHECKING:
    from modenc.mining import Mined

logger = logging.getLogger(__name__)

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
    limit = parser.add_mutually_exclusive_group(required=True)
    score = bounded(float, -(10**9), 10**9)
    add_option(limit, "--threshold", "X", "smallest score of a pair, such as 1.05; 0: all pairs", type=score)
    text = "file of known pairs to choose the threshold by F1; its columns are the two codes"
    add_option(limit, "--dev", "FILE", text, type=Path)
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

    --dev FILE has a row for each known pair, and a row with one empty side for each sentence that is known to
    have no translation. The share of such sentences should be as in your texts.

    Examples:
        modenc mine --hub adapters_hub/me5-small --input a.txt --lang kk --input b.txt --lang en \
            --output pairs.tsv --threshold 1.05
        modenc mine --hub adapters_hub/me5-small -i kk.jsonl --lang kk -i en.jsonl --lang en --column body \
            --dev dev.tsv -o pairs.tsv --json
    """
    require_extra("eval", "faiss", "scipy")
    columns = _checked(args)
    dev = None if args.dev is None else list(_dev_pairs(args.dev, args.lang))
    encoder = open_encoder(args)
    from modenc.evaluation.systems import ModularSystem
    from modenc.mining import mine

    left, right = (read_texts(source, column) for source, column in zip(args.input, columns, strict=True))
    mined = mine(
        left,
        right,
        ModularSystem(encoder, align=args.align, batch_size=args.batch_size),
        (args.lang[0], args.lang[1]),
        threshold=args.threshold,
        dev=dev,
        neighbors=args.neighbors,
    )
    rows = [(*args.lang, "score"), *((pair.left, pair.right, f"{pair.score:.4f}") for pair in mined.pairs)]
    with disk_errors(args.output, "nothing was written"):
        write_atomically(args.output, "".join("\t".join(row) + "\n" for row in rows))
    _report(args, mined)


def _report(args: argparse.Namespace, mined: Mined) -> None:
    if (dev := mined.dev) is not None:
        scores = f"F1 {dev.f1:.1f}, precision {dev.precision:.1f}, recall {dev.recall:.1f}"
        logger.info("threshold %.4f: %s on %s", mined.threshold, scores, args.dev)
    summary = {
        "output": str(args.output),
        "pairs": len(mined.pairs),
        "threshold": mined.threshold,
        "dev": dev and asdict(dev),
    }
    write(args, summary, f"{args.output}\t{len(mined.pairs)}\n")


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
    for source in [*args.input, *([args.dev] if args.dev else [])]:
        check_output(args.output, str(source))
    return columns * 2 if len(columns) == 1 else columns


def _dev_pairs(path: Path, langs: list[str]) -> Iterator[tuple[str, str]]:
    from modenc.data.formats import read_file, text_in_column

    for number, row in enumerate(read_file(path, langs), start=1):
        first, second = (text_in_column(row, lang, path, number) for lang in langs)
        yield first, second
