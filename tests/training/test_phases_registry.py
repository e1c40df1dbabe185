"""Every objective that a recipe can name is known wherever objectives are looked up."""

from typing import get_args

from modenc.recipe.paper_settings import _READS, PAPER_SECTIONS
from modenc.recipe.settings import AlignmentObjective, LanguagePlan
from modenc.training.phases import _PHASES


def names(hint) -> set[str]:
    return {name for part in get_args(hint) for name in (names(part) or {part})}


def test_objectives_of_alignment_say_what_they_read():
    assert names(AlignmentObjective) == set(_READS)


def test_objectives_with_sections_have_phases_and_known_sections():
    assert set(PAPER_SECTIONS) == set(_PHASES)
    sections = {section for wanted in PAPER_SECTIONS.values() for section in wanted}
    assert sections <= set(LanguagePlan.__dataclass_fields__)
