"""Checks of settings that contradict each other, within a language and between languages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from modenc.data.kinds import KINDS, DataKind
from modenc.data.sources import Source, resolve_source
from modenc.recipe.parse import Issue, Place, unknown_keys
from modenc.recipe.plan import ALSO_READS, PHASED_OBJECTIVES, LanguagePlan
from modenc.recipe.settings import FRESH

LONGEST_REPLACEMENT = 4
"""Most characters in place of one: a letter of another script is one to four letters."""


def check_plan(plan: LanguagePlan) -> Iterator[Issue]:
    """Yield every inconsistency in one language's settings."""
    yield from _vocabulary(plan)
    yield from _adapted_to_pivot(plan)
    yield from _missing_data(plan)
    yield from _alignment(plan)
    yield from _least_and_most(plan)
    yield from _steps(plan)
    for path, kind, source in plan.sources():
        yield from _source(path, kind, source)
    yield from unknown_placeholders(("run", "work_dir"), str(plan.run.work_dir), ("recipe",))
    for path, kind, source in plan.sources(all_licenses=True) if plan.data.licenses else ():
        if not kind.dev and not source.license.strip():
            message = "expected a license, since data.licenses is set, found none; state the source's"
            yield Issue((*path, "license"), message, (("data", "licenses"),))


def _vocabulary(plan: LanguagePlan) -> Iterator[Issue]:
    size, new = plan.vocabulary.size, plan.vocabulary.new_pieces
    if plan.vocabulary.method == "extend" and not 0 < new < size:
        message = f"expected fewer than vocabulary.size = {size}, found {new}"
        if new == 0:
            message = "'extend' needs 1 or more, found 0; method = 'trim' adds no pieces"
        yield Issue(("vocabulary", "new_pieces"), message, (("vocabulary", "method"), ("vocabulary", "size")))
    yield from _transliteration(plan)


def _transliteration(plan: LanguagePlan) -> Iterator[Issue]:
    replacements, path = plan.vocabulary.transliteration, ("vocabulary", "transliteration")
    if replacements and plan.vocabulary.method == "base":
        message = (
            "a tokenizer of the language's own reads it: expected vocabulary.method = 'trim', 'extend' or "
            "'focus', found 'base'"
        )
        yield Issue(path, message, (("vocabulary", "method"),))
    for character, text in replacements.items():
        if len(character) != 1:
            yield Issue((*path, character), f"expected a single character as the key, found {character!r}")
        if len(text) > LONGEST_REPLACEMENT or not text.isprintable():
            found = f"expected at most {LONGEST_REPLACEMENT} printable characters, found {text!r:.40}"
            yield Issue((*path, character), found)


def _adapted_to_pivot(plan: LanguagePlan) -> Iterator[Issue]:
    """Check that stage 2, where it learns from the pivot, has stage 4's data and losses and an adapter."""
    if plan.language_adaptation.objective != "pivot" or plan.lang == plan.pivot:
        return
    path: Place = ("language_adaptation", "objective")
    alignment = plan.alignment
    if alignment.objective in ("none", *PHASED_OBJECTIVES) or alignment.partners == "all":
        found = f"partners = {alignment.partners!r} and objective = {alignment.objective!r}"
        message = (
            "'pivot' reads the data and losses of [alignment]: expected partners = 'pivot' and one of joint, "
            f"paraphrase, parallel, scored and scored+parallel there; found {found}"
        )
        yield Issue(path, message, (("alignment", "objective"), ("alignment", "partners")))
    if plan.sentence_encoding.start == FRESH:
        message = (
            "'pivot' learns with the adapter that stage 3 starts from: expected a language's code as "
            f'sentence_encoding.start, found {FRESH!r}; set start = "{plan.pivot}"'
        )
        yield Issue(path, message, (("sentence_encoding", "start"),))


