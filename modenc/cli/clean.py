"""``modenc clean``: drop from a bitext what does not translate, as MuSR does before training."""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import positive
from modenc.cli.text_io import refuse_folder, refuse_overwriting
from modenc.data.text import one_line
from modenc.errors import DataError
from modenc.recipe.ranges import SEED

if TYPE_CHECKING:
    from modenc.data.pairs import ParallelRow

logger = logging.getLogger(__name__)

_FEWEST = 100
"""Pairs that a translation model can learn anything from."""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "clean",
        help=summary,
        description="Drops duplicates, pairs that are too long, and pairs with a side in another language; "
        "then scores every pair by how well each side can be written from the other's vector (dual "
        "conditional cross-entropy, by two small decoders that each learn one half of the pairs and score "
        "the other) and drops the worst. OUTPUT is TSV: pivot, text, score, in the input's order. The "
        "record that modenc translate left beside INPUT goes with it.",
        epilog="examples:\n"
        "  modenc clean kk-en.tsv.gz --lang kk -o clean.tsv\n"
        "  modenc clean web.jsonl --lang kk --text-column target --pivot-column source "
        "--hub adapters_hub/me5-small --keep 0.8 --rejected rejected.tsv -o clean.tsv\n"
        "  modenc clean kk-en.tsv --lang kk --no-scores -o clean.tsv",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", type=Path, metavar="INPUT", help="TSV, CSV, JSONL or Parquet, .gz or .zst")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="OUTPUT", help="a .tsv file")
    parser.add_argument("--lang", required=True, metavar="CODE", help="language of the text's side")
    parser.add_argument("--pivot", default="en", metavar="CODE", help="the other side's (default: en)")
    parser.add_argument("--text-column", metavar="NAME", help="the text's (default: its code)")
    parser.add_argument("--pivot-column", metavar="NAME", help="the pivot's (default: its code)")
    parser.add_argument(
        "--max-chars", type=positive, default=5000, metavar="N", help="longest side (default: 5000)"
    )
    parser.add_argument("--no-scores", dest="scores", action="store_false", help="only filter")
    parser.add_argument(
        "--hub", metavar="DIR", help="whose modules make the vectors (default: the bare base me5-small)"
    )
    parser.add_argument(
        "--keep", type=float, metavar="SHARE", help="share of the pairs that is kept, the best (default: 0.9)"
    )
    parser.add_argument("--max-score", type=float, metavar="X", help="instead: keep scores up to X")
    parser.add_argument(
        "--steps", type=positive, default=600, metavar="N", help="of each decoder's training (default: 600)"
    )
    parser.add_argument("--rejected", type=Path, metavar="FILE", help="pairs dropped for their score")
    parser.add_argument("--seed", type=int, default=13, metavar="N", help="of the decoders (default: 13)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from modenc.data.bitext import filter_bitext, read_bitext
    from modenc.langid import get_identifier
    from modenc.languages import normalize_code

    lang, pivot = normalize_code(args.lang), normalize_code(args.pivot)
    _check(args, lang, pivot)
    named = {"text": args.text_column, "pivot": args.pivot_column}
    columns = {role: name for role, name in named.items() if name}
    rows = read_bitext(args.input, lang, pivot, columns)
    pairs, reports = filter_bitext(rows, lang, pivot, get_identifier(None), args.max_chars)
    for code, report in zip((lang, pivot), reports, strict=True):
        logger.info("%s side: %s", code, report.summary())
    if not args.scores:
        _write(args, args.output, (pivot, lang), [(pair.pivot, pair.text) for pair in pairs])
    else:
        pairs = _write_by_score(args, pairs, lang, pivot)
    sys.stdout.write(f"{args.output}\t{len(pairs)}\n")
    return 0


def _check(args: argparse.Namespace, lang: str, pivot: str) -> None:
    if lang == pivot:
        raise DataError(f"expected two languages, found {lang} for both; set --pivot")
    if args.output.suffix != ".tsv":
        raise DataError(f"{args.output}: expected a name ending in .tsv")
    written = [path for path in (args.output, args.rejected) if path is not None]
    if len({path.resolve() for path in written}) < len(written):
        raise DataError(f"--rejected: expected another file than the output, found {args.rejected}")
    for path in written:
        refuse_overwriting(args.input, path)
        refuse_folder(path)
    if fault := SEED.error(args.seed):
        raise DataError(f"--seed: {fault}")
    if args.max_score is not None and not math.isfinite(args.max_score):
        raise DataError(f"--max-score: expected a finite number, found {args.max_score}")
    if args.keep is not None and not 0 < args.keep <= 1:
        raise DataError(f"--keep: expected a share above 0, at most 1; found {args.keep}")
    given = [name for name in ("keep", "max_score", "rejected") if getattr(args, name) is not None]
    if given and not args.scores:
        raise DataError(f"--no-scores leaves nothing for --{given[0].replace('_', '-')} to go by; drop one")
    if args.keep is not None and args.max_score is not None:
        raise DataError("--keep and --max-score both say where to cut; give one")


def _write_by_score(
    args: argparse.Namespace, pairs: list[ParallelRow], lang: str, pivot: str
) -> list[ParallelRow]:
    """Write the pairs that score well, and the others where asked; returns the former."""
    import numpy as np

    if len(pairs) < _FEWEST:
        raise DataError(
            f"found {len(pairs)} usable pairs, expected at least {_FEWEST} to learn from what is a "
            "translation; give more, or --no-scores"
        )
    scores = _scores(args, pairs, lang, pivot)
    limit = args.max_score
    if limit is None:
        limit = float(np.quantile(scores, 0.9 if args.keep is None else args.keep, method="inverted_cdf"))
    quartiles = ", ".join(f"{value:.2f}" for value in np.quantile(scores, (0, 0.25, 0.5, 0.75, 1)))
    logger.info("scores (lower is better): least, quartiles, most: %s; kept up to %.2f", quartiles, limit)
    rows = [
        (pair.pivot, pair.text, f"{score:.4f}") for pair, score in zip(pairs, scores.tolist(), strict=True)
    ]
    kept = scores <= limit
    header = (pivot, lang, "score")
    _write(args, args.output, header, [row for row, good in zip(rows, kept, strict=True) if good])
    if args.rejected is not None:
        _write(args, args.rejected, header, [row for row, good in zip(rows, kept, strict=True) if not good])
    return [pair for pair, good in zip(pairs, kept, strict=True) if good]


def _scores(args: argparse.Namespace, pairs: list[ParallelRow], lang: str, pivot: str) -> Any:
    from modenc.base_model import resolve_base
    from modenc.evaluate.systems import open_system
    from modenc.threads import set_threads
    from modenc.train.translation_scores import ScoreSettings, TranslationScores, dual_cross_entropy

    set_threads(0)
    system, name = open_system(args.hub)
    base = resolve_base(name)
    logger.info("vectors of %d pairs", len(pairs))
    vectors = (
        system.encode([pair.text for pair in pairs], lang),
        system.encode([pair.pivot for pair in pairs], pivot),
    )
    with TemporaryDirectory() as folder:
        scores = TranslationScores(
            pairs,
            vectors,
            base.load_tokenizer(),
            base.load_body().get_input_embeddings().weight.detach(),
            ScoreSettings.small(args.steps, args.seed),
            Path(folder),
        )
        return dual_cross_entropy(*scores.losses())


def _write(
    args: argparse.Namespace, path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Write a table, and what the input's record says of it."""
    from modenc.provenance import copy_record
    from modenc.storage import storing, write_atomically

    lines = ["\t".join(one_line(field) for field in row) for row in (header, *rows)]
    copy_record(args.input, path)
    with storing(path, "what was there is as it was"):
        write_atomically(path, "\n".join(lines) + "\n")
