"""What ``data.licenses`` leaves out, and what it cannot be held to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from modenc.recipe.conflicts import Conflict, sources
from modenc.recipe.faults import Place
from modenc.recipe.licenses import TRAINED_ON, allowed_data, is_allowed
from modenc.recipe.settings import FRESH, LanguagePlan, Source


def unstated(plan: LanguagePlan) -> Iterator[Conflict]:
    """Sources without a license, where ``data.licenses`` asks for one."""
    if not plan.data.licenses:
        return
    for path, role, source in sources(plan, all_licenses=True):
        if role in TRAINED_ON and not source.licence.strip():
            message = "expected a license, since data.licenses is set, found none; state the source's"
            yield Conflict((*path, "licence"), message, (("data", "licenses"),))


def left_out(plan: LanguagePlan) -> Iterator[tuple[Place, Source]]:
    """The sources that ``data.licenses`` does not allow, each with its place."""
    for path, role, source in sources(plan, all_licenses=True):
        if role in TRAINED_ON and not is_allowed(source.licence, plan.data.licenses):
            yield path, source


def inherited(
    plan: LanguagePlan, plans: Mapping[str, LanguagePlan], hubs: Sequence[Path]
) -> Iterator[Conflict]:
    """Licenses that are not on the list, or not stated, and come with the modules that a language builds on.

    Args:
        plan: the language's plan.
        plans: the plans of all the recipe's languages.
        hubs: folders that other languages' modules are taken from, in this order.
    """
    if not plan.data.licenses:
        return
    needed: dict[str, Place] = {plan.sentence_encoding.start: ("sentence_encoding", "start")}
    if plan.alignment.objective != "none" and plan.lang != plan.pivot:
        needed.setdefault(plan.pivot, ("pivot",))
    for lang, place in needed.items():
        found = _licenses_of(lang, plans, hubs) if lang != FRESH else []
        if not all(name.strip() for name in found):
            message = (
                f"the modules of {lang!r} were trained on texts that state no license, and data.licenses "
                "asks for one; build on other modules, or state the license and train them again"
            )
            yield Conflict(place, message, (("data", "licenses"),))
        if wrong := [name for name in found if name.strip() and not is_allowed(name, plan.data.licenses)]:
            names = ", ".join(dict.fromkeys(wrong))
            message = (
                f"the modules of {lang!r} were trained on texts under {names}, which "
                "data.licenses does not have; build on other modules, or add these licenses"
            )
            yield Conflict(place, message, (("data", "licenses"),))


def _licenses_of(lang: str, plans: Mapping[str, LanguagePlan], hubs: Sequence[Path]) -> list[str]:
    if lang in plans:
        kept = allowed_data(plans[lang].data)
        return [source.licence for role in TRAINED_ON for source in getattr(kept, role)]
    for hub in hubs:
        try:
            card = json.loads((hub / lang / "card.json").read_text(encoding="utf-8"))
            # Of sources that state none, ``licences`` has no entry.
            names = [*card["licences"], *(source["licence"] for source in card.get("data", ()))]
            return [str(name) for name in names]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # said where the hub is asked for the language
    return []
