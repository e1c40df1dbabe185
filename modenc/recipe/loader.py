"""Load a recipe: merge includes and overrides, check everything at once, resolve each language's plan."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w

from modenc.data.kinds import KINDS
from modenc.errors import LanguageError, RecipeError
from modenc.languages import find_code, listed_codes, normalize_code
from modenc.recipe.checks import check_languages, check_plan, unknown_placeholders
from modenc.recipe.files import (
    DEFAULTS_FILE,
    apply_overrides,
    find_recipe,
    merge,
    normalize_languages,
    read_tables,
    recipes_folder,
)
from modenc.recipe.inspection import inspect_files, shared_rows
from modenc.recipe.parse import (
    Issue,
    LanguageTable,
    Place,
    RecipeIssues,
    add_issues,
    describe,
    issue_lines,
    parse,
    unknown_keys,
)
from modenc.recipe.plan import SECTIONS, LanguagePlan, Recipe
from modenc.recipe.settings import FRESH

TOP_LEVEL = ("name", "pivot", "hub", *SECTIONS, "languages")
SHARED = ("base", "hub", "monolithic", "name", "pivot")
"""Keys that all languages of a hub share, so that no language can have its own."""

_NAME = re.compile(r"(?=.*\w)[\w.-]+")


@dataclass(frozen=True)
class HubSettings:
    """The hub that finished modules are put into."""

    path: str
    """The hub's folder; {recipe} is the recipe's name."""
    start_from: str
    """A hub that the pivot and the languages of ``start`` are copied from, if the recipe does not train them
    and the hub lacks them."""


@dataclass(frozen=True)
class RecipeHeader:
    """The keys of a recipe outside the sections of languages' plans."""

    name: str
    """Name of the recipe, and of its folders."""
    pivot: str
    """Code of the language that all others are aligned to."""
    hub: HubSettings

    def folder(self, path: str) -> Path:
        """Make a path of a folder's setting: fill in ``{recipe}`` and ``~``."""
        return Path(os.path.expanduser(path.replace("{recipe}", self.name)))

    def hubs(self) -> list[Path]:
        """List the hub and, if there is one, the hub that it starts from."""
        start = [self.hub.start_from] if self.hub.start_from else []
        return [self.folder(path) for path in (self.hub.path, *start)]


def load_recipe(
    path: str | Path,
    overrides: str | Sequence[str] = (),
    *,
    check_files: bool = True,
    languages: str | Iterable[str] | None = None,
) -> Recipe:
    """Read a recipe by path or shipped name, and check all of it.

    Args:
        path: a TOML file, or the name of a shipped recipe such as ``eighteen``.
        overrides: one or several ``a.b=value``, stronger than all files; see ``apply_overrides``.
        check_files: also check that data files, the base and the hub's pivot are there, and
            look into the files. Without it a training meets what is wrong with them when it reads them.
        languages: code or codes of the languages to train, whose files are checked; all by default.

    Returns:
        The recipe with one complete plan per language, in the order of training.

    Raises:
        RecipeError: there is no such recipe, or it is not valid TOML; ``RecipeIssues`` with all its errors.
        LanguageError: one of ``languages`` is no code of a language.

    Examples:
        >>> from modenc import load_recipe
        >>> recipe = load_recipe("my_recipe.toml", ["run.seed=14"])
        >>> languages = list(recipe.plans)
    """
    file = find_recipe(path)
    issues: list[Issue] = []
    overrides = [overrides] if isinstance(overrides, str) else overrides
    tables = merge(_defaults(), read_tables(file))
    written = tables.get("languages")
    spelled = {find_code(code) or code: code for code in written} if isinstance(written, dict) else {}
    tables = apply_overrides(normalize_languages(tables, issues), overrides, issues)
    header = _header(tables, file.stem, issues)
    own = _language_tables(tables, header.pivot, spelled, issues)
    plans = _plans(tables, own, header, issues)
    add_issues(issues, (issue.of(lang) for lang, plan in plans.items() for issue in check_plan(plan)))
    add_issues(issues, check_languages(plans, own, header.pivot))
    add_issues(issues, (issue for plan in plans.values() for issue in _left_out(plan)))
    if check_files:
        given = plans if languages is None else map(normalize_code, listed_codes(languages))
        chosen = {lang: plans.get(lang) for lang in given}
        add_issues(issues, inspect_files(plans, chosen, header.hubs()))
        add_issues(issues, shared_rows({lang: plan for lang, plan in chosen.items() if plan}))
    errors, warnings = (tuple(issue_lines(issues, level, own)) for level in ("error", "warning"))
    if errors:
        raise RecipeIssues(header.name, errors, warnings)

    allowed = {lang: replace(plan, data=plan.data.allowed()) for lang, plan in plans.items()}
    resolved = {**tables, "name": header.name, "pivot": header.pivot}
    return Recipe(
        name=header.name,
        pivot=header.pivot,
        hub=header.hubs()[0],
        plans=_training_order(allowed, header.pivot),
        text=tomli_w.dumps({key: resolved[key] for key in TOP_LEVEL}),
        start_from=header.hubs()[1] if header.hub.start_from else None,
        warnings=warnings,
    )


