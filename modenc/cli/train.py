"""``modenc train``: a recipe's languages through the four stages."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

from modenc.cli.recipe_arguments import add_languages, add_recipe, read_recipe

logger = logging.getLogger(__name__)

STAGES = ("vocabulary", "language_adaptation", "sentence_encoding", "alignment")


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "train",
        help=summary,
        description="Trains each language of a recipe and puts its modules into the recipe's hub folder. "
        "Finished stages are skipped, a killed run goes on from its last checkpoint, and no language's "
        "training touches another's modules.",
        epilog="examples:\n"
        "  modenc train recipes/turkic.toml --lang kk data.root=data\n"
        "  modenc train my_recipe.toml --stage alignment --force alignment.optimizer.epochs=2\n"
        "  modenc train turkic run.work_dir=/tmp/runs hub.path=my_hub",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_recipe(parser)
    add_languages(parser, "train")
    parser.add_argument(
        "--stage",
        action="append",
        choices=STAGES,
        metavar="NAME",
        help=f"only this stage; one of {', '.join(STAGES)}",
    )
    parser.add_argument(
        "--monolithic",
        metavar="FOLDER",
        help="instead of modules, train all parameters of one model on all languages, to compare with "
        "(settings: [monolithic]); a sentence-transformers model in FOLDER",
    )
    parser.add_argument(
        "--publish-unless-worse",
        action="store_true",
        help="keep a language out of the hub whose modules lose to the bare base on held-out data: a lower "
        "mean of the metrics that both have. What the hub has of it stays, so do the trained stages in the "
        "work folder, and the exit code is 1 (short for run.publish=unless_worse)",
    )
    parser.add_argument("--force", action="store_true", help="redo stages from their start, done or not")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from modenc.errors import RecipeError
    from modenc.languages import normalize_code
    from modenc.train.monolithic import train_monolithic
    from modenc.train.pipeline import train_recipe
    from modenc.train.processes import process_state

    first = process_state().is_main_process
    if not first:
        logging.getLogger().setLevel(logging.ERROR)
    if args.monolithic and (args.lang or args.stage or args.force or args.publish_unless_worse):
        raise RecipeError(
            "--monolithic trains one model: leave out --lang, --stage and --force, and --publish-unless-worse"
        )
    if args.publish_unless_worse:
        args.overrides.append("run.publish=unless_worse")
    languages = [normalize_code(code) for code in args.lang] if args.lang else None
    # A single stage may need nothing of the languages that are not chosen.
    recipe = read_recipe(args, languages, need_others=not args.stage)
    for line in recipe.warnings:
        logger.warning("warning: %s", line)
    if args.monolithic:
        train_monolithic(recipe, Path(args.monolithic))
        sys.stdout.write(f"{args.monolithic}\n" if first else "")
        return 0
    folders = train_recipe(recipe, languages=languages, stages=args.stage, force=args.force)
    for code, folder in folders.items() if first else ():
        sys.stdout.write(f"{code}\t{folder}\n")
    kept_out = [code for code in languages or recipe.plans if code not in folders]
    if first and kept_out:
        sys.stderr.write(
            f"modenc train: worse than the base alone, and not put into {recipe.hub}: {', '.join(kept_out)}\n"
        )
    return 1 if kept_out and first else 0
