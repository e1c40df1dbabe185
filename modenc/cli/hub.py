"""``modenc hub``: list, check and change the languages of a hub."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from modenc.cli.arguments import (
    add_command,
    add_hub,
    add_noun,
    add_option,
    add_shared,
    open_hub,
    table,
    write,
)
from modenc.errors import ModencError, OptionError
from modenc.hub import remote
from modenc.hub.card import AVERAGED, BASE, MODULES, Card, table_of
from modenc.hub.layout import CARD_FILE, HUB_FILE, STAGE_MODULES
from modenc.hub.push import push_hub
from modenc.hub.store import Hub
from modenc.languages import language_name
from modenc.recipe.settings import summarize

_HEADER = ("code", "language", "modules", "MB", "commercial use")
# Metric of a card's comparison → its column.
_COMPARED = {
    "sts": "similarity",
    "search": "search",
    "cross_sts": "across",
    "cross_search": "search across",
    "retrieval": "translations",
}
_LEGEND = (
    "scores: bare base → modules, on held-out data. "
    "LA: language adaptation, SE: sentence encoding, CLA: alignment\n"
)


def add_commands(commands: Any) -> None:
    """Add the noun and its commands."""
    verbs = add_noun(commands, "hub", "list, show, check, install, import, remove and push a hub's languages")
    parser = add_command(verbs, "list", run_list)
    add_hub(parser)
    add_shared(parser, "--json")

    parser = add_command(verbs, "show", run_show)
    add_hub(parser)
    add_shared(parser, "--lang", required=True)
    add_shared(parser, "--json", help="print card.json")

    parser = add_command(verbs, "check", run_check)
    add_hub(parser)
    add_shared(parser, "--lang", action="append", help="check only this language; may be repeated")

    parser = add_command(verbs, "install", run_install)
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="folder of one language, a hub's folder, or a hub's id on Hugging Face",
    )
    add_shared(parser, "--hub", help="hub folder to copy into; if there is none, a hub's settings are copied")
    text = "language to copy; may be repeated (default: all)"
    add_shared(parser, "--lang", action="append", help=text)
    add_shared(parser, "--revision")

    parser = add_command(verbs, "import", run_import)
    add_shared(parser, "--hub", help="hub folder to install into")
    add_shared(parser, "--lang", required=True)
    add_option(parser, "--se", "DIR", "sentence-encoding adapter: a LoRA saved by peft", required=True)
    add_option(parser, "--la", "DIR", "language adapter used while --se was trained: a LoRA saved by peft")
    add_option(parser, "--cla", "DIR", "alignment adapter: a parallel adapter saved by the library adapters")
    text = "license of the adapters, for the language's card"
    add_option(parser, "--license", "NAME", text, required=True)
    text = "origin of the adapters, for the language's card (default: the folders' names)"
    add_option(parser, "--source", "TEXT", text, default="")
    add_shared(parser, "--force", help="import adapters whose config names another base, or none")

    parser = add_command(verbs, "remove", run_remove)
    add_shared(parser, "--hub")
    add_shared(parser, "--lang", action="append", required=True, help="language code; may be repeated")

    parser = add_command(verbs, "push", run_push)
    add_shared(parser, "--hub")
    add_option(
        parser, "--repo", "ID", "repository (organization/name); created if there is none", required=True
    )
    add_shared(parser, "--lang", action="append", help="push only this language; may be repeated")
    add_option(parser, "--private", None, "create the repository as private")
    add_shared(
        parser, "--revision", metavar="BRANCH", help="branch; created if there is none (default: main)"
    )
    add_option(parser, "--message", "TEXT", "commit message (default: Add and the languages' codes)")


def run_list(args: argparse.Namespace) -> None:
    """List the languages of a hub.

    Prints a line for each language, the pivot first: its modules, their size on disk, and how they compare
    with the bare base on held-out data (similarity within the language and across to the pivot: Spearman x
    100; search: nDCG@10 x 100, across with the pivot's questions; translations: % found). LA, SE and CLA
    are the adapters of language adaptation, sentence encoding and alignment. Commercial use: yes, if the
    licenses of all texts that the modules learned from are known to allow it; no, if one does not; else
    unknown. For licenses see modenc hub show.

    Examples:
        modenc hub list --hub adapters_hub/me5-small
    """
    hub = open_hub(args)
    info = hub.info
    languages = [_summary(hub, lang) for lang in hub.languages()]
    text = f"{hub.name}: base {info.base_id} ({info.base_fingerprint[:12]}), pivot {info.pivot}\n"
    if languages:
        compared = [metric for metric in _COMPARED if any(metric in _base(item) for item in languages)]
        header = (*_HEADER, *(_COMPARED[metric] for metric in compared))
        text += table([header, *(_row(item, compared) for item in languages)])
        text += _LEGEND if compared else ""
    else:
        text += "no languages yet; add some with modenc train or modenc hub install\n"
    base = {"id": info.base_id, "fingerprint": info.base_fingerprint}
    write(args, {"hub": hub.name, "base": base, "pivot": info.pivot, "languages": languages}, text)


def _summary(hub: Hub, lang: str) -> dict[str, Any]:
    try:
        card = hub.card(lang)
        return {
            "code": lang,
            "name": card.name,
            "modules": _modules(card),
            "bytes": card.nbytes,
            "comparison": card.comparison,
            "licenses": list(card.licenses),
            "commercial_use": card.commercial_use,
        }
    except ModencError as error:  # one damaged language must not hide the others
        return {"code": lang, "error": str(error)}


def _base(summary: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the bare base's values of a language's comparison; empty without any."""
    found: Mapping[str, float] = summary.get("comparison", {}).get(BASE, {})
    return found


def _row(summary: Mapping[str, Any], compared: Sequence[str]) -> tuple[str, ...]:
    if "error" in summary:
        return summary["code"], "", "damaged: see modenc hub check"
    size, use = f"{summary['bytes'] / 1e6:.1f}", summary["commercial_use"]
    base, own = _base(summary), summary["comparison"].get(MODULES, {})
    pairs = [
        f"{base[name]:.1f} → {own[name]:.1f}" if name in base and name in own else "" for name in compared
    ]
    return summary["code"], summary["name"], " ".join(summary["modules"]), size, use, *pairs


def _modules(card: Card) -> list[str]:
    return [module.short for module in STAGE_MODULES.values() if set(card.parts).issuperset(module.parts)]


def run_show(args: argparse.Namespace) -> None:
    """Show what a language's modules are and how they were trained.

    Prints licenses, base, stages, the comparison with the base, and how much data of each kind was read, as
    the language's card states them. This includes the data of adapters that training started from. For
    everything on the card, such as each source, all settings and checksums, use --json.

    Examples:
        modenc hub show --hub adapters_hub/me5-small --lang kk
    """
    hub = open_hub(args)
    card = hub.card(args.lang)
    if args.json:
        sys.stdout.write(card.to_json())
        return
    role = ", pivot" if card.lang == hub.info.pivot else ""
    licenses = card.licenses or ["not stated"]
    facts = [
        ("language", f"{card.name} ({card.lang}){role}"),
        ("base", card.base_id),
        ("modules", f"{' '.join(_modules(card))}, {card.nbytes / 1e6:.1f} MB"),
        ("trained", f"{card.created}, recipe {card.recipe}, seed {card.seed}")
        if card.recipe
        else ("imported", f"{card.created}, trained by others"),
        ("commercial use", card.commercial_use),
        *zip(["licenses", *[""] * len(licenses)], licenses, strict=False),
    ]
    sys.stdout.write(table(facts))
    stages = [_STAGE_HEADER, *(_stage_row(*item) for item in card.stages.items())]
    data = [("kind", "sources", "rows"), *_data_rows(card.data)]
    for title, rows in (
        ("stages", stages),
        ("compared with the base alone", table_of(card.comparison)),
        ("data, that of adapters it started from included", data),
    ):
        if len(rows) > 1:
            sys.stdout.write(f"\n{title}\n{indent(table(rows), '  ')}")


_STAGE_HEADER = ("stage", "method", "steps", "batch", "learning rate", "tokens", "strength")


def _stage_row(stage: str, record: Mapping[str, Any]) -> tuple[str, ...]:
    if "imported from" in record:
        return stage, f"imported from {record['imported from']}"
    settings, metrics = _mapping(record, "settings"), _mapping(record, "metrics")
    method = f"{summarize(settings)}, averaged" if AVERAGED in metrics else summarize(settings)
    if (steps := metrics.get("steps")) is None:
        return stage, method
    optimizer = _mapping(settings, "optimizer")
    found = (optimizer.get("batch_size"), optimizer.get("learning_rate"), settings.get("max_length"))
    values = (steps, *found, settings.get("strength"))
    return stage, method, *("" if value is None else f"{value}" for value in values)


def _mapping(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a mapping of a card; empty without one, since cards come from anyone."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _data_rows(sources: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each kind of data: how many sources and rows it has."""
    kinds: dict[str, list[int]] = {}
    for source in sources:
        rows = source.get("rows")
        kinds.setdefault(str(source.get("role") or ""), []).append(rows if isinstance(rows, int) else 0)
    for kind, counts in kinds.items():
        yield kind, str(len(counts)), f"{sum(counts):,}" if any(counts) else ""


def run_check(args: argparse.Namespace) -> int:
    """Check a hub's files.

    Recomputes all checksums, and checks that all modules fit each other and the base.

    Examples:
        modenc hub check --hub adapters_hub/me5-small
        modenc hub check --hub adapters_hub/me5-small --lang kk --lang en

    exit code: 0 no issues, 1 issues (one a line), 2 no such hub or language
    """
    hub = open_hub(args)
    issues = [issue for lang in args.lang or [None] for issue in hub.verify(lang)]
    codes = [hub.card(lang).lang for lang in args.lang] if args.lang and not issues else hub.languages()
    for issue in issues:
        sys.stdout.write(f"{issue}\n")
    if issues:
        sys.stdout.write("install or train the damaged languages again\n")
    else:
        sys.stdout.write(f"{hub.name}: no issues ({', '.join(codes) or 'no languages'})\n")
    return 1 if issues else 0


def run_install(args: argparse.Namespace) -> None:
    """Copy languages' modules into a hub.

    Copies a language's folder, or languages of a hub, also of one on Hugging Face. Both hubs must have the
    same base. All languages are fetched and their files checked before anything is changed. Existing modules
    of a language are replaced.

    Examples:
        modenc hub install downloads/kk --hub adapters_hub/me5-small
        modenc hub install other_hub --hub adapters_hub/me5-small --lang kk --lang ky
        modenc hub install organization/name --hub my_hub --revision v1
    """
    if args.revision is None and Path(args.source, CARD_FILE).is_file():
        hub = Hub.open(args.hub)
        cards = [hub.install(args.source, lang) for lang in args.lang or [None]]
    else:
        source = remote.open_hub(args.source, revision=args.revision)
        if source.path.resolve() == Path(args.hub).resolve():
            raise OptionError(f"--hub {args.hub}: expected another hub than the source; give another folder")
        langs = args.lang or source.languages()
        for lang in langs:  # an error is raised before anything is copied
            source.read(lang)
        there = Path(args.hub, HUB_FILE).exists()
        hub = Hub.open(args.hub) if there else Hub.create(args.hub, source.info)
        cards = [hub.install(source.path, lang) for lang in langs]
    for card in cards:
        sys.stdout.write(f"installed {card.name} ({card.lang}) in {hub.path}: {len(card.files)} files\n")
    if (pivot := hub.info.pivot) not in hub.languages():
        warnings.warn(
            f"{hub.path} lacks {language_name(pivot)} ({pivot}), the pivot that the others are aligned with; "
            "install it, too",
            stacklevel=1,
        )


def run_import(args: argparse.Namespace) -> None:
    """Install third-party adapters as a language.

    The adapters must have been trained on the hub's base, with its prompt and pooling. They are LoRAs saved
    by peft, or parallel adapters saved by the library adapters, in safetensors. Base, shapes, layers and type
    are checked first. Existing modules of the language are replaced.

    Examples:
        modenc hub import --hub my_hub --lang sw --se my_lora --license MIT --source https://example.org/my_lora
        modenc hub import --hub my_hub --lang sw --se se --la la --cla cla --license CC-BY-4.0
    """
    from modenc.composition.importing import import_language

    names = ("se", "la", "cla", "license", "source", "force")
    hub = Hub.open(args.hub)
    card = import_language(hub, args.lang, **{name: getattr(args, name) for name in names})
    sys.stdout.write(f"imported {card.name} ({card.lang}) into {hub.path}: {len(card.files)} files\n")


def run_remove(args: argparse.Namespace) -> None:
    """Remove languages from a hub.

    Deletes their modules without asking for confirmation. Other languages are not changed.

    Examples:
        modenc hub remove --hub adapters_hub/me5-small --lang kk
    """
    hub = Hub.open(args.hub)
    folders = [hub.folder(lang) for lang in args.lang]  # an error is raised before anything is removed
    for code in dict.fromkeys(folder.name for folder in folders):
        hub.remove(code)
        sys.stdout.write(f"removed {language_name(code)} ({code}) from {hub.path}\n")


def run_push(args: argparse.Namespace) -> None:
    """Upload a hub to Hugging Face.

    Checks the hub, then uploads languages, cards and the README in one commit. Languages that are only in the
    repository stay there. The token is taken from HF_TOKEN or hf auth login.

    Examples:
        modenc hub push --hub adapters_hub/me5-small --repo organization/name
        modenc hub push --hub my_hub --repo organization/name --lang sv --private --message "Swedish"
    """
    options = {"private": args.private or None, "revision": args.revision, "message": args.message}
    address = push_hub(Hub.open(args.hub), args.repo, languages=args.lang, **options)
    sys.stdout.write(f"pushed {args.hub} to {args.repo}: {address}\n")