def _missing_data(plan: LanguagePlan) -> Iterator[Issue]:
    """Yield the kinds of data that a stage's setting needs and the recipe lacks."""
    data = plan.data.allowed()
    encoding = plan.sentence_encoding
    needs = [
        ("vocabulary", "method", plan.reads("vocabulary")),
        # For stage 2's 'pivot' [alignment] reports what is missing.
        ("language_adaptation", "objective", plan.objective_reads("language_adaptation")),
        ("sentence_encoding", "objective", plan.objective_reads("sentence_encoding")),
        *(
            ("sentence_encoding", key, lists if getattr(encoding, key) else ())
            for key, lists in ALSO_READS["sentence_encoding"].items()
        ),
        ("alignment", "objective", plan.reads("alignment")),
    ]
    for section, key, lists in needs:
        choice = getattr(getattr(plan, section), key)
        if missing := [name for name in lists if not getattr(data, name)]:
            names = " and ".join(f"data.{name}" for name in missing)
            there = any(getattr(plan.data, name) for name in missing)
            found = "none that data.licenses allows" if there else "none"
            message = f"{choice!r} needs {names}, found {found}; add sources or choose another {key}"
            yield Issue((section, key), message, tuple(("data", name) for name in missing))


def _alignment(plan: LanguagePlan) -> Iterator[Issue]:
    """Yield settings that an objective or ``partners`` does not support."""

    def only(key: str, **allowed: tuple[Any, ...]) -> Iterator[Issue]:
        for name, values in allowed.items():
            if (value := getattr(plan.alignment, name)) not in values:
                why = f"with {key} = {getattr(plan.alignment, key)!r}"
                message = f"{why} expected {', '.join(map(str, values))}; found {value}"
                yield Issue(("alignment", name), message, (("alignment", key),))

    objective = plan.alignment.objective
    if plan.aligns_all_pairs():
        # The settings below need a pivot that is frozen.
        yield from only(
            "partners",
            objective=("joint", "paraphrase", "parallel"),
            start=(FRESH,),
            keep_weight=(0.0,),
            similarity_weight=(0.0,),
            pivot_negatives=(0,),
            strength=(1.0,),
        )
    if objective in PHASED_OBJECTIVES:
        yield from only("objective", keep_weight=(0.0,), similarity_weight=(0.0,))
    if objective == "scored" and not plan.keeps_passages():
        # Without passages keep_weight applies to the sentences of translations and paraphrases.
        yield from only("objective", keep_weight=(0.0,))


def _least_and_most(plan: LanguagePlan) -> Iterator[Issue]:
    for section, low, high in (
        ("data", "min_chars", "max_chars"),
        ("emma_x", "temperature", "temperature_top"),
    ):
        least, most = getattr(getattr(plan, section), low), getattr(getattr(plan, section), high)
        if least > most:
            message = f"expected at most {section}.{high} = {most}, found {least}"
            yield Issue((section, low), message, ((section, high),))


def _steps(plan: LanguagePlan) -> Iterator[Issue]:
    for stage in ("language_adaptation", "sentence_encoding", "alignment", "monolithic"):
        settings = getattr(plan, stage)
        if settings.optimizer.steps == settings.optimizer.epochs == 0 and settings.objective != "none":
            message = "steps and epochs are both 0; set one of them, or objective = 'none'"
            others = ((stage, "optimizer", "epochs"), (stage, "objective"))
            yield Issue((stage, "optimizer", "steps"), message, others)


def _source(path: Place, kind: DataKind[Any], source: Source) -> Iterator[Issue]:
    if bool(source.path) == bool(source.dataset):
        yield Issue(path, f"expected either path or dataset, found {'both' if source.path else 'neither'}")
    roles = kind.grouped if source.group and kind.grouped else kind.columns
    yield from unknown_keys(source.columns, roles, (*path, "columns"), "no column of this kind of data")
    yield from _group(path, kind, source)
    # A name such as kk.txt.tsv is a table's.
    if kind.joins(source) and (source.path or "").removesuffix(".gz").removesuffix(".zst").endswith(".txt"):
        yield Issue(
            (*path, "path"),
            "expected a table, which a column joins with pivot_path, found a text file; make one table "
            "of the two (docs/training.md: paste)",
        )
    if kind.across and not (source.pivot_path or source.group):
        found = ", or group; found neither" if kind.grouped else "; found none"
        yield Issue(path, f"expected pivot_path, the same rows in the pivot language{found}")
    for key in ("path", "pivot_path", "dataset", "config", "group"):
        yield from unknown_placeholders((*path, key), getattr(source, key), ("lang", "pivot"))


