"""A recipe resolved for each of its languages, and what each objective learns from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any, get_type_hints

from modenc.data.kinds import KINDS, DataKind
from modenc.data.sources import Source
from modenc.licenses import is_allowed
from modenc.recipe import settings
from modenc.recipe.parse import Place
from modenc.recipe.settings import FRESH

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


@dataclass(frozen=True)
class LanguagePlan:
    """All settings for training one language: the recipe, resolved for the language."""

    lang: str
    """Normalized code."""
    pivot: str
    """Code of the language all others are aligned to."""
    hub: Path
    """Hub folder."""
    base: settings.BaseSettings
    run: settings.RunSettings
    data: settings.DataSettings
    vocabulary: settings.VocabularySettings
    language_adaptation: settings.LanguageAdaptationSettings
    sentence_encoding: settings.SentenceEncodingSettings
    alignment: settings.AlignmentSettings
    monolithic: settings.MonolithicSettings
    decoder: settings.DecoderSettings
    musr: settings.MusrSettings
    vmsst: settings.VmsstSettings
    emma_x: settings.EmmaXSettings

    def sources(self, *, all_licenses: bool = False) -> Iterator[tuple[Place, DataKind[Any], Source]]:
        """Yield every source, after its place in the recipe and its kind of data.

        Sources that ``data.licenses`` does not allow are left out, unless ``all_licenses``.
        """
        for name, kind in KINDS.items():
            for position, source in enumerate(getattr(self.data.dev if kind.dev else self.data, name)):
                if all_licenses or kind.dev or is_allowed(source.license, self.data.licenses):
                    yield (*kind.place, position), kind, source

    def modules_needed(self, stage: str) -> list[tuple[str, str, Place]]:
        """List other languages whose published modules a stage reads.

        Each comes with the folder of these modules (``""``: all), and the setting that names the language.
        """
        needed: list[tuple[str, str, Place]] = []
        learns, start = self.learns_from_pivot(stage), self.sentence_encoding.start
        with_start = learns or self.language_adaptation.objective == "distill"
        adapts = stage == "language_adaptation" and with_start
        if (stage == "sentence_encoding" or adapts) and start != FRESH:
            needed.append((start, "se/", ("sentence_encoding", "start")))
        if learns and self.alignment.partners == "pivot":
            needed.append((self.pivot, "", ("pivot",)))
        if learns and stage == "alignment" and self.alignment.start != FRESH:
            needed.append((self.alignment.start, "cla/", ("alignment", "start")))
        return needed

    def learns_from_pivot(self, stage: str) -> bool:
        """Check whether a stage trains the language against the pivot's vectors."""
        objectives = {
            "language_adaptation": self.language_adaptation.objective == "pivot",
            "alignment": self.alignment.objective != "none",
        }
        return self.lang != self.pivot and objectives.get(stage, False)

    def builds_on(self) -> dict[str, Place]:
        """Map the languages whose modules this one starts or learns from to the setting that names them."""
        needed = [entry for stage in settings.STAGES for entry in self.modules_needed(stage)]
        # A language that is named as a start and is the pivot, too, is reported as the start.
        found: dict[str, Place] = {}
        for lang, _, place in sorted(needed, key=lambda entry: entry[2] == ("pivot",)):
            found.setdefault(lang, place)
        return found

    def reads(self, stage: str) -> tuple[str, ...]:
        """List the lists of ``data`` that a stage trains on, in a fixed order."""
        if stage == "vocabulary":
            return READS[stage][self.vocabulary.method]
        if stage == "sentence_encoding":
            also = [names for key, names in ALSO_READS[stage].items() if getattr(self.sentence_encoding, key)]
            return tuple(dict.fromkeys(chain(self.objective_reads(stage), *also)))
        if stage == "language_adaptation" and self.language_adaptation.objective != "pivot":
            return self.objective_reads(stage)
        # Stage 2's 'pivot' reads what stage 4 does.
        lists = self.objective_reads("alignment")
        every_pair = self.alignment.partners == "all" and "cross_paraphrases" in lists
        own = ALSO_READS["alignment"]["partners"] if every_pair else ()
        # The pivot's sentences of cross-lingual data come with the other languages.
        if self.lang == self.pivot:
            return own
        kept = ALSO_READS[stage]["keep_weight"] if stage == "alignment" and self.keeps_passages() else ()
        return (*own, *lists, *kept)

    def objective_reads(self, section: str) -> tuple[str, ...]:
        """List the lists of ``data`` that the objective of a section learns from in a language."""
        objective = getattr(self, section).objective
        lists = READS[section][objective]
        if objective != "emma_x":
            return lists
        unread_at = {"parallel": 0, "text": 1}
        return tuple(name for name in lists if self.emma_x.warmup_share != unread_at[name])

    def keeps_passages(self) -> bool:
        """Check whether alignment keeps the cosines between passages and their queries."""
        alignment = self.alignment
        return bool(alignment.objective != "none" and alignment.keep_weight and self.data.allowed().passages)

    def skips(self, stage: str) -> bool:
        """Check whether a stage has nothing to do: it leaves the modules of the stage before as they are."""
        if stage == "vocabulary":
            return self.vocabulary.method == "base"
        if stage == "sentence_encoding":
            return not self.trains_encoding() and self.sentence_encoding.start == FRESH
        if stage == "language_adaptation":
            objective = self.language_adaptation.objective
            return objective == "none" or (objective == "pivot" and self.lang == self.pivot)
        alone = self.lang == self.pivot and not self.aligns_all_pairs()
        return alone or self.alignment.objective == "none"

    def trains_encoding(self) -> bool:
        """Check whether stage 3 trains, by its objective or after it, as on scored pairs."""
        encoding = self.sentence_encoding
        further = any(getattr(encoding, key) for key in ALSO_READS["sentence_encoding"])
        return encoding.objective != "none" or further

    def aligns_all_pairs(self) -> bool:
        """Check whether all pairs of languages are aligned, in one training, and not each with the pivot."""
        return self.alignment.partners == "all" and self.alignment.objective != "none"


SECTIONS: dict[str, type] = {
    name: hint
    for name, hint in get_type_hints(LanguagePlan).items()
    if isinstance(hint, type) and is_dataclass(hint)
}
"""Name → class of each section of a recipe that is in every language's plan, in the plan's order."""


@dataclass(frozen=True)
class Recipe:
    """A checked recipe: a plan for each language, in the order of training.

    The pivot comes first, and each language after the one that it starts from.
    """

    name: str
    pivot: str
    hub: Path
    plans: dict[str, LanguagePlan]
    text: str
    """The whole resolved recipe as TOML (what ``modenc recipe show`` prints)."""
    start_from: Path | None = None
    """A hub that the pivot and the languages of ``start`` are copied from where ``hub`` lacks them."""
    warnings: tuple[str, ...] = ()
    """A line for each source that ``data.licenses`` leaves out and, if the files were inspected, for each
    probable mistake in them."""
