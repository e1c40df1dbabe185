"""``modenc eval``: judge hubs and sentence-transformers models on a suite of test sets."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import positive
from modenc.errors import DataError
from modenc.extras import require_extra
from modenc.recipe.ranges import SEED

if TYPE_CHECKING:
    from modenc.evaluate.systems import System

logger = logging.getLogger(__name__)


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "eval",
        help=summary,
        description="Measures every system on the same test sets and writes OUT/NAME/results.json for each, "
        "and OUT/tables.md with 95 % intervals and paired tests against the first.",
        epilog="examples:\n"
        "  modenc eval --model me5-small --hub adapters_hub/me5-small --suite turkic --data DIR -o results\n"
        "  modenc eval --hub adapters_hub/me5-small --identify --suite turkic --data DIR -o identified\n"
        "  modenc eval --model sentence-transformers/LaBSE --prompt '' --suite my_suite.toml --data . -o out",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="a base (me5-small) or any sentence-transformers model; may be repeated",
    )
    parser.add_argument("--hub", action="append", default=[], metavar="DIR", help="a hub; may be repeated")
    parser.add_argument("--suite", required=True, metavar="SUITE", help="a shipped suite or a TOML file")
    parser.add_argument("--data", required=True, type=Path, metavar="DIR", help="where the suite's files are")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="OUT", help="folder for results")
    parser.add_argument(
        "--prompt", metavar="TEXT", help="goes before every text of --model (default: the model's own)"
    )
    parser.add_argument(
        "--no-align", dest="align", action="store_false", help="leave the alignment modules of hubs out"
    )
    parser.add_argument(
        "--identify",
        action="store_true",
        help="hubs identify each text's language; by default they are told what the test set knows",
    )
    parser.add_argument("--seed", type=int, default=13, metavar="N", help="of resampling (default: 13)")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="texts a forward pass")
    parser.add_argument("--plots", action="store_true", help="also PNG pictures and one report.html")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    require_extra("eval", "scipy", "sklearn", "faiss", "matplotlib")
    from modenc.evaluate.results import gathered, markdown, save_results
    from modenc.evaluate.runner import run_suite
    from modenc.evaluate.suite import check_files, load_suite
    from modenc.threads import set_threads

    if not args.model and not args.hub:
        raise DataError("expected --model or --hub, found neither; name what to judge")
    suite = load_suite(args.suite)
    if not args.data.is_dir():
        raise DataError(f"--data {args.data}: expected a folder, found none; the suite's paths start there")
    if args.output.exists() and not args.output.is_dir():
        raise DataError(f"-o {args.output}: expected a folder for results, found a file; name another")
    if fault := SEED.error(args.seed):
        raise DataError(f"--seed: {fault}")
    check_files(suite, args.data)
    set_threads(0)
    measured = []
    for system in _systems(args):
        started = time.perf_counter()
        outcome = run_suite(system, suite, args.data, seed=args.seed)
        seconds = time.perf_counter() - started
        results = gathered(system.name, suite.name, args.seed, seconds, system.describe(), outcome)
        save_results(results, args.output / system.name)
        measured.append(results)
    tables = markdown(measured)
    (args.output / "tables.md").write_text(tables, encoding="utf-8")
    sys.stdout.write(tables)
    if args.plots:
        from modenc.evaluate.report import write_report

        logger.info("pictures: %s", write_report(measured, args.output))
    return 0


def _systems(args: argparse.Namespace) -> list[System]:
    from modenc.encoder import ModularEncoder
    from modenc.evaluate.systems import ModularSystem, load_plain

    systems: list[System] = [load_plain(name, args.prompt, args.batch_size) for name in args.model]
    for hub in args.hub:
        encoder = ModularEncoder(hub)
        parts = [Path(hub).resolve().name, "modular"]
        parts += [] if args.align else ["not-aligned"]
        parts += ["identified"] if args.identify else []
        systems.append(
            ModularSystem(
                "-".join(parts),
                encoder,
                align=args.align,
                identify=args.identify,
                batch_size=args.batch_size,
            )
        )
    names = [system.name for system in systems]
    if len(set(names)) < len(names):
        raise DataError(f"expected systems of different names, found {', '.join(names)}; rename a folder")
    return systems
