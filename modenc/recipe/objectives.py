"""What each objective learns from, in two tables that checks, stages and cards read."""

from __future__ import annotations

PHASED_OBJECTIVES: dict[str, tuple[str, ...]] = {
    "contrastive": (),
    "bitranslation": ("decoder", "vmsst"),
    "vmsst": ("decoder", "vmsst"),
    "vmsst_contrastive": ("decoder", "vmsst"),
    "musr": ("decoder", "musr"),
    "emma_x": ("emma_x",),
}
"""Objectives that ``training/phases.py`` runs, the other papers' → the sections that they have besides."""

_PHASED = {**dict.fromkeys(PHASED_OBJECTIVES, ("parallel",)), "emma_x": ("parallel", "text")}

READS: dict[str, dict[str, tuple[str, ...]]] = {
    "vocabulary": {"base": (), "trim": ("text",), "extend": ("text",), "focus": ("text",)},
    "language_adaptation": {
        "none": (),
        "mlm": ("text",),
        "distill": ("text",),
        "mlm+distill": ("text",),
        # What stage 4 reads.
        "pivot": (),
    },
    "sentence_encoding": {
        "none": (),
        "mnrl": ("paraphrases",),
        "simcse": ("text",),
        "mnrl+simcse": ("paraphrases", "text"),
    },
    "alignment": {
        "none": (),
        "joint": ("cross_paraphrases", "parallel"),
        "paraphrase": ("cross_paraphrases",),
        "parallel": ("parallel",),
        "scored": ("cross_scored_pairs",),
        "scored+parallel": ("cross_scored_pairs", "parallel"),
        **_PHASED,
    },
    "monolithic": {
        "pivot": ("paraphrases",),
        "monolingual": ("paraphrases",),
        "cross": ("cross_paraphrases",),
        "monolingual+cross": ("paraphrases", "cross_paraphrases"),
        **_PHASED,
    },
}
"""Section → its objective (the vocabulary's: method) → the lists of ``data`` that it reads, in the order of
their batches."""

ALSO_READS: dict[str, dict[str, tuple[str, ...]]] = {
    "sentence_encoding": {
        "scored_steps": ("scored_pairs",),
        "keep_ranking_steps": ("scored_pairs", "passages"),
    },
    # With cross_paraphrases, all pairs of languages learn from each one's own paraphrases, too.
    "alignment": {"keep_weight": ("passages",), "partners": ("paraphrases",)},
}
"""Section → a setting that can be on → the lists of ``data`` that it reads beside the objective's."""


def may_read(section: str) -> frozenset[str]:
    """Return all lists of ``data`` that a section reads with one choice or another."""
    lists = [*READS[section].values(), *ALSO_READS.get(section, {}).values()]
    return frozenset(name for found in lists for name in found)
