"""``modenc validate``: check a recipe and list all its faults."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modenc.cli.recipe_arguments import add_languages, add_recipe, read_recipe

if TYPE_CHECKING:
    from modenc.recipe.settings import LanguagePlan, Recipe

EXAMPLES = """\
examples:
  modenc validate mine.toml
  modenc validate turkic data.root=~/texts
  modenc validate mine.toml --lang sw
  modenc validate turkic --no-files

exit code: 0 no faults, 1 faults (one a line), 2 no such recipe or no valid TOML
"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "validate",
        help=summary,
        description="Check a recipe and look into its files without training: every fault is listed at once, "
        "each with its place. Warnings are probably faults.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_recipe(parser)
    add_languages(parser, "look into the files of")
    parser.add_argument("--no-files", action="store_true", help="ask neither for the data nor look into them")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the faults, or what the recipe would train."""
    from modenc.errors import OptionError
    from modenc.languages import normalize_code
    from modenc.recipe.issues import RecipeFaults
    from modenc.recipe.loader import load_recipe

    languages = [normalize_code(code) for code in args.lang] if args.lang else None
    if languages and args.no_files:
        raise OptionError("--lang chooses whose files are looked into: leave out --no-files")
    try:
        if args.no_files:
            recipe = load_recipe(args.recipe, args.overrides, check_files=False)
        else:
            recipe = read_recipe(args, languages)
    except RecipeFaults as faults:
        sys.stdout.write(f"{faults}\n{_listed('warnings', faults.warnings)}")
        return 1
    sys.stdout.write(_summary(recipe))
    sys.stdout.write(_listed("left out", recipe.left_out))
    sys.stdout.write(_listed("warnings", recipe.warnings) + _listed("notes", recipe.notes))
    return 0


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines)]) + "\n" if lines else ""


def _summary(recipe: Recipe) -> str:
    first = next(iter(recipe.plans.values()))
    lines = [f"recipe {recipe.name!r} has no faults; base {first.base.model}, hub '{recipe.hub}'"]
    lines += [f"  {lang}: {_stages(plan)}" for lang, plan in recipe.plans.items()]
    return "\n".join(lines) + "\n"


def _alignment(plan: LanguagePlan) -> str:
    if plan.aligned_with_all():
        return f"{plan.alignment.objective} with all"
    return "pivot" if plan.lang == plan.pivot else plan.alignment.objective


def _stages(plan: LanguagePlan) -> str:
    stages = {
        "vocabulary": plan.vocabulary.method,
        "language adaptation": plan.language_adaptation.objective,
        "sentence encoding": plan.sentence_encoding.summary(),
        "alignment": _alignment(plan),
    }
    return ", ".join(f"{stage} {choice}" for stage, choice in stages.items())
