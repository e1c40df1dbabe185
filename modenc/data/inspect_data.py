"""A look into the files that a recipe names: what would stop a training, or spoil it, hours later.

Of each file the columns and the first rows are compared with what the recipe says of it; the rest is read on
to a bound, to count rows and to find what filters name. Nothing is kept.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from modenc.data.inspect_rows import Seen, see
from modenc.data.inspect_sizes import sizes
from modenc.data.joining import CROSS_ROLES, PARALLEL_ROLES, SCORED_ROLES, TRIPLET_ROLES, pivots_side
from modenc.data.language_check import Filters, LanguageCheck, is_same_language
from modenc.data.pairs import read_score
from modenc.data.readers import describe_source, resolve_source
from modenc.data.text import normalize
from modenc.errors import DataError
from modenc.langid import LanguageIdentifier, get_identifier
from modenc.recipe.data_settings import GROUPED, TRAINED_ON
from modenc.recipe.issues import Found, Issue, Level, Place
from modenc.recipe.licenses import sources
from modenc.recipe.settings import LanguagePlan, Source

_ROLES: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "paraphrases": TRIPLET_ROLES,
    "scored_pairs": SCORED_ROLES,
    "parallel": PARALLEL_ROLES,
    "cross_paraphrases": CROSS_ROLES,
    "cross_scored_pairs": SCORED_ROLES,
    "sts": SCORED_ROLES,
    "cross_sts": SCORED_ROLES,
}
"""What a row of each list must have, where one file has it all."""
_JOINED: dict[str, tuple[str, ...]] = {
    "parallel": ("text",),
    "cross_paraphrases": TRIPLET_ROLES,
    "cross_scored_pairs": SCORED_ROLES,
}
"""What each file must have, beside the key, where two are joined."""

# Which roles are in the language, and which in the pivot; graded pairs may be in another.
_OWN = {
    "text": ("text",),
    "paraphrases": TRIPLET_ROLES,
    "parallel": ("text",),
    "cross_paraphrases": ("text", "anchor", "positive"),
    "cross_scored_pairs": ("sentence1", "sentence2"),
    "sts": ("sentence1", "sentence2"),
    "cross_sts": ("sentence2",),
}
_PIVOTS = {"parallel": ("pivot",), "cross_paraphrases": ("pivot",), "cross_sts": ("sentence1",)}


def inspect_data(plans: Mapping[str, LanguagePlan]) -> Iterator[Found]:
    """What is wrong, or probably not meant, in the files of some of a recipe's languages.

    Files that are not there are passed over, since ``missing_files`` reports them, and so are public data
    sets.
    """
    identifier = get_identifier(None)
    yield from _shared(plans)
    for lang, plan in plans.items():
        seen: dict[str, list[Seen]] = defaultdict(list)
        for path, role, source in sources(plan):
            if role in TRAINED_ON and not source.license:
                message = 'states no license, and the modules\' card will not either; add license = "..."'
                name = describe_source(resolve_source(source, plan.lang, plan.pivot))
                yield lang, Issue(path, f"{name} {message}", level="warning")
            for side in _sides(path, role, source, plan, identifier):
                if isinstance(side, Issue):
                    yield lang, side
                else:
                    seen[role].append(side)
        for conflict in sizes(plan, seen):
            yield lang, conflict


def _shared(plans: Mapping[str, LanguagePlan]) -> Iterator[Found]:
    """The same rows for two languages, which only one of them can be in."""
    users: dict[tuple[str, str], list[tuple[str, Place, Source]]] = defaultdict(list)
    for lang, plan in plans.items():
        for path, role, source in sources(plan):
            if role in _OWN:
                resolved = resolve_source(source, plan.lang, plan.pivot)
                what = replace(
                    resolved, limit=0, repeat=1, license="", translator="", lang=resolved.lang or ""
                )
                users[(role, repr(what))].append((lang, path, resolved))
    for (role, _), entries in users.items():
        languages = dict.fromkeys(lang for lang, _, _ in entries)
        if len(languages) < 2:
            continue
        # To choose by another language's pairs can be meant; to learn from its texts cannot, where training
        # would find them to be in another language.
        checked = [lang for lang in languages if plans[lang].data.check_language]
        refused = any(not is_same_language(a, b) for a, b in combinations(checked, 2))
        level: Level = "error" if role in TRAINED_ON and refused else "warning"
        for lang, path, source in entries:
            message = (
                f"the same rows of {describe_source(source)} for {', '.join(languages)}; put {{lang}} into "
                'the path or a column\'s name, choose rows as in where.lang = ["{lang}"], or move it to '
                "[languages.CODE]"
            )
            yield lang, Issue(path, message, level=level)


def _sides(
    path: Place, role: str, source: Source, plan: LanguagePlan, identifier: LanguageIdentifier
) -> Iterator[Issue | Seen]:
    """What is found in a source's file, or its two."""
    resolved = resolve_source(source, plan.lang, plan.pivot)
    if source.dataset is not None or not _is_there(resolved, plan):
        return
    grouped = role in GROUPED and bool(resolved.group)
    joined = resolved.pivot_path is not None and role in _JOINED and not grouped
    plain = str(resolved.path).removesuffix(".gz").removesuffix(".zst").endswith(".txt")
    key = () if plain or not joined else (resolved.key,)
    roles = (*_JOINED[role], *key) if joined else _ROLES[role]
    if grouped:
        roles = (*GROUPED[role], resolved.group)
    read = replace(resolved, limit=0) if grouped else resolved
    own = see(path, read, roles, plan, count_words=role == "text" and plan.vocabulary.method != "base")
    # A pair across is two rows, and so are a triplet and its counterpart, see read_cross_paraphrases; the
    # limit counts what comes out.
    rows = own.kept
    if role == "cross_paraphrases" and (grouped or joined):
        rows *= 2
    if grouped:
        own.counted = own.counted or 0 < resolved.limit <= rows
    own.given = min(rows, resolved.limit or rows) * resolved.repeat
    yield from own.conflicts
    yield own
    yield from _content(path, role, resolved, own, plan, identifier)
    if not joined:
        return
    other = see(path, pivots_side(resolved, plan.data.root), roles, plan)
    yield from other.conflicts
    yield from _languages(path, other, _JOINED[role], (plan.pivot, plan), identifier)
    if plain and own.whole and other.whole and own.rows != other.rows:
        yield Issue(
            path,
            f"expected as many lines in {resolved.path} as in {resolved.pivot_path}, found {own.rows:,} and "
            f"{other.rows:,}; align the files line by line",
        )


