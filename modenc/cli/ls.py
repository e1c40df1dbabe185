"""``modenc ls``: the languages of a hub."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modenc.hub.card import Card
    from modenc.hub.store import Hub

_HEADER = ("code", "language", "modules", "MB", "scores", "licence")
_PARTS = {"embeddings": "vocabulary", "la": "LA", "se": "SE", "cla": "CLA"}
_AFTER = "_dev_after_"


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "ls",
        help=summary,
        description="One language a line, the pivot first: its modules, their size on disk, the scores on "
        "the development set after the last stage that was scored, and licences.",
        epilog="examples:\n  modenc ls adapters_hub/me5-small",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("hub", metavar="HUB", help="hub folder")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from modenc.hub.store import Hub

    hub = Hub.open(args.hub)
    info = hub.info
    sys.stdout.write(f"{hub.path}: base {info.base_id} ({info.base_fingerprint}), pivot {info.pivot}\n")
    rows = [_row(hub, lang) for lang in hub.languages()]
    if rows:
        sys.stdout.write(table([_HEADER, *rows]))
    else:
        sys.stdout.write("no languages yet: train some (modenc train) or copy some in (modenc install)\n")
    return 0


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines with aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def modules_present(hub: Hub, lang: str) -> str:
    """The modules a language has on disk, as people call them."""
    return " ".join(_PARTS[part] for part in hub.layout(lang).present() if part in _PARTS)


def megabytes(card: Card) -> str:
    """Size of a language's files, in millions of bytes."""
    return f"{sum(record['bytes'] for record in card.files.values()) / 1e6:.1f}"


def _row(hub: Hub, lang: str) -> tuple[str, ...]:
    from modenc.errors import ModencError

    try:
        card = hub.card(lang)
        modules = modules_present(hub, lang)
    except ModencError:
        # One damaged language must not hide the others.
        return lang, "", "damaged: see modenc verify", "", "", ""
    return lang, card.name, modules, megabytes(card), _headline(card), ", ".join(card.licences)


def _headline(card: Card) -> str:
    """Each metric's value after the last stage that was scored; of other names the first three."""
    last = {key.split(_AFTER)[1]: value for key, value in card.scores.items() if _AFTER in key}
    chosen = last or dict(list(card.scores.items())[:3])
    return ", ".join(f"{metric} {value:.1f}" for metric, value in chosen.items())
