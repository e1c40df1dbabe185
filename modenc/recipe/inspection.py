"""Checks of what a recipe names: files, modules in the hub and the base; and of what the files hold.

These issues would stop or spoil a training hours later. The columns and first rows of each file are compared
with the recipe. More rows, up to a bound, are read to count them and to find the values that filters name.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any

from modenc.data.filters import LanguageCheck, is_same_language
from modenc.data.formats import Row
from modenc.data.joining import ROW_CONDITIONS, GroupPairing, both_sources, joined_by_line
from modenc.data.kinds import TEXT, DataKind
from modenc.data.sources import (
    ResolvedSource,
    Source,
    check_scores,
    describe_source,
    read_raw_rows,
    resolve_source,
    select_rows,
)
from modenc.errors import DataError
from modenc.langid import get_identifier
from modenc.languages import find_code, language_name
from modenc.recipe.issues import Issue, Level, LocatedIssue, Place
from modenc.recipe.paper_settings import data_for_alignment
from modenc.recipe.settings import LanguagePlan, OptimizerSettings, VocabularySettings
from modenc.suggest import closest_match
from modenc.texts import normalize

_BUNDLED = "me5-small"
_BASE: Place = ("base", "model")
_EXPECTED_BASE = f"expected {_BUNDLED!r}, a saved model's folder, or a Hugging Face id"
_SECONDS = 10.0

# Rows whose texts are checked, and bounds on what is read to count rows.
_SAMPLED_ROWS = 200
_MOST_ROWS = 100_000
_MOST_CHARACTERS = 50_000_000
_MOST_VALUES = 1000
_SHOWN = 12

# Most pieces for each distinct word.
_PIECES_A_WORD = 4
# Scripts without spaces between words, whose words cannot be counted: Thai to Myanmar,
# Khmer, Tai and Balinese, kana and Chinese characters, Yi, Javanese, Tai Viet.
_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\u3040-\u30ff\u3400-\u9fff\ua000-\ua4cf"
    "\ua980-\ua9df\uaa80-\uaadf\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_MAX_UNSPACED_SHARE = 0.1
_MAX_PASSES = 20


def missing_files(plan: LanguagePlan) -> Iterator[Issue]:
    """Yield missing files of one language's sources."""
    for path, _, source in plan.sources():
        for key in ("path", "pivot_path"):
            name = getattr(source, key)
            if name and "{" not in (file := plan.fill(name)):
                # The file of another language is not a misspelling.
                must_have = plan.lang if "{lang}" in name else None
                yield from _missing_file((*path, key), file, plan.data.root, must_have)


def _missing_file(path: Place, name: str, root: Path, must_have: str | None) -> Iterator[Issue]:
    file = root / os.path.expanduser(name)
    if os.path.isfile(file):
        return
    if not os.path.isdir(root) and not os.path.isabs(os.path.expanduser(name)):
        # One line for the folder, instead of one for every file in it.
        message = f"expected a folder, found none at '{root}'; override it with data.root=DIR"
        yield Issue(("data", "root"), message)
        return
    match = _near_file(file, must_have)
    hint = f"did you mean {match!r}?" if match else f"paths start at data.root = '{root}'"
    yield Issue(path, f"expected a file, found none at '{file}'; {hint}", (("data", "root"),))


def _near_file(file: Path, must_have: str | None) -> str | None:
    """Find the file of the same folder that was probably meant: another suffix first, then another spelling.

    ``must_have`` is a language's code that must be in the file's name.
    """
    entries = file.parent.iterdir() if os.path.isdir(file.parent) else ()
    names = sorted(entry.name for entry in entries if (must_have or "") in entry.name)
    same_stem = [name for name in names if name.split(".")[0] == file.name.split(".")[0]]
    return next(iter(same_stem or get_close_matches(file.name, names, n=1, cutoff=0.93)), None)