def _is_there(source: Source, plan: LanguagePlan) -> bool:
    names = [name for name in (source.path, source.pivot_path) if name]
    # os.path, for which a name that no system takes is just none that is there.
    return all(os.path.isfile(plan.data.root / os.path.expanduser(name)) for name in names)


def _content(
    path: Place, role: str, source: Source, seen: Seen, plan: LanguagePlan, identifier: LanguageIdentifier
) -> Iterator[Issue]:
    """What the first rows say, where their columns are right."""
    if "score" in _ROLES[role]:
        try:
            for number, row in enumerate(seen.sample, start=1):
                read_score(source, number, row["score"])
        except DataError as error:
            yield Issue(path, str(error))
    tabs = sum(any("\t" in value for value in row.values()) for row in seen.sample)
    if role == "text" and tabs > len(seen.sample) / 2 and _plain(source):
        yield Issue(
            (*path, "path"),
            f"most lines of {source.path} have tabs, and each would be read as one sentence; a table's name "
            'ends in .tsv, and columns = { text = "its column" } says which column is the text',
        )
        return
    own = ("text",) if source.group else _OWN.get(role, ())
    yield from _languages(path, seen, own, (plan.lang, plan), identifier)
    yield from _languages(path, seen, _PIVOTS.get(role, ()), (plan.pivot, plan), identifier)


def _plain(source: Source) -> bool:
    return ".txt" in Path(source.path or "").suffixes


def _languages(
    path: Place,
    seen: Seen,
    roles: tuple[str, ...],
    expected: tuple[str, LanguagePlan],
    identifier: LanguageIdentifier,
) -> Iterator[Issue]:
    """A warning where the first rows are in another language or script."""
    lang, plan = expected
    texts = [normalize(row[role]) for row in seen.sample for role in roles if row.get(role)]
    try:
        LanguageCheck(lang, identifier, filters=Filters.of(plan.data)).check_share(texts)
    except DataError as error:
        yield Issue(path, f"{seen.name}: {error}", level="warning")
