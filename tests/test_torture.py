"""A short version of each part of `make torture`."""

import importlib.util

import damage
import disks
import fuzz
import fuzz_targets
import hostile
import kills
import pytest
import rivals
import texts
import traffic

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


def test_killed_saving_goes_on(tmp_path):
    assert_nothing_lost(kills.saving(tmp_path, tries=10), tried=10)


def test_two_installations_at_once(tmp_path):
    assert_nothing_lost(rivals.installing(tmp_path, tries=3), tried=3)


def test_killed_encoding_goes_on(tmp_path):
    assert_nothing_lost(kills.encoding(tmp_path, tries=1, texts=3000), tried=1)


@needs_training
def test_killed_training_ends_the_same(tmp_path):
    assert_nothing_lost(kills.training(tmp_path, tries=1), tried=1)


@pytest.mark.parametrize("part", ["hub", "save", pytest.param("train", marks=needs_training), "encode"])
def test_a_full_or_read_only_disk_loses_nothing(part):
    if not disks.can_mount():
        pytest.skip("no disks can be mounted here (unshare -rm)")
    # Of two, the second is read-only.
    tries = {"hub": 25, "save": 9}.get(part, 2)
    assert_nothing_lost(disks.outcomes(part, tries), tried=tries)


def test_damage_is_seen_before_any_vector(tmp_path):
    # A try whose damage changes nothing does not count.
    assert_nothing_lost(damage.damaged_files(tmp_path, tries=150), tried=100)


def test_hostile_hubs_and_recipes_are_refused(tmp_path):
    assert_nothing_lost(hostile.hubs_and_recipes(tmp_path), tried=40)


def test_hostile_texts_are_encoded(tmp_path):
    assert_nothing_lost(texts.encoding(tmp_path, tries=1500), tried=1500)


@pytest.mark.parametrize("target", sorted(fuzz_targets.TARGETS))
def test_changed_input_is_read_or_refused(target, tmp_path):
    tries = {"encode": 60, "components": 60, "special_tokens": 60}.get(target, 600)
    assert_nothing_lost(fuzz.shaken(target, tmp_path / "target", tries, seconds=20), tried=tries)


def test_traffic_is_as_right_as_one_caller_alone(tmp_path):
    outcome = traffic.threads_and_processes(tmp_path, seconds=5, threads=8, processes=2)
    assert_nothing_lost(outcome, tried=8)  # a call a thread, on the busiest machine
    assert outcome.note != "the hub changed 0 times"


def test_soaking_leaves_files_and_memory_as_they_are(tmp_path):
    outcome = traffic.soak(tmp_path, seconds=8, most_growth=10)
    # Throughput of seven intervals a half has 10 to 20 % of noise.
    outcome.lost = [line for line in outcome.lost if not line.startswith("throughput")]
    assert_nothing_lost(outcome, tried=4)