def missing_modules(
    plan: LanguagePlan, languages: Collection[str], chosen: Collection[str], hubs: Sequence[Path]
) -> Iterator[Issue]:
    """Yield languages that a plan builds on but that are neither ``chosen`` for training nor in a hub."""
    needed = plan.builds_on()
    if plan.pivot not in languages:
        # Users of a hub may rely on its pivot, even if no language is aligned to it.
        needed[plan.pivot] = ("pivot",)
    where = f"the hub {' or '.join(repr(str(hub)) for hub in hubs)}"
    for lang, place in needed.items():
        if lang in chosen or any(os.path.isfile(hub / lang / "card.json") for hub in hubs):
            continue
        among, advice = "the languages", f"add [languages.{lang}] or set it to 'fresh'"
        if lang in languages:
            among, advice = "the languages to train", f"train it first, or add --lang {lang}"
        elif place == ("pivot",):
            advice = f"add [languages.{lang}] or point hub.path at a hub that has it"
        yield Issue(place, f"expected {lang!r} among {among} or in {where}, found it in neither; {advice}")


def missing_base(model: str) -> Iterator[Issue]:
    """Check a base's name without loading the base; a warning if Hugging Face cannot be reached."""
    folder = Path(os.path.expanduser(model))
    if model == _BUNDLED:
        return  # made on first use
    if os.path.isdir(folder):
        yield from _wrong_config(folder / "config.json")
    elif model.startswith((".", "/", "~")) or model.partition("@")[0].count("/") > 1:
        yield Issue(_BASE, f"{_EXPECTED_BASE}, found no folder {str(folder)!r}")
    elif match := closest_match(model, [_BUNDLED]):
        yield Issue(_BASE, f"{_EXPECTED_BASE}, found {model!r}; did you mean {match!r}?")
    else:
        yield from _wrong_id(model)


def _wrong_config(config: Path) -> Iterator[Issue]:
    from modenc.base_model.resolve import SUPPORTED_FAMILIES

    if not config.is_file():
        found = f"found a folder without config.json, '{config.parent}'"
        yield Issue(_BASE, f"{_EXPECTED_BASE}, {found}; give a folder written by save_pretrained")
        return
    try:
        family = json.loads(config.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        yield Issue(_BASE, f"'{config}' cannot be read ({error}); save the model again")
        return
    if family not in SUPPORTED_FAMILIES:
        families = ", ".join(SUPPORTED_FAMILIES)
        yield Issue(_BASE, f"expected a model of the families {families}, found {family!r}")


def _wrong_id(model: str) -> Iterator[Issue]:
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    name, _, revision = model.partition("@")
    try:
        cached = try_to_load_from_cache(name, "config.json", revision=revision or None)
        if isinstance(cached, str):
            yield from _wrong_config(Path(cached))
            return
        HfApi().model_info(name, revision=revision or None, timeout=_SECONDS)
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError):
        yield Issue(_BASE, f"{_EXPECTED_BASE}, found {model!r}, which Hugging Face does not know; check it")
    except Exception as error:  # without a network several libraries raise their own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        message = (
            f"{model!r} is not in this machine's cache, and Hugging Face cannot be asked ({reason}); if it "
            f"is right, download it first: hf download {name}"
        )
        yield Issue(_BASE, message, level="warning")


