"""A recipe on its way from TOML tables to plans, with all the faults found on that way."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

from modenc.errors import LanguageError, RecipeError
from modenc.languages import normalize_code
from modenc.near import nearest
from modenc.recipe.between import absent_pivot, absent_start, conflicts_between, not_chosen, unknown_language
from modenc.recipe.build import INVALID, build, describe, too_long
from modenc.recipe.conflicts import Conflict, conflicts, unknown_placeholders
from modenc.recipe.faults import MOST_FAULTS, Faults, Place, did_you_mean, said_once
from modenc.recipe.files import merge
from modenc.recipe.license_checks import inherited, unstated
from modenc.recipe.pivot_plan import as_pivot
from modenc.recipe.presence import absences
from modenc.recipe.records import with_records
from modenc.recipe.settings import FRESH, LanguagePlan

SECTIONS: dict[str, type] = {
    name: hint
    for name, hint in get_type_hints(LanguagePlan).items()
    if isinstance(hint, type) and is_dataclass(hint)
}
"""The tables of a recipe that become part of every language's plan, in the order of the plan."""

TOP_LEVEL = ("name", "pivot", "hub", *SECTIONS, "languages")
SHARED = ("base", "hub", "monolithic", "name", "pivot")
"""What all languages of a hub have in common, and none can have for itself."""

HUB_KEYS = ("path", "start_from")

Look = Callable[[Mapping[str, LanguagePlan]], Iterable[tuple[str | None, Conflict]]]
"""What looks into the files of languages: plans → conflicts, each with its language."""

_NAME = re.compile(r"(?=.*\w)[\w.-]{1,255}")
# Of all plans together; each has some 200 from the defaults.
_MOST_VALUES = 200_000
_CHARACTERS_OF_A_VALUE = 100


