"""A recipe's sources, and which of them ``data.licenses`` lets it train on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from modenc.provenance import read_record, with_new_keys
from modenc.recipe.data_settings import ROLES, TRAINED_ON, DataSettings, Source
from modenc.recipe.issues import Issue, Place
from modenc.recipe.settings import FRESH, LanguagePlan

# Before a list of several, as in "mixed: CC-BY-4.0, MIT".
_MIXED = re.compile(r"^\s*mixed\s*:\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)


def is_allowed(license_: str, licenses: Sequence[str]) -> bool:
    """Whether texts under ``license_`` may be trained on; every part of ``mixed: A, B`` must be on the list.

    Upper and lower case, spaces and hyphens make no difference. An empty list allows everything.
    """
    if not licenses:
        return True
    parts = _parts(license_)
    return bool(parts) and parts.keys() <= set(map(_key, licenses))


def joint_license(licenses: Sequence[str]) -> str:
    """The license of several files: ``mixed: A, B`` where they differ, empty where one states none."""
    if not all(licenses):
        return ""
    if len(set(map(_key, licenses))) <= 1:
        return licenses[0] if licenses else ""
    parts: dict[str, str] = {}
    for license_ in licenses:
        parts = {**parts, **_parts(license_), **parts}
    return f"mixed: {', '.join(parts.values())}"


def _parts(license_: str) -> dict[str, str]:
    return {_key(part): part for part in _BETWEEN.split(_MIXED.sub("", license_)) if part}


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())


def sources(plan: LanguagePlan, *, all_licenses: bool = False) -> Iterator[tuple[Place, str, Source]]:
    """Every source of a language with its place in the recipe and the list it is in.

    Those that ``data.licenses`` leaves out are left out here too, unless ``all_licenses``.
    """
    for role in ROLES:
        trained_on = role in TRAINED_ON
        section: Any = plan.data if trained_on else plan.data.dev
        where: Place = ("data", role) if trained_on else ("data", "dev", role)
        for position, source in enumerate(getattr(section, role)):
            if all_licenses or not trained_on or is_allowed(source.license, plan.data.licenses):
                yield (*where, position), role, source


def fill(text: str, plan: LanguagePlan) -> str:
    """``text`` with ``{lang}`` and ``{pivot}`` filled in."""
    return text.replace("{lang}", plan.lang).replace("{pivot}", plan.pivot)


def allowed_data(data: DataSettings) -> DataSettings:
    """``data`` without the sources that its ``licenses`` does not allow; development sets stay."""
    kept: dict[str, Any] = {
        role: tuple(source for source in getattr(data, role) if is_allowed(source.license, data.licenses))
        for role in TRAINED_ON
    }
    return replace(data, **kept)


def with_records(plan: LanguagePlan) -> DataSettings:
    """``plan.data`` with the licenses and translators that it does not state and the records of its files do.

    ``modenc translate`` writes these. Development sets stay as they are: no card states theirs.
    """
    changes: dict[str, Any] = {
        role: tuple(_with_record(source, plan) for source in getattr(plan.data, role)) for role in TRAINED_ON
    }
    return replace(plan.data, **changes)


def _with_record(source: Source, plan: LanguagePlan) -> Source:
    if source.path is None or (source.license and source.translator):
        return source
    paths = [path for path in (source.path, source.pivot_path) if path is not None]
    found = [read_record(plan.data.root / os.path.expanduser(fill(path, plan))) for path in paths]
    # A side without one is as a rule the text that the other was translated from.
    records = [record for record in found if record is not None]
    return replace(
        source,
        license=source.license or joint_license([record.license for record in records]),
        translator=source.translator or "; ".join(dict.fromkeys(record.translator for record in records)),
    )


def unstated_licenses(plan: LanguagePlan) -> Iterator[Issue]:
    """Sources without a license, where ``data.licenses`` asks for one."""
    for path, role, source in sources(plan, all_licenses=True) if plan.data.licenses else ():
        if role in TRAINED_ON and not source.license.strip():
            message = "expected a license, since data.licenses is set, found none; state the source's"
            yield Issue((*path, "license"), message, (("data", "licenses"),))


def inherited_licenses(
    plan: LanguagePlan, plans: Mapping[str, LanguagePlan], hubs: Sequence[Path]
) -> Iterator[Issue]:
    """Licenses, not on the list or not stated, of modules in ``hubs`` that a language builds on."""
    if not plan.data.licenses:
        return
    for lang, place in builds_on(plan).items():
        found = _licenses_of(lang, plans, hubs)
        modules, reads = f"the modules of {lang!r} were trained on texts", (("data", "licenses"),)
        if not all(name.strip() for name in found):
            message = (
                f"{modules} that state no license, and data.licenses asks for one; build on other modules, "
                "or state the license and train them again"
            )
            yield Issue(place, message, reads)
        if wrong := [name for name in found if name.strip() and not is_allowed(name, plan.data.licenses)]:
            message = (
                f"{modules} under {', '.join(dict.fromkeys(wrong))}, which data.licenses does not have; "
                "build on other modules, or add these licenses"
            )
            yield Issue(place, message, reads)


def builds_on(plan: LanguagePlan) -> dict[str, Place]:
    """The languages whose modules a language's training begins with or learns from, and what says so."""
    languages: dict[str, Place] = {}
    if plan.sentence_encoding.start != FRESH:
        languages[plan.sentence_encoding.start] = ("sentence_encoding", "start")
    if plan.alignment.objective != "none" and plan.lang != plan.pivot:
        languages.setdefault(plan.pivot, ("pivot",))
    return languages


def _licenses_of(lang: str, plans: Mapping[str, LanguagePlan], hubs: Sequence[Path]) -> list[str]:
    if lang in plans:
        kept = allowed_data(plans[lang].data)
        return [source.license for role in TRAINED_ON for source in getattr(kept, role)]
    for hub in hubs:
        try:
            card = with_new_keys(json.loads((hub / lang / "card.json").read_text(encoding="utf-8")))
            # Of sources that state none, ``licenses`` has no entry.
            sources = [with_new_keys(source) for source in card.get("data", ())]
            return [str(name) for name in (*card["licenses"], *(source["license"] for source in sources))]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # reported where the hub is asked for the language
    return []
