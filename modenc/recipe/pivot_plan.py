"""The plan of the language that all others are aligned to."""

from __future__ import annotations

from dataclasses import replace

from modenc.recipe.settings import LanguagePlan


def as_pivot(plan: LanguagePlan) -> LanguagePlan:
    """The plan without what only languages that are aligned to the pivot have."""
    objective = plan.alignment.objective if plan.alignment.partners == "all" else "none"
    data = replace(
        plan.data,
        parallel=(),
        cross_paraphrases=(),
        cross_scored_pairs=(),
        dev=replace(plan.data.dev, cross_sts=()),
    )
    return replace(
        plan,
        data=data,
        alignment=replace(plan.alignment, objective=objective),
    )
