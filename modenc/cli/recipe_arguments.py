"""The arguments of every verb that reads a recipe: its name and ``key=value`` overrides."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modenc.recipe.issues import Found
    from modenc.recipe.settings import LanguagePlan, Recipe

Parse = Callable[..., tuple[argparse.Namespace, list[str]]]


def add_recipe(parser: Any) -> None:
    """Add ``recipe`` and ``overrides``; overrides may stand before, between and after options."""
    parser.add_argument("recipe", metavar="RECIPE", help="a TOML file, or the name of a shipped recipe")
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="settings that replace the recipe's, as in data.root=data",
    )
    parser.parse_known_args = _accepting_late_overrides(parser.parse_known_args)


def add_languages(parser: Any, doing: str) -> None:
    """Add ``--lang``, which may be repeated."""
    parser.add_argument(
        "--lang",
        action="append",
        metavar="CODE",
        help=f"{doing} only this language; may be repeated (default: all)",
    )


def read_recipe(
    args: argparse.Namespace, languages: Sequence[str] | None, *, need_others: bool = True
) -> Recipe:
    """The recipe that the arguments name, with a look into the files of ``languages`` (None: of all).

    ``need_others`` is as in ``load_recipe``.

    Raises:
        RecipeError: as ``load_recipe``, and what the files show to be wrong.
    """
    from modenc.recipe.loader import load_recipe

    return load_recipe(args.recipe, args.overrides, languages=languages, need_others=need_others, look=_look)


def _look(plans: Mapping[str, LanguagePlan]) -> Iterator[Found]:
    from modenc.data.look import look_into
    from modenc.recipe.presence import missing_base

    for model in {plan.base.model for plan in plans.values()}:
        for issue in missing_base(model):
            yield None, issue
    yield from look_into(plans)


def _accepting_late_overrides(parse: Parse) -> Parse:
    """``parse`` that also takes the words behind an option, which argparse gives back as unknown."""

    def parse_all(
        words: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        found, unknown = parse(words, namespace)
        late = [word for word in unknown if "=" in word and not word.startswith("-")]
        found.overrides = [*found.overrides, *late]
        return found, [word for word in unknown if word not in late]

    return parse_all
