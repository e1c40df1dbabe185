"""Which of a language's data an objective reads."""

from __future__ import annotations

from modenc.recipe.paper_settings import EmmaXSettings
from modenc.recipe.settings import PAPER_SECTIONS

_READS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PAPER_SECTIONS, ("parallel",)),
    "joint": ("cross_paraphrases", "parallel"),
    "paraphrase": ("cross_paraphrases",),
    "parallel": ("parallel",),
    "scored": ("cross_scored_pairs",),
    "scored+parallel": ("cross_scored_pairs", "parallel"),
}


def reads_to_align(objective: str, emma_x: EmmaXSettings) -> tuple[str, ...]:
    """The lists of ``data`` that stage 4, or a paper's monolithic training, reads of each language's own."""
    if objective != "emma_x":
        return _READS.get(objective, ())
    pairs = ("parallel",) if emma_x.warmup_share > 0 and not emma_x.warmup_languages else ()
    return (*pairs, *(("text",) if emma_x.warmup_share < 1 else ()))