@dataclass
class Draft:
    """A recipe on its way from tables to plans."""

    stem: str
    defaults: dict[str, Any]
    tables: dict[str, Any]
    faults: Faults = field(default_factory=Faults)
    by_language: dict[str, Faults] = field(default_factory=dict)
    remarks: list[tuple[str | None, Conflict]] = field(default_factory=list)
    spelled: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The recipe's name; its file's where it gives none, or none that can be."""
        name = self.tables.get("name")
        return name if isinstance(name, str) and _NAME.fullmatch(name) else self.stem

    @property
    def pivot(self) -> str:
        """The pivot's code."""
        pivot = self.tables.get("pivot")
        return pivot if isinstance(pivot, str) else str(self.defaults["pivot"])

    @property
    def hub(self) -> Path:
        """The hub's folder, placeholders filled in."""
        return self._folder(self._of_hub("path") or self.defaults["hub"]["path"])

    @property
    def start_from(self) -> Path | None:
        """The hub that missing languages are copied from."""
        path = self._of_hub("start_from")
        return self._folder(path) if path else None

    @property
    def hubs(self) -> tuple[Path, ...]:
        """Where other languages' modules may be."""
        return (self.hub, self.start_from) if self.start_from else (self.hub,)

    @property
    def languages(self) -> dict[str, dict[str, Any]]:
        """Code → own tables of every language whose table is one."""
        tables = self.tables.get("languages")
        if not isinstance(tables, dict):
            return {}
        return {code: own for code, own in tables.items() if isinstance(own, dict)}

    def normalize_languages(self) -> None:
        """Write the pivot and the languages by their normalised codes; unknown codes are faults."""
        pivot, tables = self.tables.get("pivot"), self.tables.get("languages")
        if isinstance(pivot, str):
            self.tables["pivot"] = self._code(pivot, ("pivot",))
        if not isinstance(tables, dict):
            return
        renamed: dict[str, Any] = {}
        for code, own in tables.items():
            normalized = self._code(code, ("languages", code))
            if normalized in renamed:
                self.faults.add(("languages", code), f"the same language as languages.{normalized}; keep one")
            renamed[normalized] = own
            self.spelled[normalized] = code
        self.tables["languages"] = renamed

    def check_top_level(self) -> None:
        """Keys outside the sections, and that there is a language at all."""
        for key in self.tables:
            if key not in TOP_LEVEL:
                hint = did_you_mean(key, TOP_LEVEL)
                self.faults.add((key,), f"unknown key{hint}", meant=nearest(key, TOP_LEVEL))
        for key in ("name", "pivot"):
            if not isinstance(self.tables.get(key, ""), str):
                self.faults.add((key,), f"expected text, found {describe(self.tables[key])}")
        name = self.tables.get("name", self.stem)
        if isinstance(name, str) and not _NAME.fullmatch(name):
            found = describe(name)
            message = f"expected letters, digits, '_', '-' and '.' (folders are named so), found {found}"
            self.faults.add(("name",), message)
        self._check_hub()
        self._check_languages()

    def plans(self) -> dict[str, LanguagePlan]:
        """A plan for every language, as far as faults allow; more faults are noted on the way.

        Raises:
            RecipeError: so much would be in them that it takes minutes and gigabytes.
        """
        plans, values = {}, 0
        for lang, own in self.languages.items():
            written = partial(_written_at, own, ("languages", self.spelled.get(lang, lang)))
            faults = self.by_language.setdefault(lang, self.faults.of_part(written))
            # Plans share the pivot's frozen vectors, so these cannot differ between languages.
            own = {key: value for key, value in own.items() if key in SECTIONS and key not in SHARED}
            tables = merge({name: self.tables[name] for name in SECTIONS if name in self.tables}, own)
            values += _values(tables)
            if values > _MOST_VALUES:
                raise RecipeError(
                    f"recipe {self.name!r}: expected at most {_MOST_VALUES} values in the plans of all its "
                    "languages, found more; make several recipes of it"
                )
            parts: dict[str, Any] = {
                name: build(cls, tables.get(name, {}), (name,), faults, self.defaults[name])
                for name, cls in SECTIONS.items()
            }
            if all(part is not INVALID for part in parts.values()):
                plan = LanguagePlan(lang=lang, pivot=self.pivot, recipe=self.name, hub=self.hub, **parts)
                run = replace(plan.run, work_dir=self._folder(str(plan.run.work_dir)))
                encoding = replace(plan.sentence_encoding, start=self._start(plan, faults))
                emma_x = replace(plan.emma_x, warmup_languages=self._warmup_languages(plan, faults))
                data = with_records(plan)
                plan = replace(plan, data=data, run=run, sentence_encoding=encoding, emma_x=emma_x)
                plans[lang] = as_pivot(plan) if lang == self.pivot else plan
        return plans

    def _start(self, plan: LanguagePlan, faults: Faults) -> str:
        """The normalised code of the language whose adapter is copied, or ``fresh``."""
        path = ("sentence_encoding", "start")
        start = plan.sentence_encoding.start
        if start == FRESH:
            return FRESH
        try:
            code = normalize_code(start)
        except LanguageError as error:
            faults.add(path, f"expected {FRESH!r} or a language code: {error}")
            return FRESH
        return FRESH if code == plan.lang else code

    def _warmup_languages(self, plan: LanguagePlan, faults: Faults) -> tuple[str, ...]:
        """The normalised codes of the languages that EMMA-X's classifier learns from, less the plan's own."""
        path = ("emma_x", "warmup_languages")
        codes = []
        for code in plan.emma_x.warmup_languages:
            try:
                codes.append(normalize_code(code))
            except LanguageError as error:
                faults.add(path, f"expected codes of languages: {error}")
        others = tuple(code for code in codes if code != plan.lang)
        choices = {lang: None for lang in self.languages if lang not in (self.pivot, plan.lang)}
        if absent := [code for code in others if code not in choices]:
            known = ", ".join(choices) or "none"
            message = f"expected other languages of the recipe than the pivot ({known})"
            faults.add(path, f"{message}, found {', '.join(absent)}")
        return others

    def check_plans(self, plans: dict[str, LanguagePlan]) -> None:
        """What is wrong in the plans though every value is right by itself."""
        for lang, plan in plans.items():
            work_dir = unknown_placeholders(("run", "work_dir"), str(plan.run.work_dir), ("recipe",))
            self._note(chain(conflicts(plan), work_dir, unstated(plan)), lang)
        for own, conflict in conflicts_between(plans, self.languages, self.pivot):
            self._note([conflict], own)

    def check_files(
        self,
        plans: dict[str, LanguagePlan],
        chosen: Sequence[str] | None,
        need_others: bool,
        look: Look | None,
    ) -> None:
        """What is not there, or is not what the recipe says, of the chosen languages' files."""
        for lang in chosen or ():
            if lang not in self.languages:
                self.faults.add(("languages",), unknown_language(lang, plans))
        wanted = {lang: plan for lang, plan in plans.items() if chosen is None or lang in chosen}
        for lang, plan in wanted.items():
            start = absent_start(plan, self.languages, self.hubs)
            others = self.languages.keys() - wanted.keys() if need_others else ()
            alone = not_chosen(plan, others, self.hubs)
            self._note(chain(absences(plan), start, alone, inherited(plan, plans, self.hubs)), lang)
        if self.languages and self.pivot not in self.languages:
            self._note(absent_pivot(self.pivot, self.hubs), None)
        found: dict[str | None, list[Conflict]] = {}
        for own, conflict in look(wanted) if look is not None else ():
            found.setdefault(own, []).append(conflict)
        for own, conflicts_found in found.items():
            self._note(conflicts_found, own)

    def fault_lines(self) -> list[str]:
        """All faults, one line each; what several languages share is said once."""
        found: list[tuple[str | None, Place, str]] = [(None, *fault) for fault in self.faults.found]
        for lang, faults in self.by_language.items():
            found += [(lang, *fault) for fault in faults.found]
        return self._lines(found)

    def remark_lines(self, level: str) -> list[str]:
        """All warnings, or all notes, one line each."""
        remarks = [(lang, conflict) for lang, conflict in self.remarks if conflict.level == level]
        return self._lines((lang, conflict.path, conflict.message) for lang, conflict in remarks)

    def _lines(self, found: Iterable[tuple[str | None, Place, str]]) -> list[str]:
        places = {lang: faults.place for lang, faults in self.by_language.items()}
        # Languages that were not looked at may share a fault too.
        return said_once(found, places, () if self.faults.full() else tuple(places))

    def _code(self, code: str, path: Place) -> str:
        try:
            return normalize_code(code)
        except LanguageError as error:
            self.faults.add(path, str(error))
            return code

    def _folder(self, path: str) -> Path:
        return Path(os.path.expanduser(path.replace("{recipe}", self.name)))

    def _check_hub(self) -> None:
        hub = self.tables.get("hub", {})
        if not isinstance(hub, dict):
            self.faults.add(("hub",), f"expected a table with the key path, found {describe(hub)}")
            return
        for key, path in hub.items():
            if key not in HUB_KEYS:
                self.faults.add(("hub", key), f"unknown key{did_you_mean(key, HUB_KEYS)}")
            elif not isinstance(path, str):
                self.faults.add(("hub", key), f"expected a path as text, found {describe(path)}")
            elif fault := too_long(path):
                self.faults.add(("hub", key), fault)
        for key, folder in zip(HUB_KEYS, self.hubs, strict=False):
            self._note(unknown_placeholders(("hub", key), str(folder), ("recipe",)), None)

    def _check_languages(self) -> None:
        languages = self.tables.get("languages")
        if not languages or not isinstance(languages, dict):
            found = describe(languages) if languages else "none"
            self.faults.add(
                ("languages",), f"expected a table [languages.CODE] for each language, found {found}"
            )
            # The sections are checked all the same, as the pivot's.
            self.tables["languages"] = {self.pivot: {}}
            return
        for code, own in languages.items():
            if not isinstance(own, dict):
                self.faults.add(("languages", code), f"expected a table, found {describe(own)}")
                continue
            self._check_language_keys(code, own)

    def _check_language_keys(self, code: str, own: dict[str, Any]) -> None:
        allowed = [section for section in SECTIONS if section not in SHARED]
        for key in own:
            if key in SHARED:
                message = f"the same for all languages of a hub; set it at the top as {key!r}"
                self.faults.add(("languages", code, key), message)
            elif key not in allowed:
                self.faults.add(("languages", code, key), f"unknown key{did_you_mean(key, allowed)}")
        if code == self.pivot:
            self._check_pivots_alignment(code, own)

    def _check_pivots_alignment(self, code: str, own: dict[str, Any]) -> None:
        alignment = own.get("alignment")
        objective = alignment.get("objective", "none") if isinstance(alignment, dict) else "none"
        merged = merge(self.tables, own).get("alignment")
        partners = merged.get("partners") if isinstance(merged, dict) else None
        if objective != "none" and partners != "all":
            message = (
                "the pivot is what the others are aligned to: expected 'none', or alignment.partners = "
                f"'all'; found {describe(objective)}"
            )
            self.faults.add(("languages", code, "alignment", "objective"), message)

    def _of_hub(self, key: str) -> str:
        table = self.tables.get("hub")
        path = table.get(key) if isinstance(table, dict) else None
        return path if isinstance(path, str) and not too_long(path) else ""

    def _note(self, found: Iterable[Conflict], lang: str | None) -> None:
        faults = self.faults if lang is None else self.by_language[lang]
        before = Faults(unfit=list(faults.unfit))  # none of those found now hides another
        for conflict in found:
            if any(before.concern(path) for path in (conflict.path, *conflict.reads)):
                continue
            if conflict.level == "fault":
                faults.add(conflict.path, conflict.message)
            elif len(self.remarks) < MOST_FAULTS:
                self.remarks.append((lang, conflict))


def _written_at(own: Any, prefix: Place, path: Place) -> Place:
    """Where a value is written: in the language's own table, which is at ``prefix``, or at the top."""
    for part in path:
        if isinstance(part, int):
            break
        if not isinstance(own, dict) or part not in own:
            return path
        own = own[part]
    return (*prefix, *path)


def _values(tables: Any) -> int:
    """How much is in tables: their values, of which a long text counts as several."""
    if isinstance(tables, dict):
        return 1 + sum(map(_values, tables.values()))
    if isinstance(tables, list):
        return 1 + sum(map(_values, tables))
    return 1 + len(tables) // _CHARACTERS_OF_A_VALUE if isinstance(tables, str) else 1
