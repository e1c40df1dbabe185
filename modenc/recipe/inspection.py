"""Checks of what a recipe names: files, modules in the hub and the base; and of the files' first rows.

These issues would stop or spoil a training hours later.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any

from modenc.data.filters import LanguageCheck, is_same_language
from modenc.data.formats import Row
from modenc.data.kinds import TEXT, DataKind
from modenc.data.sources import (
    ROW_CONDITIONS,
    Source,
    both_sources,
    check_scores,
    describe_source,
    read_raw_rows,
    resolve_source,
    select_rows,
)
from modenc.errors import DataError, closest_match
from modenc.languages import find_code
from modenc.recipe.checks import unknown_language
from modenc.recipe.parse import Issue, Level, Place
from modenc.recipe.plan import LanguagePlan
from modenc.texts import normalize

_BUNDLED = "me5-small"

# Rows that are checked, and how many are read at most to find them.
_SAMPLED_ROWS = 200
_MOST_ROWS = 100_000
_SHOWN = 12


def inspect_files(
    plans: Mapping[str, LanguagePlan], chosen: Mapping[str, LanguagePlan | None], hubs: Sequence[Path]
) -> Iterator[Issue]:
    """Find what the plans of the ``chosen`` languages name and is not there, and mistakes in their files.

    Public data sets are not looked into.

    Args:
        plans: the plans of all languages of the recipe.
        chosen: code → plan of the languages to train; None for one that the recipe lacks.
        hubs: the hub, and the one that it starts from, if there is one.
    """
    for model in {plan.base.model for plan in chosen.values() if plan}:
        yield from _missing_base(model)
    for lang, plan in chosen.items():
        if plan is None:
            yield Issue(("languages",), unknown_language(lang, plans))
            continue
        for path, kind, source in plan.sources():
            resolved = resolve_source(source, lang, plan.pivot)
            if missing := list(_missing_files(path, resolved, plan.data.root)):
                yield from (issue.of(lang) for issue in missing)
                continue
            if not kind.dev and not source.license:
                message = 'states no license, and the modules\' card will not either; add license = "..."'
                yield Issue(path, f"{describe_source(resolved)} {message}", level="warning", lang=lang)
            if source.dataset is None:
                yield from (issue.of(lang) for issue in _inspect_source(path, kind, source, plan))
        yield from (issue.of(lang) for issue in _missing_languages(plan, plans, chosen, hubs))


def _missing_languages(
    plan: LanguagePlan, plans: Collection[str], chosen: Collection[str], hubs: Sequence[Path]
) -> Iterator[Issue]:
    """Yield the languages that one builds on and that are neither trained nor in a hub."""
    needed = plan.builds_on()
    if plan.pivot not in plans:
        # Users of a hub may rely on its pivot, even if no language is aligned to it.
        needed[plan.pivot] = ("pivot",)
    folders = (f"'{hub}'" if os.path.isdir(hub) else f"'{hub}' (no such folder)" for hub in hubs)
    where = f"the hub {' or '.join(folders)}"
    for other, place in needed.items():
        if other in chosen or any(os.path.isfile(hub / other / "card.json") for hub in hubs):
            continue
        among, advice = "the languages", f"add [languages.{other}] or set it to 'fresh'"
        if other in plans:
            among, advice = "the languages to train", f"train it first, or add --lang {other}"
        elif place == ("pivot",):
            advice = f"add [languages.{other}] or name a hub that has it as hub.start_from"
        yield Issue(place, f"expected {other!r} among {among} or in {where}, found it in neither; {advice}")


def _missing_files(path: Place, source: Source, root: Path) -> Iterator[Issue]:
    """Yield the files of a resolved source that are not there."""
    for key in ("path", "pivot_path"):
        name = os.path.expanduser(getattr(source, key) or "")
        file = root / name
        # os.path, not pathlib, which raises an error for names that no system takes.
        if not name or "{" in name or os.path.isfile(file):
            continue
        if not os.path.isdir(root) and not os.path.isabs(name):
            # One line for the folder, instead of one for every file in it.
            message = f"expected a folder, found none at '{root}'; override it with data.root=DIR"
            yield Issue(("data", "root"), message)
            continue
        message = f"expected a file, found none at '{file}'; paths start at data.root = '{root}'"
        yield Issue((*path, key), message, (("data", "root"),))


def _missing_base(model: str) -> Iterator[Issue]:
    """Check a base's name without loading the base."""
    expected = f"expected {_BUNDLED!r}, a saved model's folder, or a Hugging Face id"
    if model == _BUNDLED or os.path.isdir(os.path.expanduser(model)):
        return
    if model.startswith((".", "/", "~")) or model.partition("@")[0].count("/") > 1:
        yield Issue(("base", "model"), f"{expected}, found no folder {os.path.expanduser(model)!r}")
    elif match := closest_match(model, [_BUNDLED]):
        yield Issue(("base", "model"), f"{expected}, found {model!r}; did you mean {match!r}?")


