"""``modenc show``: what a language's modules are and were trained on."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from modenc.cli.ls import megabytes, modules_present, table

if TYPE_CHECKING:
    from modenc.hub.card import Card


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the verb to the command line."""
    parser = subparsers.add_parser(
        "show",
        help=summary,
        description="Print the card of a language: base, recipe, stages with settings, scores, data.",
        epilog="examples:\n"
        "  modenc show adapters_hub/me5-small kk\n"
        "  modenc show adapters_hub/me5-small kk --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("hub", metavar="HUB", help="hub folder")
    parser.add_argument("lang", metavar="LANG", help="language code (kk, kaz, kaz_Cyrl)")
    parser.add_argument("--json", action="store_true", help="print card.json itself")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the card."""
    from modenc.hub.store import Hub

    hub = Hub.open(args.hub)
    card = hub.card(args.lang)
    if args.json:
        sys.stdout.write(card.to_json())
        return 0
    role = " (pivot)" if card.lang == hub.info.pivot else ""
    facts = [
        ("language", f"{card.name} ({card.lang}){role}"),
        ("modules", f"{modules_present(hub, card.lang)}, {megabytes(card)} MB"),
        ("base", f"{card.base_id} ({card.base_fingerprint})"),
        ("recipe", f"{card.recipe} ({card.recipe_hash}), seed {card.seed}, {card.created}"),
        ("licences", ", ".join(card.licences) or "not stated"),
        ("versions", ", ".join(f"{name} {version}" for name, version in card.versions.items())),
    ]
    sys.stdout.write(table(facts))
    for title, rows in sections(card).items():
        if rows:
            sys.stdout.write(f"\n{title}\n{table(rows)}")
    return 0


def sections(card: Card) -> dict[str, list[tuple[str, ...]]]:
    """Title → rows of cells, indented."""
    from modenc.hub.comparison import table_of

    stages: list[tuple[str, ...]] = [
        (f"  {stage}", key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for stage, record in card.stages.items()
        for key, value in record.items()
    ]
    return {
        "compared with the base alone": [(f"  {row[0]}", *row[1:]) for row in table_of(card.comparison)],
        "stages": stages,
        "scores": [(f"  {metric}", f"{value:.2f}") for metric, value in card.scores.items()],
        "data": [
            (f"  {row.get('role', '')}", f"{row.get('rows', '')} rows", *_source(row)) for row in card.data
        ],
        "files": [(f"  {name}", f"{record['bytes']} bytes") for name, record in card.files.items()],
    }


def _source(row: dict[str, Any]) -> tuple[str, ...]:
    stated = str(row.get("source", "")), str(row.get("licence", "")) or "licence not stated"
    return (*stated, f"translated by {row['translator']}") if row.get("translator") else stated
