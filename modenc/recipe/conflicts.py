"""Settings that are right one by one and impossible together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from modenc.recipe.faults import Place, did_you_mean
from modenc.recipe.licenses import TRAINED_ON, allowed_data, is_allowed
from modenc.recipe.reads import reads_to_align
from modenc.recipe.settings import FRESH, PAPER_SECTIONS, LanguagePlan, Source

ROLES: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "paraphrases": ("anchor", "positive", "negative"),
    "scored_pairs": ("sentence1", "sentence2", "score"),
    "parallel": ("pivot", "text"),
    "cross_paraphrases": ("anchor", "positive", "negative"),
    "cross_scored_pairs": ("sentence1", "sentence2", "score"),
    "sts": ("sentence1", "sentence2", "score"),
    "cross_sts": ("sentence1", "sentence2", "score"),
}
"""What the columns of each list of sources are for."""

GROUPED: dict[str, tuple[str, ...]] = {"paraphrases": ("text",), "cross_paraphrases": ("text", "pivot")}
"""The same where ``group`` says which rows are paraphrases of each other."""

PLACEHOLDERS = ("lang", "pivot")


Level = Literal["fault", "warning", "note"]


@dataclass(frozen=True)
class Conflict:
    """A fault at ``path`` that rests on the values at ``reads`` being what their author meant."""

    path: Place
    message: str
    reads: tuple[Place, ...] = ()
    level: Level = "fault"
    """A warning is probably a fault; a note is worth knowing."""


def conflicts(plan: LanguagePlan) -> Iterator[Conflict]:
    """All conflicts among one language's settings."""
    yield from _vocabulary(plan)
    yield from _adapted_to_pivot(plan)
    yield from _missing_data(plan)
    yield from _all_pairs(plan)
    yield from _papers(plan)
    yield from _lengths_and_steps(plan)
    for path, role, source in sources(plan):
        yield from _source(path, role, source)


def sources(plan: LanguagePlan, *, all_licenses: bool = False) -> Iterator[tuple[Place, str, Source]]:
    """Every source of a language with its place in the recipe and the list it is in.

    Those that ``data.licenses`` leaves out are left out here too, unless ``all_licenses``.
    """
    for role in ROLES:
        trained_on = role in TRAINED_ON
        section: Any = plan.data if trained_on else plan.data.dev
        where: Place = ("data", role) if trained_on else ("data", "dev", role)
        for position, source in enumerate(getattr(section, role)):
            if all_licenses or not trained_on or is_allowed(source.licence, plan.data.licenses):
                yield (*where, position), role, source


def _vocabulary(plan: LanguagePlan) -> Iterator[Conflict]:
    vocabulary = plan.vocabulary
    if vocabulary.method != "extend":
        return
    reads: tuple[Place, ...] = (("vocabulary", "method"), ("vocabulary", "size"))
    path: Place = ("vocabulary", "new_pieces")
    if vocabulary.new_pieces >= vocabulary.size:
        yield Conflict(
            path,
            f"expected fewer than vocabulary.size = {vocabulary.size}, found {vocabulary.new_pieces}",
            reads,
        )
    if vocabulary.new_pieces == 0:
        yield Conflict(path, "'extend' needs 1 or more, found 0; method = 'trim' adds no pieces", reads)


def _adapted_to_pivot(plan: LanguagePlan) -> Iterator[Conflict]:
    """Stage 2 from the pivot reads stage 4's data and losses, and the adapter that stage 3 starts from."""
    if plan.language_adaptation.objective != "pivot" or plan.lang == plan.pivot:
        return
    path: Place = ("language_adaptation", "objective")
    alignment = plan.alignment
    if alignment.objective in ("none", *PAPER_SECTIONS) or alignment.partners == "all":
        found = f"partners = {alignment.partners!r} and objective = {alignment.objective!r}"
        message = (
            "'pivot' reads the data and losses of [alignment]: expected partners = 'pivot' and one of joint, "
            f"paraphrase, parallel, scored and scored+parallel there; found {found}"
        )
        yield Conflict(path, message, (("alignment", "objective"), ("alignment", "partners")))
    if plan.sentence_encoding.start == FRESH:
        message = (
            "'pivot' learns with the adapter that stage 3 starts from: expected a language's code as "
            f'sentence_encoding.start, found {FRESH!r}; say start = "{plan.pivot}"'
        )
        yield Conflict(path, message, (("sentence_encoding", "start"),))