def default_section(name: str) -> Any:
    """Return a recipe's section, such as ``data`` or ``decoder``, with the defaults."""
    return parse(SECTIONS[name], _defaults()[name], (name,), [])


@cache
def _defaults() -> dict[str, Any]:
    return read_tables(recipes_folder() / DEFAULTS_FILE)


def _header(tables: dict[str, Any], stem: str, issues: list[Issue]) -> RecipeHeader:
    issues += unknown_keys(tables, TOP_LEVEL)
    default = RecipeHeader(stem, _defaults()["pivot"], HubSettings(**_defaults()["hub"]))
    given = {key: tables[key] for key in ("name", "pivot", "hub") if key in tables}
    header = parse(RecipeHeader, given, (), issues, default)
    if not _NAME.fullmatch(header.name):
        expected = "expected letters, digits, '_', '-' and '.', since folders have this name"
        issues.append(Issue(("name",), f"{expected}, found {describe(header.name)}"))
        header = replace(header, name=stem)
    if not header.hub.path:
        issues.append(Issue(("hub", "path"), "expected a folder, found ''; name one, such as my_hub"))
    for key, path in vars(header.hub).items():
        issues += unknown_placeholders(("hub", key), path, ("recipe",))
    return replace(header, pivot=_code(header.pivot, ("pivot",), issues))


def _code(code: str, path: Place, issues: list[Issue], expected: str = "") -> str:
    try:
        return normalize_code(code)
    except LanguageError as error:
        issues.append(Issue(path, f"{expected}{error}"))
        return code


def _language_tables(
    tables: dict[str, Any], pivot: str, spelled: Mapping[str, str], issues: list[Issue]
) -> dict[str, LanguageTable]:
    languages = tables.get("languages")
    if not languages or not isinstance(languages, dict):
        found = describe(languages) if languages else "none"
        message = f"expected a table [languages.CODE] for each language, found {found}"
        issues.append(Issue(("languages",), message))
        # The sections are still checked, as the pivot's.
        return {pivot: LanguageTable(("languages", pivot), {})}
    allowed = [section for section in SECTIONS if section not in SHARED]
    found_tables = {}
    for code, own in languages.items():
        path: Place = ("languages", spelled.get(code, code))
        _code(code, path, issues)
        if not isinstance(own, dict):
            issues.append(Issue(path, f"expected a table, found {describe(own)}"))
            continue
        issues += unknown_keys((key for key in own if key not in SHARED), allowed, path)
        for key in (key for key in own if key in SHARED):
            message = f"the same for all languages of a hub; set it at the top as {key!r}"
            issues.append(Issue((*path, key), message))
        found_tables[code] = LanguageTable(path, {key: value for key, value in own.items() if key in allowed})
    return found_tables


