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
from modenc.recipe.data_settings import COLUMN_ROLES, TRAINED_ON, DataSettings, Source
from modenc.recipe.issues import Issue, Place, dotted
from modenc.recipe.settings import FRESH, LanguagePlan

# The prefix of several licenses, as in "mixed: CC-BY-4.0, MIT".
_MIXED = re.compile(r"^\s*mixed\s*:\s*", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)


def is_allowed(license_: str, licenses: Sequence[str]) -> bool:
    """Check whether texts under ``license_`` may be trained on; for ``mixed: A, B`` both must be listed.

    Case, spaces and hyphens make no difference. An empty list allows everything.
    """
    if not licenses:
        return True
    allowed = set(map(_key, licenses))
    names = _names(license_)
    # One license's own name may have "and" or a comma in it.
    return _key(license_) in allowed or (bool(names) and names.keys() <= allowed)


def joint_license(licenses: Sequence[str]) -> str:
    """Join the licenses of several files: ``mixed: A, B`` if they differ, empty if one is not stated."""
    if not all(licenses):
        return ""
    if len(set(map(_key, licenses))) <= 1:
        return licenses[0] if licenses else ""
    names: dict[str, str] = {}
    for license_ in licenses:
        names = {**names, **_names(license_), **names}
    return f"mixed: {', '.join(names.values())}"


def _names(license_: str) -> dict[str, str]:
    return {_key(name): name for name in _BETWEEN.split(_MIXED.sub("", license_)) if name}


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().casefold())


def sources(plan: LanguagePlan, *, all_licenses: bool = False) -> Iterator[tuple[Place, str, Source]]:
    """Yield every source of a language, after its place in the recipe and its kind of data.

    Sources that ``data.licenses`` does not allow are left out, unless ``all_licenses``.
    """
    for kind in COLUMN_ROLES:
        trained_on = kind in TRAINED_ON
        section: Any = plan.data if trained_on else plan.data.dev
        where: Place = ("data", kind) if trained_on else ("data", "dev", kind)
        for position, source in enumerate(getattr(section, kind)):
            if all_licenses or not trained_on or is_allowed(source.license, plan.data.licenses):
                yield (*where, position), kind, source


def fill(text: str, plan: LanguagePlan) -> str:
    """Fill in ``{lang}`` and ``{pivot}``."""
    return text.replace("{lang}", plan.lang).replace("{pivot}", plan.pivot)


def allowed_data(data: DataSettings) -> DataSettings:
    """Remove the sources that ``licenses`` does not allow; development sets stay."""
    kept: dict[str, Any] = {
        kind: tuple(source for source in getattr(data, kind) if is_allowed(source.license, data.licenses))
        for kind in TRAINED_ON
    }
    return replace(data, **kept)


def with_records(plan: LanguagePlan) -> DataSettings:
    """Fill in licenses and translators that are not stated from the files' records.

    ``modenc translate`` writes the records. Development sets stay as they are, since cards do not name them.
    """
    changes: dict[str, Any] = {
        kind: tuple(_with_record(source, plan) for source in getattr(plan.data, kind)) for kind in TRAINED_ON
    }
    return replace(plan.data, **changes)


def _with_record(source: Source, plan: LanguagePlan) -> Source:
    if source.path is None or (source.license and source.translator):
        return source
    paths = [path for path in (source.path, source.pivot_path) if path is not None]
    found = [read_record(plan.data.root / os.path.expanduser(fill(path, plan))) for path in paths]
    # A file without a record usually has the texts that the other was translated from.
    records = [record for record in found if record is not None]
    return replace(
        source,
        license=source.license or joint_license([record.license for record in records]),
        translator=source.translator or "; ".join(dict.fromkeys(record.translator for record in records)),
    )


def unstated_licenses(plan: LanguagePlan) -> Iterator[Issue]:
    """Yield sources that state no license although ``data.licenses`` is set."""
    for path, kind, source in sources(plan, all_licenses=True) if plan.data.licenses else ():
        if kind in TRAINED_ON and not source.license.strip():
            message = "expected a license, since data.licenses is set, found none; state the source's"
            yield Issue((*path, "license"), message, (("data", "licenses"),))


def inherited_licenses(
    plan: LanguagePlan, trained: Mapping[str, LanguagePlan], hubs: Sequence[Path]
) -> Iterator[Issue]:
    """Yield modules that a language builds on and whose licenses are not stated or not allowed.

    ``trained`` has the plans of the languages that are trained before it; others are in one of ``hubs``.
    """
    if not plan.data.licenses:
        return
    for lang, place in builds_on(plan).items():
        found = list(_licenses_of(lang, trained, hubs, (plan.lang,)))
        modules, depends_on = f"the modules of {lang!r} were trained on texts", (("data", "licenses"),)
        if not all(name.strip() for name in found):
            message = (
                f"{modules} that state no license, and data.licenses asks for one; build on other modules, "
                "or state the license and train them again"
            )
            yield Issue(place, message, depends_on)
        if wrong := [name for name in found if name.strip() and not is_allowed(name, plan.data.licenses)]:
            message = (
                f"{modules} under {', '.join(dict.fromkeys(wrong))}, which data.licenses does not have; "
                "build on other modules, or add these licenses"
            )
            yield Issue(place, message, depends_on)


def builds_on(plan: LanguagePlan) -> dict[str, Place]:
    """Map the languages whose modules a language starts or learns from to the setting that names them."""
    languages: dict[str, Place] = {}
    if plan.sentence_encoding.start != FRESH:
        languages[plan.sentence_encoding.start] = ("sentence_encoding", "start")
    if plan.alignment.objective != "none" and plan.lang != plan.pivot:
        languages.setdefault(plan.pivot, ("pivot",))
    return languages


def _licenses_of(
    lang: str, trained: Mapping[str, LanguagePlan], hubs: Sequence[Path], before: tuple[str, ...]
) -> Iterator[str]:
    """Yield the licenses of a language's modules, and of the modules that these build on."""
    if lang in before:
        return  # languages that wait for each other are reported when they are put in order
    if lang not in trained:
        yield from _licenses_in_card(lang, hubs)
        return
    yield from (source.license for _, kind, source in sources(trained[lang]) if kind in TRAINED_ON)
    for other in builds_on(trained[lang]):
        yield from _licenses_of(other, trained, hubs, (*before, lang))


def _licenses_in_card(lang: str, hubs: Sequence[Path]) -> list[str]:
    for hub in hubs:
        try:
            card = with_new_keys(json.loads((hub / lang / "card.json").read_text(encoding="utf-8")))
            # ``licenses`` has no entry for sources that state none.
            sources = [with_new_keys(source) for source in card.get("data", ())]
            return [str(name) for name in (*card["licenses"], *(source["license"] for source in sources))]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # reported when the language is read
    return []


def left_out_sources(plans: Mapping[str, LanguagePlan]) -> tuple[str, ...]:
    """Report the sources whose licenses are not allowed, a line each."""
    lines = set()
    for plan in plans.values():
        for place, kind, source in sources(plan, all_licenses=True):
            if kind in TRAINED_ON and not is_allowed(source.license, plan.data.licenses):
                found = source.path or source.dataset
                lines.add(
                    f"{dotted(place)}: {found} ({source.license}) is left out, since data.licenses lacks it"
                )
    return tuple(sorted(lines))