def _all_pairs(plan: LanguagePlan) -> Iterator[Conflict]:
    """What holds a language where it was, or uses the pivot's cached vectors, needs a pivot that rests."""
    alignment = plan.alignment
    if alignment.partners == "pivot" or alignment.objective == "none":
        return
    for name, value, wanted in (
        ("objective", alignment.objective, ("joint", "paraphrase", "parallel")),
        ("keep_weight", alignment.keep_weight, (0.0,)),
        ("similarity_weight", alignment.similarity_weight, (0.0,)),
        ("pivot_negatives", alignment.pivot_negatives, (0,)),
        ("strength", alignment.strength, (1.0,)),
    ):
        if value not in wanted:
            choices = ", ".join(str(choice) for choice in wanted)
            message = f"with partners = 'all' expected {choices}; found {value}"
            yield Conflict(("alignment", name), message, (("alignment", "partners"),))


def _missing_data(plan: LanguagePlan) -> Iterator[Conflict]:
    """What each stage's choice needs and the recipe's data do not have."""
    needs: list[tuple[Place, str, tuple[str, ...]]] = [
        (
            ("vocabulary", "method"),
            plan.vocabulary.method,
            () if plan.vocabulary.method == "base" else ("text",),
        ),
        (
            ("language_adaptation", "objective"),
            plan.language_adaptation.objective,
            () if plan.language_adaptation.objective in ("none", "pivot") else ("text",),
        ),
        (
            ("sentence_encoding", "objective"),
            plan.sentence_encoding.objective,
            {"mnrl": ("paraphrases",), "simcse": ("text",), "mnrl+simcse": ("paraphrases", "text")}.get(
                plan.sentence_encoding.objective, ()
            ),
        ),
        (
            ("sentence_encoding", "scored_steps"),
            str(plan.sentence_encoding.scored_steps),
            ("scored_pairs",) if plan.sentence_encoding.scored_steps else (),
        ),
        (("alignment", "objective"), plan.alignment.objective, _aligned_by(plan)),
    ]
    data = allowed_data(plan.data)
    for path, choice, lists in needs:
        missing = [name for name in lists if not getattr(data, name)]
        if missing:
            names = " and ".join(f"data.{name}" for name in missing)
            there = any(getattr(plan.data, name) for name in missing)
            found = "none that data.licenses allows" if there else "none"
            message = f"{choice!r} needs {names}, found {found}; add sources or choose another {path[-1]}"
            yield Conflict(path, message, tuple(("data", name) for name in missing))


def _aligned_by(plan: LanguagePlan) -> tuple[str, ...]:
    """The data that alignment reads."""
    found = reads_to_align(plan.alignment.objective, plan.emma_x)
    if plan.alignment.partners == "pivot":
        return found
    own = ("paraphrases",) if "cross_paraphrases" in found else ()
    # The pivot's side of the rest comes with the other languages.
    return own if plan.lang == plan.pivot else (*own, *found)


