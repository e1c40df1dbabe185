"""Check of a whole hub: its files against their cards and the base."""

from __future__ import annotations

from dataclasses import replace

from modenc.errors import HubError, LanguageError
from modenc.hub.checks.folder import HubIssue
from modenc.hub.checks.root import root_issues
from modenc.hub.layout import CARD_FILE
from modenc.hub.reader import read_language
from modenc.hub.st_files import sentence_transformers_issues
from modenc.hub.store import Hub
from modenc.languages import normalize_code


def verify_hub(hub: Hub, lang: str | None = None) -> list[HubIssue]:
    """Recompute all checksums and check all parts; returns the issues found.

    Args:
        hub: the hub.
        lang: language to check; ``None``: the whole hub.

    Raises:
        HubError: the hub lacks the language ``lang``.
    """
    issues: list[HubIssue] = []
    if lang is not None:
        hub.layout(lang)
    else:
        issues += root_issues(hub.path, hub.languages())
        issues += sentence_transformers_issues(hub.path, hub.info)
    for code in hub.languages() if lang is None else [normalize_code(lang)]:
        try:
            layout, card = hub.layout(code), hub.card(code)
        except (HubError, LanguageError) as error:
            issues.append(HubIssue(CARD_FILE, str(error), code))
            continue
        _, found = read_language(layout, card, hub.info, code)
        issues += [replace(issue, lang=code) for issue in found]
    return issues
