"""Settings that are right one by one and impossible together, within a language and between languages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from modenc.recipe.data_settings import GROUPED, ROLES, Source
from modenc.recipe.issues import Found, Issue, Place, unknown_keys
from modenc.recipe.licenses import allowed_data, fill, sources, unstated_licenses
from modenc.recipe.paper_settings import PAPER_SECTIONS, data_for_alignment
from modenc.recipe.settings import FRESH, LanguagePlan

# The settings that decide which data a stage reads.
_CHOICES = (
    ("vocabulary", "method"),
    ("language_adaptation", "objective"),
    ("sentence_encoding", "objective"),
    ("sentence_encoding", "scored_steps"),
    ("alignment", "objective"),
)


def check_plan(plan: LanguagePlan) -> Iterator[Issue]:
    """All that is inconsistent among one language's settings."""
    yield from _vocabulary(plan)
    yield from _adapted_to_pivot(plan)
    yield from _missing_data(plan)
    yield from _alignment(plan)
    yield from _least_and_most(plan)
    yield from _steps(plan)
    for path, role, source in sources(plan):
        yield from _source(path, role, source)
    yield from unknown_placeholders(("run", "work_dir"), str(plan.run.work_dir), ("recipe",))
    yield from unstated_licenses(plan)


def _vocabulary(plan: LanguagePlan) -> Iterator[Issue]:
    size, new = plan.vocabulary.size, plan.vocabulary.new_pieces
    message = ""
    if new >= size:
        message = f"expected fewer than vocabulary.size = {size}, found {new}"
    elif new == 0:
        message = "'extend' needs 1 or more, found 0; method = 'trim' adds no pieces"
    if message and plan.vocabulary.method == "extend":
        depends_on: tuple[Place, ...] = (("vocabulary", "method"), ("vocabulary", "size"))
        yield Issue(("vocabulary", "new_pieces"), message, depends_on)


def _adapted_to_pivot(plan: LanguagePlan) -> Iterator[Issue]:
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
        yield Issue(path, message, (("alignment", "objective"), ("alignment", "partners")))
    if plan.sentence_encoding.start == FRESH:
        message = (
            "'pivot' learns with the adapter that stage 3 starts from: expected a language's code as "
            f'sentence_encoding.start, found {FRESH!r}; set start = "{plan.pivot}"'
        )
        yield Issue(path, message, (("sentence_encoding", "start"),))


def _missing_data(plan: LanguagePlan) -> Iterator[Issue]:
    """What each stage's choice needs and the recipe's data do not have."""
    data = allowed_data(plan.data)
    for section, key in _CHOICES:
        choice = getattr(getattr(plan, section), key)
        # What 'pivot' needs is said of [alignment].
        lists = () if choice == "pivot" else plan.reads(section)
        missing = [name for name in lists if not getattr(data, name)]
        if missing := [name for name in missing if (name == "scored_pairs") == (key == "scored_steps")]:
            names = " and ".join(f"data.{name}" for name in missing)
            there = any(getattr(plan.data, name) for name in missing)
            found = "none that data.licenses allows" if there else "none"
            message = f"{choice!r} needs {names}, found {found}; add sources or choose another {key}"
            yield Issue((section, key), message, tuple(("data", name) for name in missing))


def _alignment(plan: LanguagePlan) -> Iterator[Issue]:
    """What some kinds of alignment do not have."""

    def only(key: str, **allowed: tuple[Any, ...]) -> Iterator[Issue]:
        for name, values in allowed.items():
            if (value := getattr(plan.alignment, name)) not in values:
                why = f"with {key} = {getattr(plan.alignment, key)!r}"
                message = f"{why} expected {', '.join(map(str, values))}; found {value}"
                yield Issue(("alignment", name), message, (("alignment", key),))

    objective = plan.alignment.objective
    if plan.aligned_with_all():
        # What holds a language where it was, or uses the pivot's cached vectors, needs a pivot that rests.
        yield from only(
            "partners",
            objective=("joint", "paraphrase", "parallel"),
            keep_weight=(0.0,),
            similarity_weight=(0.0,),
            pivot_negatives=(0,),
            strength=(1.0,),
        )
    if objective in PAPER_SECTIONS:
        yield from only("objective", keep_weight=(0.0,), similarity_weight=(0.0,))
    if objective == "scored":
        # keep_weight is of the sentences of translations and paraphrases.
        yield from only("objective", keep_weight=(0.0,))
    if objective == "emma_x" and plan.emma_x.warmup_languages and plan.emma_x.warmup_share == 1:
        message = "with warmup_languages expected less than 1.0, found 1.0: no step is left for the language"
        yield Issue(("emma_x", "warmup_share"), message, (("emma_x", "warmup_languages"),))


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
            depends_on: tuple[Place, ...] = ((stage, "optimizer", "epochs"), (stage, "objective"))
            yield Issue((stage, "optimizer", "steps"), message, depends_on)