def _plans(
    tables: dict[str, Any], own: Mapping[str, LanguageTable], header: RecipeHeader, found: list[Issue]
) -> dict[str, LanguagePlan]:
    """Make every language's plan, with defaults in place of wrong values; errors are added to ``found``."""
    defaults = {name: default_section(name) for name in SECTIONS}
    shared = {name: tables[name] for name in SECTIONS}
    plans = {}
    for lang, own_table in own.items():
        issues: list[Issue] = []
        sections: dict[str, Any] = {
            name: parse(SECTIONS[name], table, (name,), issues, defaults[name])
            for name, table in merge(shared, own_table.sections).items()
        }
        plan = LanguagePlan(lang, header.pivot, header.hubs()[0], **sections)
        run = replace(plan.run, work_dir=header.folder(str(plan.run.work_dir)))
        encoding = replace(plan.sentence_encoding, start=_start(plan, "sentence_encoding", issues))
        alignment = replace(plan.alignment, start=_start(plan, "alignment", issues))
        plan = replace(plan, run=run, sentence_encoding=encoding, alignment=alignment)
        plans[lang] = _as_pivot(plan, own_table, issues) if lang == header.pivot else plan
        found += [issue.of(lang) for issue in issues]
    return plans


def _start(plan: LanguagePlan, section: str, issues: list[Issue]) -> str:
    """Return the normalized code of the language that a stage starts from, or ``fresh``."""
    start: str = getattr(plan, section).start
    if start != FRESH:
        start = _code(start, (section, "start"), issues, f"expected {FRESH!r} or a language code: ")
    return FRESH if start == plan.lang else start


def _left_out(plan: LanguagePlan) -> Iterator[Issue]:
    """Yield a warning for each source whose license is not allowed."""
    allowed = {place for place, _, _ in plan.sources()}
    for place, _, source in plan.sources(all_licenses=True):
        if place not in allowed:
            name = f"{source.path or source.dataset} ({source.license})"
            message = f"{name} is left out, since data.licenses lacks it"
            yield Issue(place, message, level="warning", lang=plan.lang)


def _as_pivot(plan: LanguagePlan, own: LanguageTable, issues: list[Issue]) -> LanguagePlan:
    """Remove the settings and data from the pivot's plan that only other languages have."""
    alignment, place = plan.alignment, ("alignment", "objective")
    if alignment.partners != "all":
        if alignment.objective != "none" and own.written_at(place) != place:
            message = (
                "the pivot is what the others are aligned to: expected 'none', or alignment.partners = "
                f"'all'; found {alignment.objective!r}"
            )
            issues.append(Issue(place, message))
        alignment = replace(alignment, objective="none", start=FRESH)
    with_pivot = [kind for kind in KINDS.values() if kind.in_pivot or kind.across]
    no_dev: dict[str, Any] = {kind.name: () for kind in with_pivot if kind.dev}
    no_data: dict[str, Any] = {kind.name: () for kind in with_pivot if not kind.dev}
    data = replace(plan.data, dev=replace(plan.data.dev, **no_dev), **no_data)
    return replace(plan, data=data, alignment=alignment)


def _training_order(plans: dict[str, LanguagePlan], pivot: str) -> dict[str, LanguagePlan]:
    """Order languages for training: the pivot first, and each after those that it builds on."""
    ordered: dict[str, LanguagePlan] = {}
    waiting = dict(sorted(plans.items(), key=lambda item: item[0] != pivot))
    while waiting:
        for lang, plan in waiting.items():
            if plan.sentence_encoding.start not in waiting and plan.alignment.start not in waiting:
                ordered[lang] = waiting.pop(lang)
                break
        else:
            starts = [(plan.sentence_encoding.start, plan.alignment.start) for plan in waiting.values()]
            circle = sorted(waiting.keys() & {lang for pair in starts for lang in pair})
            raise RecipeError(
                f"sentence_encoding.start, alignment.start: {' and '.join(circle)} wait for each "
                f"other; set one of them to {FRESH!r}"
            )
    return ordered