def _group(path: Place, kind: DataKind[Any], source: Source) -> Iterator[Issue]:
    if not source.group:
        return
    place = (*path, "group")
    if not kind.grouped:
        lists = " and ".join(name for name, other in KINDS.items() if other.grouped)
        yield Issue(place, f"expected it in {lists} alone, whose rows it pairs; found it in {kind.name}")
        return
    if source.pivot_path:
        yield Issue(
            (*path, "pivot_path"),
            "with group expected one file, with the pivot's texts in a column, found two; leave out either",
            (place,),
        )
    for name in kind.grouped:
        if source.group in (name, source.columns.get(name, name)):
            message = f"expected a column beside the texts, found that of {name!r}"
            yield Issue(place, f"{message}; name one that rows of one meaning share")


def unknown_placeholders(path: Place, text: str | None, known: tuple[str, ...]) -> Iterator[Issue]:
    """Yield each ``{name}`` in a setting's text that is not a known placeholder."""
    for name in re.findall(r"\{(\w*)\}", text or ""):
        if name not in known:
            choices = " or ".join(f"{{{choice}}}" for choice in known)
            yield Issue(path, f"expected {choices} as a placeholder, found {{{name}}}")


def check_languages(
    plans: Mapping[str, LanguagePlan], languages: Collection[str], pivot: str
) -> Iterator[Issue]:
    """Yield inconsistencies between the settings of different languages."""
    all_pairs = [lang for lang, plan in plans.items() if plan.aligns_all_pairs()]
    others = [lang for lang in languages if lang not in all_pairs]
    if all_pairs and (others or pivot not in languages):
        message = (
            "'all' aligns all pairs of languages in one training: expected 'all' and an objective for every "
            f"language, the pivot too; found otherwise for {', '.join(others or [pivot])}"
        )
        yield Issue(("alignment", "partners"), message)
    # The pivot's text, which fills EMMA-X's queue, is in the pivot's own plan.
    pivots = plans.get(pivot)
    for lang, plan in plans.items():
        start = plan.sentence_encoding.start
        if start in plans and (lang == pivot or plan.aligns_all_pairs()):
            why = "the pivot is trained first" if lang == pivot else "all languages are aligned at once"
            message = (
                f"{why}: expected {FRESH!r} or a language that is in the hub and not in this recipe, "
                f"found {start!r}"
            )
            yield Issue(("sentence_encoding", "start"), message, lang=lang)
        reads = "text" in plan.objective_reads("alignment")
        if reads and lang != pivot and not (pivots and pivots.data.allowed().text):
            message = f"'emma_x' needs data.text of the pivot too; add it to [languages.{pivot}]"
            yield Issue(("alignment", "objective"), message, lang=lang)


def unknown_language(lang: str, plans: Mapping[str, LanguagePlan]) -> str:
    """Write the message about a language that the recipe lacks, with how to add it."""
    known = ", ".join(plans) or "none"
    text = f"expected one of the recipe's languages ({known}), found {lang!r}; add it with [languages.{lang}]"
    like = next((plan for plan in plans.values() if plan.lang != plan.pivot), None)
    if like is None:
        return text
    named = [source for _, _, source in like.sources() if source.path and "{lang}" in source.path]
    files = dict.fromkeys(str(resolve_source(source, lang, like.pivot).path) for source in named)
    return f"{text} and its texts as {', '.join(files)} below '{like.data.root}'" if files else text