def _source(path: Place, role: str, source: Source) -> Iterator[Issue]:
    kinds = [kind for kind in ("path", "dataset", "gettext") if getattr(source, kind)]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        yield Issue(path, f"expected exactly one of path, dataset and gettext, found {found}")
    roles = GROUPED.get(role, ROLES[role]) if source.group else ROLES[role]
    yield from unknown_keys(source.columns, roles, (*path, "columns"), "no column of this kind of data")
    yield from _group(path, role, source)
    if role in ("cross_paraphrases", "cross_scored_pairs") and not (source.pivot_path or source.group):
        found = ", or group; found neither" if role in GROUPED else "; found none"
        yield Issue(path, f"expected pivot_path, the same rows in the pivot language{found}")
    if source.gettext and role not in ("text", "parallel"):
        yield Issue((*path, "gettext"), "catalogues give text and parallel pairs only")
    for key in ("path", "pivot_path", "dataset", "config", "lang", "group"):
        yield from unknown_placeholders((*path, key), getattr(source, key), ("lang", "pivot"))


def _group(path: Place, role: str, source: Source) -> Iterator[Issue]:
    if not source.group:
        return
    place = (*path, "group")
    if role not in GROUPED:
        lists = " and ".join(GROUPED)
        yield Issue(place, f"expected it in {lists} alone, whose rows it pairs; found it in {role}")
        return
    if source.pivot_path:
        yield Issue(
            (*path, "pivot_path"),
            "with group expected one file, with the pivot's texts in a column, found two; leave out either",
            (place,),
        )
    for name in GROUPED[role]:
        if source.group in (name, source.columns.get(name, name)):
            message = f"expected a column beside the texts, found that of {name!r}"
            yield Issue(place, f"{message}; name one that rows of one meaning share")


def unknown_placeholders(path: Place, text: str | None, known: tuple[str, ...]) -> Iterator[Issue]:
    """``{words}`` in a setting's text that stand for nothing."""
    for name in re.findall(r"\{(\w*)\}", text or ""):
        if name not in known:
            choices = " or ".join(f"{{{choice}}}" for choice in known)
            yield Issue(path, f"expected {choices} as a placeholder, found {{{name}}}")


def check_together(
    plans: Mapping[str, LanguagePlan], languages: Collection[str], pivot: str
) -> Iterator[Found]:
    """What keeps languages from being trained together."""
    together = [lang for lang, plan in plans.items() if plan.aligned_with_all()]
    others = [lang for lang in languages if lang not in together]
    if together and (others or pivot not in languages):
        message = (
            "'all' trains all languages together, the pivot too: expected it and an objective for each; "
            f"found otherwise for {', '.join(others or [pivot])}"
        )
        yield None, Issue(("alignment", "partners"), message)
    yield from _before_pivot(plans, pivot)
    # EMMA-X's queue is filled with the pivot's text, which is in the pivot's own plan.
    pivots = plans.get(pivot)
    for lang, plan in plans.items():
        reads = "text" in data_for_alignment(plan.alignment.objective, plan.emma_x)
        if reads and lang != pivot and not (pivots and allowed_data(pivots.data).text):
            message = f"'emma_x' needs data.text of the pivot too; add it to [languages.{pivot}]"
            yield lang, Issue(("alignment", "objective"), message)


def _before_pivot(plans: Mapping[str, LanguagePlan], pivot: str) -> Iterator[Found]:
    """Languages that the pivot starts from, directly or not, and that are to learn from it before."""
    lang, seen = pivot, {pivot}
    while lang in plans and (lang := plans[lang].sentence_encoding.start) in plans and lang not in seen:
        seen.add(lang)
        if plans[lang].language_adaptation.objective == "pivot":
            message = (
                f"'pivot' needs a trained {pivot}: expected a language that {pivot} does not start "
                f"from, found {lang}; choose another objective, or another sentence_encoding.start of {pivot}"
            )
            yield lang, Issue(("language_adaptation", "objective"), message)


def unknown_language(lang: str, plans: Mapping[str, LanguagePlan]) -> str:
    """What to say of a language that is asked for and that the recipe lacks: how to add it."""
    known = ", ".join(plans) or "none"
    text = f"expected one of the recipe's languages ({known}), found {lang!r}; add it with [languages.{lang}]"
    like = next((plan for plan in plans.values() if plan.lang != plan.pivot), None)
    if like is None:
        return text
    named = (source.path for _, _, source in sources(like) if source.path and "{lang}" in source.path)
    files = list(dict.fromkeys(fill(path.replace("{lang}", lang), like) for path in named))
    return f"{text} and its texts as {', '.join(files)} below '{like.data.root}'" if files else text