def shared_rows(plans: Mapping[str, LanguagePlan]) -> Iterator[Issue]:
    """Find rows that are given for two languages, though they can be in only one."""
    users: dict[tuple[str, str], list[tuple[str, Place, DataKind[Any], Source]]] = defaultdict(list)
    for lang, plan in plans.items():
        for path, kind, source in plan.sources():
            if kind.in_language:
                resolved = resolve_source(source, plan.lang, plan.pivot)
                rows = replace(resolved, limit=0, repeat=1, license="", translator="")
                users[(kind.name, repr(rows))].append((lang, path, kind, resolved))
    for entries in users.values():
        languages, kind = dict.fromkeys(lang for lang, *_ in entries), entries[0][2]
        checked = [lang for lang in languages if plans[lang].data.check_language]
        # Where none is checked, they learn from several languages on purpose.
        if len(languages) < 2 or not (checked or kind.dev):
            continue
        # A development set may be in another language on purpose. Training data may not: the language check
        # of the training would drop it.
        dropped = any(not is_same_language(a, b) for a, b in combinations(checked, 2))
        for lang, path, _, source in entries:
            message = (
                f"the same rows of {describe_source(source)} for {', '.join(languages)}; put {{lang}} into "
                'the path or a column\'s name, choose rows as in where.lang = ["{lang}"], or move it to '
                "[languages.CODE]"
            )
            level: Level = "warning" if kind.dev or not dropped else "error"
            yield Issue(path, message, level=level, lang=lang)


def _inspect_source(path: Place, kind: DataKind[Any], given: Source, plan: LanguagePlan) -> Iterator[Issue]:
    """Inspect the file of a source, or its two files."""
    source = resolve_source(given, plan.lang, plan.pivot)
    joined = kind.joins(source)
    roles = kind.file_roles(source)
    own, other = both_sources(given, plan.lang, plan.pivot) if joined else (source, source)
    column = (source.group,) if kind.groups(source) else (own.key,) if joined else ()
    sample = yield from _read_sample(path, own, (*roles, *column), plan)
    if kind.score:
        try:
            list(check_scores(source, sample))
        except DataError as error:
            yield Issue(path, str(error))
    tabs = sum(any("\t" in value for value in row.values()) for row in sample)
    if kind is TEXT and tabs > len(sample) / 2 and ".txt" in Path(source.path or "").suffixes:
        yield Issue(
            (*path, "path"),
            f"most lines of {source.path} have tabs, and each would be read as one sentence; rename it to "
            '.tsv and name the column of the text with columns = { text = "COLUMN" }',
        )
        return
    yield from _check_languages(path, source, sample, kind.roles_in_language(source), plan.lang, plan)
    yield from _check_languages(path, source, sample, kind.roles_in_pivot(source), plan.pivot, plan)
    if joined:
        pivots = yield from _read_sample(path, other, (*roles, other.key), plan)
        yield from _check_languages(path, other, pivots, roles, plan.pivot, plan)


