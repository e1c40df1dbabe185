"""Check of a whole hub: its files against their cards and the base, and nothing else in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from modenc.errors import HubError, LanguageError
from modenc.hub.checks import PICKLES, HubIssue
from modenc.hub.files import files_below, read_text
from modenc.hub.layout import CARD_FILE, POOLING_FOLDER, HubInfo, sentence_transformers_files
from modenc.hub.store import Hub, read_language
from modenc.languages import normalize_code


def verify_hub(hub: Hub, lang: str | None = None) -> list[HubIssue]:
    """Recompute all checksums and check all parts of a hub, or of one language; returns the issues found.

    Raises:
        HubError: the hub lacks the language ``lang``.
    """
    issues: list[HubIssue] = []
    if lang is not None:
        hub.folder(lang)
    else:
        issues += _root_issues(hub.path, hub.languages())
        issues += _sentence_transformers_issues(hub.path, hub.info)
    for code in hub.languages() if lang is None else [normalize_code(lang)]:
        try:
            layout, card = hub.layout(code), hub.card(code)
        except (HubError, LanguageError) as error:
            issues.append(HubIssue(CARD_FILE, str(error), code))
            continue
        _, found = read_language(layout, card, hub.info, code)
        issues += [replace(issue, lang=code) for issue in found]
    return issues


def _root_issues(root: Path, languages: list[str]) -> Iterator[HubIssue]:
    """Yield an issue for each file in the hub's own folder that does not belong there."""
    for path in sorted(root.iterdir()):
        name = path.name
        if name in languages:
            continue
        yield from _code_in(path, name)
        if name == "adapter_config.json":
            yield HubIssue(name, "sentence-transformers would take the hub for a peft adapter; delete it")
        # Other programs keep hidden files here, such as a download cache.
        elif path.is_dir() and not name.startswith(".") and name != POOLING_FOLDER:
            message = f"expected a language's folder, found one without {CARD_FILE}, or not named by a code"
            yield HubIssue(name, f"{message} such as kk; rename or delete it")


def _code_in(path: Path, name: str) -> Iterator[HubIssue]:
    """Yield an issue for each file that can run code: ``path`` or files below it; links are not followed."""
    files = [(name, path)]
    if path.is_dir() and not path.is_symlink():
        try:
            files = [(f"{name}/{below}", file) for below, file in files_below(path)]
        except HubError as error:
            yield HubIssue(name, str(error))
            return
    for found, file in files:
        if file.suffix.lower() in PICKLES:
            yield HubIssue(found, "found a format that can run code; delete it")


def _sentence_transformers_issues(root: Path, info: HubInfo) -> Iterator[HubIssue]:
    """Yield an issue for each file for sentence-transformers that differs from the one modenc writes."""
    for name, text in sentence_transformers_files(info).items():
        try:
            found = read_text(root / name)
        except HubError as error:
            yield HubIssue(name, str(error))
        else:
            if found != text:
                yield HubIssue(name, "expected the file as modenc writes it, found another; restore it")
