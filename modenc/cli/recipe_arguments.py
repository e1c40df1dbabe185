"""The arguments of every verb that reads a recipe: its name and ``key=value`` overrides."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

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