def _check_languages(
    path: Place, source: Source, sample: Sequence[Row], roles: Sequence[str], lang: str, plan: LanguagePlan
) -> Iterator[Issue]:
    """Warn if the first rows are in another language or script."""
    if find_code(lang) is None:
        return  # an issue of the recipe's languages
    check = LanguageCheck(lang, filters=plan.data)
    check.reasons([normalize(row[role]) for row in sample for role in roles if row.get(role)])
    try:
        check.check_language_share()
    except DataError as error:
        yield Issue(path, f"{describe_source(source)}: {error}", level="warning")


def _read_sample(
    path: Place, source: Source, roles: tuple[str, ...], plan: LanguagePlan
) -> Generator[Issue, None, list[Row]]:
    """Yield what is wrong with a resolved source's file; returns its first rows that pass its filters."""
    raw = read_raw_rows(source, plan.data.root, roles)
    sample: list[Row] = []
    try:
        if (first := next(raw, None)) is None:
            yield Issue(path, f"{describe_source(source)}: expected rows, found none")
        elif wrong := list(_wrong_columns(path, source, roles, first)):
            yield from wrong
        else:
            rows = select_rows(chain([first], islice(raw, _MOST_ROWS)), source, roles)
            sample += islice(rows, min(_SAMPLED_ROWS, source.limit or _SAMPLED_ROWS))
            if not sample and next(raw, None) is None:
                columns = [source.columns.get(key, key) for key in (*source.where, *source.where_not)]
                first_row = ", ".join(f"{first.get(column)!r} in {column!r}" for column in columns)
                hint = f" (the first row has {first_row})" if columns else ""
                message = f"{describe_source(source)}: expected rows that pass the filters, found none{hint}"
                yield Issue(path, message)
    except DataError as error:
        yield Issue(path, str(error))
    return sample


def _wrong_columns(path: Place, source: Source, roles: tuple[str, ...], row: Row) -> Iterator[Issue]:
    """Find columns that the recipe names, or its roles need, and the file lacks."""
    needed = {role: ("columns", role) if role in source.columns else ("path",) for role in roles}
    needed |= {role: ("columns", role) for role in source.columns}
    # These columns have no role; a setting of their own names them.
    keys = {source.group: "group"} if source.group else {source.key: "key"} if source.pivot_path else {}
    needed |= {name: (key,) for name, key in keys.items() if name in needed}
    for key in ROW_CONDITIONS:
        needed |= {name: (key, name) for name in getattr(source, key) if name not in needed}
    taken = {source.columns.get(name, name) for name in needed}
    free = [column for column in row if column not in taken]
    for role, place in needed.items():
        column = source.columns.get(role, role)
        if column not in row:
            found = ", ".join(map(repr, list(row)[:_SHOWN]))
            what = f" ({role})" if column != role else ""
            message = f"{describe_source(source)}: expected a column {column!r}{what}, found {found}"
            guess = closest_match(column, free)
            setting = f'{keys[role]} = "%s"' if role in keys else f'columns = {{ {role} = "%s" }}'
            yield Issue((*path, *place), f"{message}; {_hint(guess, setting, row)}")


def _hint(guess: str | None, setting: str, row: Row) -> str:
    """Advise on a missing column: ``guess`` is probably meant, and ``setting`` is how to name it."""
    if any(len(name) > 40 or name.count(" ") > 2 for name in row):
        return "add a header line with column names above the first row"
    if guess:
        return f"did you mean {guess!r}? Then add {setting.replace('%s', guess)}"
    if len(row) == 1 and any(mark in next(iter(row)) for mark in ",;"):
        return "rename it to .csv if commas separate its columns"
    return f"name the column with {setting.replace('%s', '...')}"