@dataclass
class InspectedSource:
    """Rows of a source, counted up to a bound, and the issues found in them."""

    name: str
    read: int = 0
    """Number of rows read, before any filter."""
    matching: int = 0
    """Number of rows that pass the source's filters; with ``group``, the pairs that they make."""
    read_to_end: bool = False
    """Whether all rows were read."""
    used_in_training: int = 0
    """Number of rows that the training makes of ``matching``."""
    count_is_exact: bool = False
    """Whether ``matching`` counts all rows of the source."""
    sample: list[Row] = field(default_factory=list)
    """First rows that pass, by role."""
    words: set[str] = field(default_factory=set)
    """Distinct words of the rows that pass, if they are counted."""
    values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Column that a filter names → values found there."""
    issues: list[Issue] = field(default_factory=list)


def inspect_data(plans: Mapping[str, LanguagePlan]) -> Iterator[LocatedIssue]:
    """Find issues and likely mistakes in the files of some of a recipe's languages.

    Missing files are skipped, since :func:`missing_files` reports them, and so are public data sets.
    """
    yield from _shared_rows(plans)
    for lang, plan in plans.items():
        inspected: dict[str, list[InspectedSource]] = defaultdict(list)
        for path, kind, source in plan.sources():
            resolved = resolve_source(source, lang, plan.pivot)
            if not kind.dev and not source.license:
                message = 'states no license, and the modules\' card will not either; add license = "..."'
                yield lang, Issue(path, f"{describe_source(resolved)} {message}", level="warning")
            # os.path, not pathlib, which raises an error for names that no system takes.
            files = [os.path.expanduser(name) for name in (resolved.path, resolved.pivot_path) if name]
            if source.dataset is None and all(os.path.isfile(plan.data.root / file) for file in files):
                found = _inspect_files(path, kind, resolved, plan)
                inspected[kind.name].append(found)
                yield from ((lang, issue) for issue in found.issues)
        yield from ((lang, issue) for issue in _check_sizes(plan, inspected))


def _shared_rows(plans: Mapping[str, LanguagePlan]) -> Iterator[LocatedIssue]:
    """Find rows that are given for two languages, though they can be in only one."""
    users: dict[tuple[str, str], list[tuple[str, Place, DataKind[Any], Source]]] = defaultdict(list)
    for lang, plan in plans.items():
        for path, kind, source in plan.sources():
            if kind.shape.in_language:
                resolved = resolve_source(source, plan.lang, plan.pivot)
                rows = replace(resolved, limit=0, repeat=1, license="", translator="")
                users[(kind.name, repr(rows))].append((lang, path, kind, resolved))
    for entries in users.values():
        languages = dict.fromkeys(lang for lang, *_ in entries)
        if len(languages) < 2:
            continue
        # A development set may be in another language on purpose. Training data may not: the language check
        # of the training would drop it.
        checked = [lang for lang in languages if plans[lang].data.check_language]
        dropped = any(not is_same_language(a, b) for a, b in combinations(checked, 2))
        for lang, path, kind, source in entries:
            message = (
                f"the same rows of {describe_source(source)} for {', '.join(languages)}; put {{lang}} into "
                'the path or a column\'s name, choose rows as in where.lang = ["{lang}"], or move it to '
                "[languages.CODE]"
            )
            yield lang, Issue(path, message, level="warning" if kind.dev or not dropped else "error")


def _inspect_files(
    path: Place, kind: DataKind[Any], source: ResolvedSource, plan: LanguagePlan
) -> InspectedSource:
    """Inspect the file of a resolved source, or its two files."""
    joined, grouped = kind.joins(source), kind.groups(source)
    by_line = joined and joined_by_line(source)
    roles = kind.file_roles(source)
    own, other = both_sources(source, plan.data.root) if joined else (source, source)
    if grouped:
        own = replace(source, limit=0)
    column = (source.group,) if grouped else (own.key,) if joined and not by_line else ()
    count_words = kind is TEXT and plan.vocabulary.method != "base"
    inspected = _inspect_source(path, own, (*roles, *column), plan, count_words=count_words)
    # The limit counts the rows that two joined or grouped ones make.
    rows = inspected.matching * (kind.rows_each if grouped or joined else 1)
    if grouped:
        inspected.count_is_exact = inspected.count_is_exact or 0 < source.limit <= rows
    inspected.used_in_training = min(rows, source.limit or rows) * source.repeat
    inspected.issues += _check_content(path, kind, source, inspected, plan)
    if not joined:
        return inspected
    pivots = _inspect_source(path, other, roles if by_line else (*roles, other.key), plan)
    inspected.issues += [*pivots.issues, *_check_languages(path, pivots, roles, plan.pivot, plan)]
    if by_line and inspected.read_to_end and pivots.read_to_end and inspected.read != pivots.read:
        message = (
            f"expected as many lines in {source.path} as in {source.pivot_path}, found "
            f"{inspected.read:,} and {pivots.read:,}; align the files line by line"
        )
        inspected.issues.append(Issue(path, message))
    return inspected


def _check_content(
    path: Place, kind: DataKind[Any], source: Source, inspected: InspectedSource, plan: LanguagePlan
) -> Iterator[Issue]:
    """Check the first rows of a source whose columns are right."""
    if kind.shape.score:
        try:
            list(check_scores(source, inspected.sample))
        except DataError as error:
            yield Issue(path, str(error))
    tabs = sum(any("\t" in value for value in row.values()) for row in inspected.sample)
    if kind is TEXT and tabs > len(inspected.sample) / 2 and ".txt" in Path(source.path or "").suffixes:
        yield Issue(
            (*path, "path"),
            f"most lines of {source.path} have tabs, and each would be read as one sentence; rename it to "
            '.tsv and name the column of the text with columns = { text = "COLUMN" }',
        )
        return
    roles = kind.roles_in_language(source)
    yield from _check_languages(path, inspected, roles, plan.lang, plan)
    yield from _check_languages(path, inspected, kind.in_pivot, plan.pivot, plan)


def _check_languages(
    path: Place, source: InspectedSource, roles: tuple[str, ...], lang: str, plan: LanguagePlan
) -> Iterator[Issue]:
    """Warn if the first rows are in another language or script."""
    if find_code(lang) is None:
        return  # an issue of the recipe's languages
    texts = [normalize(row[role]) for row in source.sample for role in roles if row.get(role)]
    try:
        LanguageCheck(lang, get_identifier(None), filters=plan.data).check_language_share(texts)
    except DataError as error:
        yield Issue(path, f"{source.name}: {error}", level="warning")


def _inspect_source(
    path: Place, source: Source, roles: tuple[str, ...], plan: LanguagePlan, *, count_words: bool = False
) -> InspectedSource:
    """Inspect the resolved source at ``path`` in the recipe, whose rows must have ``roles``."""
    inspected = InspectedSource(describe_source(source))
    pairing = GroupPairing(source.group, tuple(role for role in roles if role != source.group))
    watched = _watched(inspected, source, read_raw_rows(source, plan.data.root, roles))
    try:
        first = next(watched, None)
        if first is None:
            inspected.issues.append(Issue(path, f"{inspected.name}: expected rows, found none"))
            return inspected
        if wrong := list(_wrong_columns(path, source, roles, first, plan)):
            inspected.issues += wrong
            return inspected
        rows = select_rows(chain([first], watched), source, roles)
        for row in islice(rows, source.limit or None):
            inspected.matching += 1
            if len(inspected.sample) < _SAMPLED_ROWS:
                inspected.sample.append(row)
            if count_words:
                inspected.words.update(row["text"].split())
            if source.group:
                pairing.add(row)
    except DataError as error:
        inspected.issues.append(Issue(path, str(error)))
        return inspected
    inspected.count_is_exact = inspected.read_to_end or 0 < source.limit <= inspected.matching
    inspected.issues += _check_filters(path, source, inspected)
    if source.group:
        if inspected.matching and inspected.read_to_end and not pairing.pairs:
            inspected.issues.append(Issue((*path, "group"), f"{inspected.name}: {pairing.error()}"))
        inspected.matching = pairing.pairs
    return inspected


def _watched(inspected: InspectedSource, source: Source, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield rows up to the bound, counting them and collecting the values of columns that filters name."""
    named: dict[str, set[str]] = defaultdict(set)
    for name, values in (*source.where.items(), *source.where_not.items()):
        named[source.columns.get(name, name)].update(values)
    characters = 0
    for row in rows:
        characters += sum(map(len, row.values()))
        if inspected.read == _MOST_ROWS or characters > _MOST_CHARACTERS:
            return
        inspected.read += 1
        for column, wanted in named.items():
            value = row.get(column, "")
            if len(inspected.values[column]) < _MOST_VALUES or value in wanted:
                inspected.values[column].add(value)
        yield row
    inspected.read_to_end = True


