"""A short version of each part of `make torture`."""

import kills
import pytest


@pytest.mark.parametrize("operation", ["publish", "install", "remove"])
def test_killed_hub_operations_leave_the_old_or_the_new(operation, tmp_path):
    outcome = kills.hub_operation(operation, tmp_path, tries=15)
    assert outcome.lost == []
    assert outcome.survived == 15


def test_killed_encoding_goes_on(tmp_path):
    outcome = kills.encoding(tmp_path, tries=1, texts=1000)
    assert outcome.lost == []


def test_killed_training_ends_the_same(tmp_path):
    outcome = kills.training(tmp_path, tries=1)
    assert outcome.lost == []
