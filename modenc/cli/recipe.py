"""``modenc recipe``: list, show, copy and check recipes."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import add_command, add_noun, add_option, add_shared, write
from modenc.errors import OptionError, RecipeError

if TYPE_CHECKING:
    from modenc.recipe.plan import LanguagePlan

_SHIPPED_HUB = re.compile(rb'^path = "(adapters_hub/[^"{]*)"$', re.MULTILINE)
_START_FROM = re.compile(rb'^(start_from = ")(adapters_hub/)', re.MULTILINE)
_OWN_HUB = b'# The shipped recipe has \\1 here; a copy has a hub of its own.\npath = "adapters_hub/{recipe}"'


def add_commands(commands: Any) -> None:
    """Add the noun and its commands."""
    verbs = add_noun(commands, "recipe", "list, show, copy and check recipes")

    parser = add_command(verbs, "list", run_list)
    add_shared(parser, "--json")

    parser = add_command(verbs, "show", run_show)
    add_recipe(parser)

    parser = add_command(verbs, "copy", run_copy)
    parser.add_argument("recipe", metavar="RECIPE", help="name of a shipped recipe, or a TOML file")
    add_shared(parser, "--output", required=False, default=Path(), help="file or folder to copy to")
    add_shared(parser, "--force", help="replace the file if it exists")

    parser = add_command(verbs, "check", run_check)
    add_recipe(parser)
    add_shared(
        parser, "--lang", action="append", help="check only the files of this language; may be repeated"
    )
    add_option(parser, "--no-files", None, "do not check the files of the data, nor the hub")
    add_shared(parser, "--json")


def add_recipe(parser: Any) -> None:
    """Add ``RECIPE`` and ``KEY=VALUE``; the latter may come before, between and after options."""
    parser.add_argument("recipe", metavar="RECIPE", help="name of a shipped recipe, or a TOML file")
    text = "setting that replaces the recipe's, such as data.root=DIR"
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=text)


def run_list(args: argparse.Namespace) -> None:
    """List the recipes and suites that come with modenc.

    Prints the name, purpose and languages of each recipe, and the name and contents of each suite for modenc
    eval --suite.

    Examples:
        modenc recipe list
    """
    from modenc.evaluation.suite import load_suite, suites_folder
    from modenc.recipe.files import shipped_recipes
    from modenc.recipe.loader import load_recipe

    recipes = [
        {"name": name, "purpose": purpose(path), "languages": [*load_recipe(path, check_files=False).plans]}
        for name, path in shipped_recipes().items()
    ]
    files = sorted(suites_folder().glob("*.toml"))
    suites = [{"name": path.stem, "contents": load_suite(path).description} for path in files]
    text = "".join(
        f"{item['name']:16} {item['purpose']}\n{'':16} {' '.join(item['languages'])}\n" for item in recipes
    )
    text += "\nsuites, for modenc eval --suite:\n"
    text += "".join(f"{item['name']:16} {item['contents']}\n" for item in suites)
    write(args, {"recipes": recipes, "suites": suites}, text)


def purpose(path: Path) -> str:
    """Return the first sentence of the comment at the top of a recipe."""
    with path.open(encoding="utf-8") as lines:
        comment = " ".join(line.strip("# \n") for line in takewhile(re.compile("# ?[^ ]").match, lines))
    return comment.split(". ")[0].removesuffix(".")


def run_show(args: argparse.Namespace) -> None:
    """Print a recipe with all defaults filled in.

    Prints the recipe as it is used for training, with includes, defaults and overrides. The output is a
    recipe, too.

    Examples:
        modenc recipe show eighteen
        modenc recipe show eighteen alignment.keep_weight=0.1 > mine.toml
    """
    from modenc.recipe.loader import load_recipe

    sys.stdout.write(load_recipe(args.recipe, args.overrides, check_files=False).text)


def run_copy(args: argparse.Namespace) -> None:
    """Copy a recipe to edit.

    The copy trains into a hub of its own (hub.path), and finds the shipped hub from any folder
    (hub.start_from).

    Examples:
        modenc recipe copy my_language -o mine.toml
        modenc recipe copy german_korean
    """
    from modenc.recipe.files import find_recipe, recipes_folder

    source, target = find_recipe(args.recipe), args.output
    if target.is_dir():
        target = target / source.name
    if target.exists() and not args.force:
        raise RecipeError(f"expected no file '{target}', found one; give another name, or --force")
    content = source.read_bytes()
    if source.resolve().is_relative_to(recipes_folder().resolve()):
        content = _SHIPPED_HUB.sub(_OWN_HUB, content, count=1)  # so that it replaces no shipped modules
        clone = recipes_folder().resolve().parent
        if (clone / "adapters_hub").is_dir():
            content = _START_FROM.sub(
                lambda found: found[1] + f"{clone.as_posix()}/".encode() + found[2], content
            )
    try:
        target.write_bytes(content)
    except OSError as error:
        raise RecipeError(f"'{target}' cannot be written: {error.strerror}") from error
    sys.stdout.write(f"{target}\n")


def run_check(args: argparse.Namespace) -> int:
    """Check a recipe and list all its issues.

    Checks the settings and the files that the recipe names, and lists all issues at once, each with its
    place. A warning is probably an issue, or names a source that data.licenses leaves out.

    Examples:
        modenc recipe check mine.toml
        modenc recipe check eighteen data.root=~/texts
        modenc recipe check mine.toml --lang sw
        modenc recipe check eighteen --no-files

    exit code: 0 no issues, 1 issues (one a line), 2 no such recipe, or invalid TOML
    """
    from modenc.recipe.loader import load_recipe
    from modenc.recipe.parse import RecipeIssues

    if args.lang and not args.files:
        raise OptionError("--lang: expected no --no-files with it, which checks no files; leave one out")
    try:
        recipe = load_recipe(args.recipe, args.overrides, check_files=args.files, languages=args.lang)
    except RecipeIssues as error:
        found = {"issues": error.issues, "warnings": error.warnings}
        write(args, found, f"{error}\n{_listed('warnings', error.warnings)}")
        return 1
    plans = {lang: _stages(plan) for lang, plan in recipe.plans.items()}
    model = next(iter(recipe.plans.values())).base.model
    text = f"recipe {recipe.name!r} has no issues; base {model}, hub '{recipe.hub}'\n"
    text += "".join(f"  {lang}: {', '.join(map(' '.join, plans[lang].items()))}\n" for lang in plans)
    text += _listed("warnings", recipe.warnings)
    about = {"base": model, "hub": str(recipe.hub), "languages": plans}
    write(args, {"issues": [], "warnings": recipe.warnings, **about}, text)
    return 0


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines)]) + "\n" if lines else ""


def _stages(plan: LanguagePlan) -> dict[str, str]:
    from modenc.recipe.settings import summarize

    alignment = "pivot" if plan.lang == plan.pivot else plan.alignment.objective
    return {
        "vocabulary": plan.vocabulary.method,
        "language adaptation": plan.language_adaptation.objective,
        "sentence encoding": summarize(vars(plan.sentence_encoding)),
        "alignment": f"{plan.alignment.objective} of all pairs" if plan.aligns_all_pairs() else alignment,
    }