def _wrong_columns(
    path: Place, source: Source, roles: tuple[str, ...], row: Row, plan: LanguagePlan
) -> Iterator[Issue]:
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
            guess = closest_match(column, free) or (
                "" if role in keys else _column_of_language(role, free, plan)
            )
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


def _column_of_language(role: str, free: list[str], plan: LanguagePlan) -> str | None:
    """Find the column that is called by the language of a role."""
    code = plan.pivot if role == "pivot" else plan.lang
    name = language_name(code).lower() if find_code(code) else None
    return next((column for column in free if column.lower() == name or find_code(column) == code), None)


def _check_filters(path: Place, source: Source, inspected: InspectedSource) -> Iterator[Issue]:
    """Find filters that no row passes, and values in them that are probably misspelled."""
    for key in ("where", "where_not"):
        for name, values in getattr(source, key).items():
            met = inspected.values[source.columns.get(name, name)]
            for value in values:
                match = None if value in met else closest_match(value, met - set(values))
                if match is not None and inspected.read_to_end:
                    message = f"{inspected.name}: no row has {value!r} in {name!r}; did you mean {match!r}?"
                    yield Issue((*path, key, name), message, level="warning")
    if inspected.matching or not inspected.read:
        return
    found_values = "; ".join(
        f"{column!r} holds {', '.join(map(repr, sorted(values)[:_SHOWN]))}"
        for column, values in inspected.values.items()
    )
    found = f"found none among {'all' if inspected.read_to_end else 'the first'} {inspected.read:,}"
    message = f"{inspected.name}: expected rows that pass the filters, {found}"
    yield Issue(
        path,
        f"{message} ({found_values})" if found_values else message,
        level="error" if inspected.read_to_end else "warning",
    )


