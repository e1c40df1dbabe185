"""Check of a whole hub: its files against their cards and the base."""

from __future__ import annotations

from dataclasses import replace

from modenc.errors import HubError
from modenc.hub.checks import HubIssue
from modenc.hub.layout import CARD_FILE
from modenc.hub.reading import read_language
from modenc.hub.store import Hub
from modenc.languages import normalize_code


def verify_hub(hub: Hub, lang: str | None = None) -> list[HubIssue]:
    """Recompute all checksums and check all parts of a hub, or of one language; returns the issues found.

    Raises:
        HubError: the hub lacks the language ``lang``.
    """
    if lang is not None:
        hub.folder(lang)
    issues: list[HubIssue] = []
    for code in hub.languages() if lang is None else [normalize_code(lang)]:
        try:
            layout, card = hub.layout(code), hub.card(code)
        except HubError as error:
            issues.append(HubIssue(CARD_FILE, str(error), code))
            continue
        _, found = read_language(layout, card, hub.info, code)
        issues += [replace(issue, lang=code) for issue in found]
    return issues
