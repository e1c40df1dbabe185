"""``modenc clean``: drop pairs that are no translations from a bitext, as MuSR does before training."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import add, add_command, bounded, option, positive, share, write
from modenc.cli.text_io import check_output
from modenc.data.text import one_line
from modenc.errors import DataError

if TYPE_CHECKING:
    from modenc.data.pairs import ParallelRow

logger = logging.getLogger(__name__)

_MIN_PAIRS = 100
"""Least number of pairs to train the decoders on."""


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "clean", run)
    add(parser, "--input", type=Path, help="bitext: TSV, CSV, JSONL or Parquet; plain, .gz or .zst")
    add(parser, "--output", help="a .tsv file")
    add(parser, "--lang", required=True, help="language of one side, the text")
    option(parser, "--pivot", "CODE", "language of the other side, the pivot", default="en")
    option(parser, "--text-column", "NAME", "column of the text (default: its code)")
    option(parser, "--pivot-column", "NAME", "column of the pivot (default: its code)")
    option(parser, "--max-chars", "N", "most characters of a side", type=positive, default=5000)
    option(parser, "--no-scores", None, "drop only duplicates, long pairs and wrong languages")
    add(parser, "--hub", required=False, help="hub for the vectors (default: the base me5-small alone)")
    limit = parser.add_mutually_exclusive_group()
    option(limit, "--keep", "SHARE", "share of pairs to keep, best first (default: 0.9)", type=share)
    option(limit, "--max-score", "X", "instead: keep scores up to X", type=bounded(float, -(10**9), 10**9))
    option(parser, "--steps", "N", "training steps of each of two decoders", type=positive, default=600)
    option(parser, "--rejected", "FILE", "file for the pairs that are dropped for their score", type=Path)
    add(parser, "--seed", "--json")


def run(args: argparse.Namespace) -> None:
    r"""Drop pairs that are no translations from a bitext.

    First drops duplicates, pairs that are too long, and pairs with a side in another language. Then scores
    each pair by how well each side can be predicted from the other's vector (dual conditional cross-entropy:
    two small decoders, each trained on one half of the pairs, score the other half), and drops the worst.
    The output is TSV, in the input's order, with three columns: pivot, text and score. If modenc translate
    wrote a record beside the input, it is copied.

    Examples:
        modenc clean --input kk-en.tsv.gz --lang kk --output clean.tsv
        modenc clean -i web.jsonl --lang kk --text-column target --pivot-column source \
            --hub adapters_hub/me5-small --keep 0.8 --rejected rejected.tsv -o clean.tsv
        modenc clean -i kk-en.tsv --lang kk --no-scores -o clean.tsv
    """
    from modenc.data.bitext_cleaning import filter_bitext, read_bitext
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
    if args.scores:
        kept = _write_by_score(args, pairs, lang, pivot)
    else:
        kept = len(pairs)
        _write(args, args.output, (pivot, lang), [(pair.pivot, pair.text) for pair in pairs])
    write(args, {"output": str(args.output), "kept": kept}, f"{args.output}\t{kept}\n")


def _check(args: argparse.Namespace, lang: str, pivot: str) -> None:
    if lang == pivot:
        raise DataError(f"expected two languages, found {lang} for both; set --pivot")
    if args.output.suffix != ".tsv":
        raise DataError(f"{args.output}: expected a name ending in .tsv; rename it")
    written = [path for path in (args.output, args.rejected) if path is not None]
    if len({path.resolve() for path in written}) < len(written):
        raise DataError(
            f"--rejected: expected another file than the output, found {args.rejected}; rename it"
        )
    for path in written:
        check_output(path, args.input)
    given = [name for name in ("keep", "max_score", "rejected") if getattr(args, name) is not None]
    if given and not args.scores:
        raise DataError(f"--no-scores: expected no --{given[0].replace('_', '-')} with it; leave one out")


def _write_by_score(args: argparse.Namespace, pairs: list[ParallelRow], lang: str, pivot: str) -> int:
    """Write the pairs that score well, and with ``--rejected`` the others; returns the former's number."""
    import numpy as np

    if len(pairs) < _MIN_PAIRS:
        raise DataError(
            f"found {len(pairs)} usable pairs, expected at least {_MIN_PAIRS} to train the decoders; "
            "add pairs, or use --no-scores"
        )
    scores = _scores(args, pairs, lang, pivot)
    limit = args.max_score
    if limit is None:
        limit = float(np.quantile(scores, 0.9 if args.keep is None else args.keep, method="inverted_cdf"))
    quartiles = ", ".join(f"{value:.2f}" for value in np.quantile(scores, (0, 0.25, 0.5, 0.75, 1)))
    logger.info(
        "scores (lower is better): minimum, quartiles, maximum: %s; kept up to %.2f", quartiles, limit
    )
    rows = [
        (pair.pivot, pair.text, f"{score:.4f}") for pair, score in zip(pairs, scores.tolist(), strict=True)
    ]
    kept = scores <= limit
    header = (pivot, lang, "score")
    _write(args, args.output, header, list(compress(rows, kept)))
    if args.rejected is not None:
        _write(args, args.rejected, header, list(compress(rows, ~kept)))
    return int(kept.sum())


def _scores(args: argparse.Namespace, pairs: list[ParallelRow], lang: str, pivot: str) -> Any:
    from modenc.base_model import resolve_base
    from modenc.evaluation.systems import open_hub_or_base
    from modenc.recipe.loader import default_section
    from modenc.threads import set_threads
    from modenc.training.translation_scores import TranslationScores, dual_cross_entropy

    set_threads(0)
    system, name = open_hub_or_base(args.hub)
    base = resolve_base(name)
    logger.info("encoding %d pairs", len(pairs))
    vectors = (
        system.encode([pair.text for pair in pairs], lang),
        system.encode([pair.pivot for pair in pairs], pivot),
    )
    scores = TranslationScores(
        pairs,
        vectors,
        base.load_tokenizer(),
        base.load_body().get_input_embeddings().weight.detach(),
        # One layer is enough to recognize translations.
        replace(default_section("decoder"), pivot_steps=args.steps, layers=1, max_pieces=8000),
        replace(default_section("run"), seed=args.seed),
    )
    with TemporaryDirectory() as folder:
        return dual_cross_entropy(*scores.losses(Path(folder)))


def _write(
    args: argparse.Namespace, path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Write a table, and a copy of the input's record."""
    from modenc.provenance import copy_record
    from modenc.storage import disk_errors, write_atomically

    lines = ["\t".join(one_line(field) for field in row) for row in (header, *rows)]
    copy_record(args.input, path)
    with disk_errors(path, "the file is as it was"):
        write_atomically(path, "\n".join(lines) + "\n")
