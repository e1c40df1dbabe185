"""What a recipe's languages need of each other, of its hub, and of a hub that it starts from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from modenc.recipe.conflicts import Conflict, sources
from modenc.recipe.faults import Place
from modenc.recipe.licenses import allowed_data
from modenc.recipe.presence import fill, is_in_hub
from modenc.recipe.reads import reads_to_align
from modenc.recipe.settings import FRESH, LanguagePlan

Found = tuple[str | None, Conflict]
"""A conflict and the language that it concerns; None: the whole recipe."""


def conflicts_between(
    plans: Mapping[str, LanguagePlan], languages: Collection[str], pivot: str
) -> Iterator[Found]:
    """What keeps languages from being trained together."""
    together = [lang for lang, plan in plans.items() if plan.aligned_with_all()]
    others = [lang for lang in languages if lang not in together]
    if together and (others or pivot not in languages):
        message = (
            "'all' is one training of all languages, the pivot too: expected it and an objective for "
            f"each; found otherwise for {', '.join(others or [pivot])}"
        )
        yield None, Conflict(("alignment", "partners"), message)
    yield from _before_pivot(plans, pivot)
    # EMMA-X's queue is filled with the pivot's text, which is in the pivot's own plan.
    pivots = plans.get(pivot)
    for lang, plan in plans.items():
        reads = "text" in reads_to_align(plan.alignment.objective, plan.emma_x)
        if reads and lang != pivot and not (pivots and allowed_data(pivots.data).text):
            message = f"'emma_x' needs data.text of the pivot too; add it to [languages.{pivot}]"
            yield lang, Conflict(("alignment", "objective"), message)


def _before_pivot(plans: Mapping[str, LanguagePlan], pivot: str) -> Iterator[Found]:
    """Languages that the pivot starts from, directly or not, and that are to learn from it before."""
    lang, seen = pivot, {pivot}
    while lang in plans and (lang := plans[lang].sentence_encoding.start) in plans and lang not in seen:
        seen.add(lang)
        if plans[lang].language_adaptation.objective == "pivot":
            message = (
                f"'pivot' needs {pivot} trained before: expected a language that {pivot} does not start "
                f"from, found {lang}; choose another objective, or another sentence_encoding.start of {pivot}"
            )
            yield lang, Conflict(("language_adaptation", "objective"), message)


def absent_start(plan: LanguagePlan, languages: Collection[str], hubs: Sequence[Path]) -> Iterator[Conflict]:
    """That the language whose adapter is copied is neither in the recipe nor in a hub."""
    start = plan.sentence_encoding.start
    if start == FRESH or start in languages or is_in_hubs(hubs, start):
        return
    message = (
        f"expected {start!r} among the languages or in {_named(hubs)}, found it in neither; "
        f"add [languages.{start}] or set it to {FRESH!r}"
    )
    yield Conflict(("sentence_encoding", "start"), message)


def absent_pivot(pivot: str, hubs: Sequence[Path]) -> Iterator[Conflict]:
    """That a pivot outside the recipe is in no hub."""
    if not is_in_hubs(hubs, pivot):
        message = (
            f"expected {pivot!r} among the languages or in {_named(hubs)}, found it in neither; "
            f"add [languages.{pivot}] or point hub.path at a hub that has it"
        )
        yield Conflict(("pivot",), message)


def not_chosen(plan: LanguagePlan, others: Collection[str], hubs: Sequence[Path]) -> Iterator[Conflict]:
    """Languages of the recipe that a chosen one builds on and that are neither chosen nor in a hub.

    Args:
        plan: the chosen language's.
        others: the recipe's languages that are not chosen.
        hubs: where other languages' modules may be.
    """
    needs: dict[str, Place] = {plan.sentence_encoding.start: ("sentence_encoding", "start")}
    if plan.alignment.objective != "none" and plan.lang != plan.pivot:
        needs.setdefault(plan.pivot, ("pivot",))
    for lang, place in needs.items():
        if lang in others and not is_in_hubs(hubs, lang):
            message = (
                f"expected {lang!r} among the languages to train or in {_named(hubs)}, found it in neither; "
                f"train it first, or add --lang {lang}"
            )
            yield Conflict(place, message)


def unknown_language(lang: str, plans: Mapping[str, LanguagePlan]) -> str:
    """What to say of a language that is asked for and that the recipe lacks: how to add it."""
    known = ", ".join(plans) or "none"
    text = f"expected one of the recipe's languages ({known}), found {lang!r}; add it with [languages.{lang}]"
    like = next((plan for plan in plans.values() if plan.lang != plan.pivot), None)
    if like is None:
        return text
    named = (source.path for _, _, source in sources(like) if source.path and "{lang}" in source.path)
    files = [path.replace("{lang}", lang) for path in named]
    files = list(dict.fromkeys(fill(path, like) for path in files))
    return f"{text} and its texts as {', '.join(files)} below '{like.data.root}'" if files else text


def is_in_hubs(hubs: Sequence[Path], lang: str) -> bool:
    """Whether one of the hub folders holds a language's modules."""
    return any(is_in_hub(hub, lang) for hub in hubs)


def _named(hubs: Sequence[Path]) -> str:
    return f"the hub {' or '.join(repr(str(hub)) for hub in hubs)}"
