"""Settings, defaults and ranges agree."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from modenc.data.kinds import TRAINED_ON
from modenc.data.sources import Source
from modenc.ranges import Range
from modenc.recipe.files import DEFAULTS_FILE, recipes_folder
from modenc.recipe.plan import ALSO_READS, READS, SECTIONS, may_read

DEFAULTS = tomllib.loads((recipes_folder() / DEFAULTS_FILE).read_text(encoding="utf-8"))


def settings(cls: type, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting below a dataclass with its type."""
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if is_dataclass(hint) and isinstance(hint, type):
            yield from settings(hint, (*place, name))
        else:
            yield (*place, name), hint


def all_settings() -> dict[tuple[str, ...], Any]:
    found = {}
    for name, section in SECTIONS.items():
        found.update(settings(section, (name,)))
    return found


def default(place: tuple[str, ...]) -> Any:
    table = DEFAULTS
    for key in place:
        table = table[key]
    return table


def test_every_setting_has_its_default_in_the_file_and_nothing_else_is_there():
    stated = {place for name in SECTIONS for place in _leaves(DEFAULTS[name], (name,))}
    assert stated == set(all_settings())
    assert set(DEFAULTS) == {"pivot", "hub", *SECTIONS}


def test_every_number_has_its_range():
    hints = {**all_settings(), **dict(settings(Source, ("source",)))}
    assert [place for place, hint in hints.items() if hint in (int, float)] == []
    ranges = [hint.__metadata__ for hint in hints.values() if get_origin(hint) is Annotated]
    assert len(ranges) > 90
    assert all(isinstance(one, Range) for (one,) in ranges)


@pytest.mark.parametrize(
    ("setting", "issue"),
    [
        ("language_adaptation.mask_probability=1.0", "expected a share above 0 and below 1, found 1.0"),
        ("language_adaptation.lora.alpha=1001", "expected 1 to 1000, found 1001"),
        ("alignment.strength=0", "expected a share above 0, at most 1, found 0"),
        ("alignment.optimizer.warmup_ratio=1.5", "expected a share between 0 and 1, found 1.5"),
        ("decoder.dropout=1", "expected a share of at least 0 and below 1, found 1"),
        ("decoder.max_length=7", "expected 8 or more, found 7"),
        ("emma_x.ranks=1", "expected 2 or more, found 1"),
        ("run.seed=4294967296", "expected a number from 0 to 4294967295, found 4294967296"),
    ],
)
def test_ranges_say_what_is_expected(issues_of, sound, setting, issue):
    assert issues_of(sound, setting) == (f"{setting.partition('=')[0]}: {issue}",)


def _leaves(table: dict[str, Any], place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*place, key))
        else:
            yield (*place, key)


@pytest.mark.parametrize("section", READS)
def test_each_objective_has_an_entry_for_the_data_it_reads(section):
    found = all_settings()
    choices = get_args(found[section, "method" if section == "vocabulary" else "objective"])
    assert READS[section].keys() == set(choices)
    assert may_read(section) <= set(TRAINED_ON)
    assert {(section, key) for key in ALSO_READS.get(section, ())} <= found.keys()
