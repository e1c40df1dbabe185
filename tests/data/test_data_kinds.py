"""The table of kinds of data agrees with settings, training data, and what recipes are asked for."""

from dataclasses import fields

import pytest

from modenc.data.kinds import KINDS, TRAINED_ON, DataKind
from modenc.data.sources import Source
from modenc.recipe.settings import DataSettings, DevSettings


def _lists(cls):
    return {field.name for field in fields(cls) if field.type == "tuple[Source, ...]"}


def test_every_kind_is_a_list_of_sources_in_the_settings_and_the_reverse():
    assert set(TRAINED_ON) == _lists(DataSettings)
    assert set(KINDS) - set(TRAINED_ON) == _lists(DevSettings)


def test_every_kind_that_is_trained_on_is_read_by_training_data():
    pytest.importorskip("peft", reason="the training half is not installed")
    from modenc.training.data_access import TrainingData

    assert all(hasattr(TrainingData, name) for name in TRAINED_ON)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kinds_roles_are_columns_that_a_recipe_may_name(kind: DataKind):
    sources = {"grouped": Source(path="a.tsv", group="id")} if kind.grouped else {}
    sources |= {"joined": Source(path="a.tsv", pivot_path="b.tsv")} if kind.joined else {}
    sources |= {} if kind.across else {"plain": Source(path="a.tsv")}
    for name, source in sources.items():
        known = kind.grouped if name == "grouped" else kind.columns
        assert set(kind.file_roles(source)) <= set(known)
        assert set(kind.roles_in_language(source)) <= set(kind.file_roles(source))
    assert kind.held_out_role in (None, *kind.required)
