"""Checks of the files that a recipe names, for issues that would stop or spoil a training hours later.

The columns and first rows of each file are compared with the recipe. More rows, up to a bound, are read to
count them and to find the values that filters name.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from modenc.data.inspect_rows import InspectedSource, inspect_source
from modenc.data.inspect_sizes import check_sizes
from modenc.data.joining import (
    CROSS_ROLES,
    PARALLEL_ROLES,
    PARAPHRASE_ROLES,
    SCORED_ROLES,
    SEARCH_ROLES,
    both_sources,
    joined_by_line,
)
from modenc.data.language_check import Filters, LanguageCheck, is_same_language
from modenc.data.pairs import check_scores
from modenc.data.sources import ResolvedSource, describe_source, resolve_source
from modenc.errors import DataError
from modenc.langid import LanguageIdentifier, get_identifier
from modenc.languages import find_code
from modenc.recipe.data_settings import GROUPED_COLUMNS, TRAINED_ON
from modenc.recipe.issues import Issue, Level, LocatedIssue, Place
from modenc.recipe.licenses import sources
from modenc.recipe.parse import select_settings
from modenc.recipe.settings import LanguagePlan, Source
from modenc.texts import normalize


class _Kind(NamedTuple):
    """Roles in the rows of a kind of data."""

    needed: tuple[str, ...]
    """Roles that each row must have, if one file has them all."""
    joined: tuple[str, ...]
    """Roles that each file must have, beside the key, if two are joined; empty: this kind joins none."""
    in_language: tuple[str, ...]
    in_pivot: tuple[str, ...] = ()


_KINDS = {
    "text": _Kind(("text",), (), ("text",)),
    "paraphrases": _Kind(PARAPHRASE_ROLES, (), PARAPHRASE_ROLES),
    # These two may be in other languages.
    "scored_pairs": _Kind(SCORED_ROLES, (), ()),
    "passages": _Kind(("passage",), (), ()),
    "parallel": _Kind(PARALLEL_ROLES, ("text",), ("text",), ("pivot",)),
    "cross_paraphrases": _Kind(CROSS_ROLES, PARAPHRASE_ROLES, ("text", *PARAPHRASE_ROLES), ("pivot",)),
    "cross_scored_pairs": _Kind(SCORED_ROLES, SCORED_ROLES, ("sentence1", "sentence2")),
    "sts": _Kind(SCORED_ROLES, (), ("sentence1", "sentence2")),
    "cross_sts": _Kind(SCORED_ROLES, (), ("sentence2",), ("sentence1",)),
    "search": _Kind(SEARCH_ROLES, (), SEARCH_ROLES),
}


def inspect_data(plans: Mapping[str, LanguagePlan]) -> Iterator[LocatedIssue]:
    """Find issues and likely mistakes in the files of some of a recipe's languages.

    Missing files are skipped, since ``missing_files`` reports them, and so are public data sets.
    """
    identifier = get_identifier(None)
    yield from _shared_rows(plans)
    for lang, plan in plans.items():
        inspected: dict[str, list[InspectedSource]] = defaultdict(list)
        for path, kind, source in sources(plan):
            resolved = resolve_source(source, lang, plan.pivot)
            if kind in TRAINED_ON and not source.license:
                message = 'states no license, and the modules\' card will not either; add license = "..."'
                yield lang, Issue(path, f"{describe_source(resolved)} {message}", level="warning")
            # os.path, not pathlib, which raises an error for names that no system takes.
            files = [os.path.expanduser(name) for name in (resolved.path, resolved.pivot_path) if name]
            if source.dataset is not None or not all(os.path.isfile(plan.data.root / file) for file in files):
                continue
            for found in _inspect_files(path, kind, resolved, plan, identifier):
                if isinstance(found, Issue):
                    yield lang, found
                else:
                    inspected[kind].append(found)
        for issue in check_sizes(plan, inspected):
            yield lang, issue


def _shared_rows(plans: Mapping[str, LanguagePlan]) -> Iterator[LocatedIssue]:
    """Find rows that are given for two languages, though they can be in only one."""
    users: dict[tuple[str, str], list[tuple[str, Place, Source]]] = defaultdict(list)
    for lang, plan in plans.items():
        for path, kind, source in sources(plan):
            if _KINDS[kind].in_language:
                resolved = resolve_source(source, plan.lang, plan.pivot)
                rows = replace(resolved, limit=0, repeat=1, license="", translator="")
                users[(kind, repr(rows))].append((lang, path, resolved))
    for (kind, _), entries in users.items():
        languages = dict.fromkeys(lang for lang, _, _ in entries)
        if len(languages) < 2:
            continue
        # A development set may be in another language on purpose. Training data may not: the language check
        # of the training would drop it.
        checked = [lang for lang in languages if plans[lang].data.check_language]
        dropped = any(not is_same_language(a, b) for a, b in combinations(checked, 2))
        level: Level = "error" if kind in TRAINED_ON and dropped else "warning"
        for lang, path, source in entries:
            message = (
                f"the same rows of {describe_source(source)} for {', '.join(languages)}; put {{lang}} into "
                'the path or a column\'s name, choose rows as in where.lang = ["{lang}"], or move it to '
                "[languages.CODE]"
            )
            yield lang, Issue(path, message, level=level)


def _inspect_files(
    path: Place, kind: str, source: ResolvedSource, plan: LanguagePlan, identifier: LanguageIdentifier
) -> Iterator[Issue | InspectedSource]:
    """Inspect the file of a resolved source, or its two files."""
    expected = _KINDS[kind]
    grouped = kind in GROUPED_COLUMNS and bool(source.group)
    joined = source.pivot_path is not None and bool(expected.joined) and not grouped
    plain = joined and joined_by_line(source)
    roles: tuple[str, ...] = expected.needed
    read: Source = source
    other: Source = source
    if joined:
        read, other = both_sources(source, plan.data.root)
        roles = expected.joined if plain else (*expected.joined, read.key)
    elif grouped:
        roles, read = (*GROUPED_COLUMNS[kind], source.group), replace(source, limit=0)
    inspected = inspect_source(
        path, read, roles, plan, count_words=kind == "text" and plan.vocabulary.method != "base"
    )
    # Each makes two rows, see read_cross_paraphrases; the limit counts these.
    rows = inspected.selected
    if kind == "cross_paraphrases" and (grouped or joined):
        rows *= 2
    if grouped:
        inspected.is_exact = inspected.is_exact or 0 < source.limit <= rows
    inspected.training_rows = min(rows, source.limit or rows) * source.repeat
    yield from inspected.issues
    yield inspected
    yield from _check_content(path, kind, source, inspected, plan, identifier)
    if not joined:
        return
    roles = expected.joined if plain else (*expected.joined, other.key)
    pivots = inspect_source(path, other, roles, plan)
    yield from pivots.issues
    yield from _check_languages(path, pivots, expected.joined, (plan.pivot, plan), identifier)
    if plain and inspected.whole and pivots.whole and inspected.read != pivots.read:
        yield Issue(
            path,
            f"expected as many lines in {source.path} as in {source.pivot_path}, found "
            f"{inspected.read:,} and {pivots.read:,}; align the files line by line",
        )


def _check_content(
    path: Place,
    kind: str,
    source: Source,
    inspected: InspectedSource,
    plan: LanguagePlan,
    identifier: LanguageIdentifier,
) -> Iterator[Issue]:
    """Check the first rows of a source whose columns are right."""
    if "score" in _KINDS[kind].needed:
        try:
            list(check_scores(source, inspected.sample))
        except DataError as error:
            yield Issue(path, str(error))
    tabs = sum(any("\t" in value for value in row.values()) for row in inspected.sample)
    if kind == "text" and tabs > len(inspected.sample) / 2 and ".txt" in Path(source.path or "").suffixes:
        yield Issue(
            (*path, "path"),
            f"most lines of {source.path} have tabs, and each would be read as one sentence; rename it to "
            '.tsv and name the column of the text with columns = { text = "COLUMN" }',
        )
        return
    roles = ("text",) if source.group else _KINDS[kind].in_language
    yield from _check_languages(path, inspected, roles, (plan.lang, plan), identifier)
    yield from _check_languages(path, inspected, _KINDS[kind].in_pivot, (plan.pivot, plan), identifier)


def _check_languages(
    path: Place,
    source: InspectedSource,
    roles: tuple[str, ...],
    expected: tuple[str, LanguagePlan],
    identifier: LanguageIdentifier,
) -> Iterator[Issue]:
    """Warn if the first rows are in another language or script."""
    lang, plan = expected
    if find_code(lang) is None:
        return  # an issue of the recipe's languages
    texts = [normalize(row[role]) for row in source.sample for role in roles if row.get(role)]
    try:
        check = LanguageCheck(lang, identifier, filters=select_settings(Filters, plan.data))
        check.check_language_share(texts)
    except DataError as error:
        yield Issue(path, f"{source.name}: {error}", level="warning")