def _check_sizes(plan: LanguagePlan, inspected: Mapping[str, Sequence[InspectedSource]]) -> Iterator[Issue]:
    """Find settings too large or too small for a language's data; ``inspected``: kind → its sources."""
    yield from _check_text(plan, inspected.get("text", ()))
    for stage, kinds in _pair_stages(plan):
        optimizer: OptimizerSettings = getattr(plan, stage).optimizer
        steps, batch = optimizer.steps, optimizer.batch_size
        at_once = batch * optimizer.gradient_accumulation
        sources = [source for kind in kinds for source in inspected.get(kind, ())]
        rows = sum(source.used_in_training for source in sources)
        if not steps or not rows or not all(source.count_is_exact for source in sources):
            continue
        # All rows of a batch are of one kind.
        each = {kind: sum(source.used_in_training for source in inspected.get(kind, ())) for kind in kinds}
        if few := {name: count for name, count in each.items() if 0 < count < batch}:
            for name, count in few.items():
                message = (
                    f"data.{name} has {count:,} rows for a batch of {batch}, so its batches have only "
                    f"{count:,}; add data, or use a smaller batch_size"
                )
                yield Issue((stage, "optimizer", "batch_size"), message, level="warning")
        elif (passes := steps * at_once / rows) > _MAX_PASSES:
            message = f"{steps} steps of {at_once} show each of {rows:,} rows {passes:.0f} times"
            yield Issue((stage, "optimizer", "steps"), message, level="note")


def _check_text(plan: LanguagePlan, sources: Sequence[InspectedSource]) -> Iterator[Issue]:
    wrong = any(issue.level == "error" for source in sources for issue in source.issues)
    if not sources or wrong or not all(source.count_is_exact for source in sources):
        return
    lines = sum(source.matching for source in sources)
    used = (
        plan.vocabulary.method != "base",
        plan.language_adaptation.objective not in ("none", "pivot"),
        "text" in plan.reads("sentence_encoding"),
    )
    if any(used) and lines < TEXT.min_rows:
        found = f"expected at least {TEXT.min_rows} lines, found {lines}"
        message = f"{found}; add text, or choose stages that need none"
        yield Issue(("data", "text"), message)
    yield from _check_pieces(plan.vocabulary, lines, set().union(*(source.words for source in sources)))


def _check_pieces(vocabulary: VocabularySettings, lines: int, words: Collection[str]) -> Iterator[Issue]:
    """Find vocabularies with more pieces than can be learned from the text."""
    # "extend" learns only its new pieces from the text; the others are the base's.
    key = "new_pieces" if vocabulary.method == "extend" else "size"
    pieces, most = getattr(vocabulary, key), _PIECES_A_WORD * len(words)
    if vocabulary.method == "base" or not words or pieces <= most:
        return
    if sum(_UNSPACED.search(word) is not None for word in words) > _MAX_UNSPACED_SHARE * len(words):
        return
    message = (
        f"{pieces:,} pieces are more than {lines:,} lines with {len(words):,} different words "
        f"allow; expected at most {most:,}, or method = 'base', which needs no text"
    )
    level: Level = "error" if vocabulary.method == "focus" else "warning"
    yield Issue(("vocabulary", key), message, level=level)


def _pair_stages(plan: LanguagePlan) -> Iterator[tuple[str, list[str]]]:
    """Yield each stage that may read pairs, and their kinds; the pivot has none of ``[alignment]``'s."""
    kinds = [kind for kind in data_for_alignment(plan.alignment.objective, plan.emma_x) if kind != "text"]
    if plan.language_adaptation.objective == "pivot":
        yield "language_adaptation", kinds
    if "paraphrases" in plan.reads("sentence_encoding"):
        yield "sentence_encoding", ["paraphrases"]
    yield "alignment", kinds
