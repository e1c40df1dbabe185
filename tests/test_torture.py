"""A short version of each part of `make torture`."""

import importlib.util

import damage
import disks
import hostile
import kills
import pytest
import rivals

pytestmark = [pytest.mark.slow, pytest.mark.end_to_end]

needs_training = pytest.mark.skipif(
    importlib.util.find_spec("peft") is None, reason="the training half is not installed"
)


def assert_nothing_lost(outcome, tried):
    """All of at least ``tried`` tries survived; a part that tries nothing loses nothing either."""
    assert outcome.lost == []
    assert outcome.survived == outcome.tried >= tried


@pytest.mark.parametrize("operation", ["publish", "install", "remove"])
def test_killed_hub_operations_leave_the_old_or_the_new(operation, tmp_path):
    assert_nothing_lost(kills.hub_operation(operation, tmp_path, tries=15), tried=15)


def test_two_installations_at_once(tmp_path):
    assert_nothing_lost(rivals.installing(tmp_path, tries=3), tried=3)


def test_killed_encoding_goes_on(tmp_path):
    assert_nothing_lost(kills.encoding(tmp_path, tries=1, texts=3000), tried=1)


@needs_training
def test_killed_training_ends_the_same(tmp_path):
    assert_nothing_lost(kills.training(tmp_path, tries=1), tried=1)


@pytest.mark.parametrize("part", ["hub", pytest.param("train", marks=needs_training), "encode"])
def test_a_full_or_read_only_disk_loses_nothing(part):
    if not disks.can_mount():
        pytest.skip("no disks can be mounted here (unshare -rm)")
    # Of two, the second is read-only.
    tries = {"hub": 25}.get(part, 2)
    assert_nothing_lost(disks.outcomes(part, tries), tried=tries)


def test_damage_is_seen_before_any_vector(tmp_path):
    # A try whose damage changes nothing does not count.
    assert_nothing_lost(damage.damaged_files(tmp_path, tries=150), tried=100)


def test_hostile_hubs_are_refused(tmp_path):
    assert_nothing_lost(hostile.hubs(tmp_path), tried=40)