def _papers(plan: LanguagePlan) -> Iterator[Conflict]:
    """What the other papers' objectives do not have, or what their parts cannot be."""
    alignment = plan.alignment
    unheld: tuple[str, ...] = ()
    if alignment.objective in PAPER_SECTIONS:
        unheld = ("keep_weight", "similarity_weight")
    elif alignment.objective == "scored":
        # It holds the sentences of translations and paraphrases.
        unheld = ("keep_weight",)
    for name in unheld:
        if value := getattr(alignment, name):
            message = f"with objective = {alignment.objective!r} expected 0.0, found {value}"
            yield Conflict(("alignment", name), message, (("alignment", "objective"),))
    if alignment.objective == "emma_x" and plan.emma_x.warmup_languages and plan.emma_x.warmup_share == 1:
        message = "1.0 leaves no step for the language: warmup_languages teach the classifier alone"
        yield Conflict(("emma_x", "warmup_share"), message, (("emma_x", "warmup_languages"),))
    if plan.emma_x.temperature_top < plan.emma_x.temperature:
        found = f"temperature = {plan.emma_x.temperature}, found {plan.emma_x.temperature_top}"
        message = f"likeness that is looser needs no lower temperature: expected at least {found}"
        yield Conflict(("emma_x", "temperature_top"), message, (("emma_x", "temperature"),))


def _lengths_and_steps(plan: LanguagePlan) -> Iterator[Conflict]:
    if plan.data.min_chars > plan.data.max_chars:
        yield Conflict(
            ("data", "min_chars"),
            f"expected at most data.max_chars = {plan.data.max_chars}, found {plan.data.min_chars}",
            (("data", "max_chars"),),
        )
    for stage in ("language_adaptation", "sentence_encoding", "alignment", "monolithic"):
        optimizer = getattr(plan, stage).optimizer
        if optimizer.steps == 0 and optimizer.epochs == 0 and getattr(plan, stage).objective != "none":
            path: Place = (stage, "optimizer", "steps")
            message = "steps and epochs are both 0; set one of them, or objective = 'none'"
            yield Conflict(path, message, ((stage, "optimizer", "epochs"), (stage, "objective")))


def _source(path: Place, role: str, source: Source) -> Iterator[Conflict]:
    kinds = [kind for kind in ("path", "dataset", "gettext") if getattr(source, kind)]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        yield Conflict(path, f"expected exactly one of path, dataset and gettext, found {found}")
    roles = GROUPED.get(role, ROLES[role]) if source.group else ROLES[role]
    for name in source.columns:
        if name not in roles:
            hint = did_you_mean(name, roles)
            yield Conflict((*path, "columns", name), f"no column of this kind of data{hint}")
    yield from _group(path, role, source)
    if role in ("cross_paraphrases", "cross_scored_pairs") and not (source.pivot_path or source.group):
        found = ", or group; found neither" if role in GROUPED else "; found none"
        yield Conflict(path, f"expected pivot_path, the same rows in the pivot language{found}")
    if source.gettext and role not in ("text", "parallel"):
        yield Conflict((*path, "gettext"), "catalogues give text and parallel pairs only")
    for key in ("path", "pivot_path", "dataset", "config", "lang", "group"):
        yield from unknown_placeholders((*path, key), getattr(source, key), PLACEHOLDERS)


def _group(path: Place, role: str, source: Source) -> Iterator[Conflict]:
    if not source.group:
        return
    place = (*path, "group")
    if role not in GROUPED:
        lists = " and ".join(GROUPED)
        yield Conflict(place, f"only {lists} are paired by it; found it in {role}, leave it out")
        return
    if source.pivot_path:
        yield Conflict(
            (*path, "pivot_path"),
            "with group expected one file, with the pivot's texts in a column, found two; leave out either",
            (place,),
        )
    for name in GROUPED[role]:
        if source.group in (name, source.columns.get(name, name)):
            message = f"expected a column beside the texts, found that of {name!r}"
            yield Conflict(place, f"{message}; name one that rows of one meaning share")


def unknown_placeholders(path: Place, text: str | None, known: tuple[str, ...]) -> Iterator[Conflict]:
    """``{words}`` in a setting's text that stand for nothing."""
    for name in re.findall(r"\{(\w*)\}", text or ""):
        if name not in known:
            choices = " or ".join(f"{{{choice}}}" for choice in known)
            yield Conflict(path, f"expected {choices} as a placeholder, found {{{name}}}")
