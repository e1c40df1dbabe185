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

pytestmark = pytest.mark.slow

needs_training = pytest.mark.skipif(
    importlib.util.find_spec("peft") is None, reason="the training half is not installed"
)


@pytest.mark.parametrize("operation", ["publish", "install", "remove"])
def test_killed_hub_operations_leave_the_old_or_the_new(operation, tmp_path):
    outcome = kills.hub_operation(operation, tmp_path, tries=15)
    assert outcome.lost == []
    assert outcome.survived == 15


def test_killed_saving_goes_on(tmp_path):
    outcome = kills.saving(tmp_path, tries=10)
    assert outcome.lost == []
    assert outcome.survived == 10


def test_two_installations_at_once(tmp_path):
    assert rivals.installing(tmp_path, tries=3).lost == []


def test_killed_encoding_goes_on(tmp_path):
    outcome = kills.encoding(tmp_path, tries=1, texts=3000)
    assert outcome.lost == []


@needs_training
def test_killed_training_ends_the_same(tmp_path):
    outcome = kills.training(tmp_path, tries=1)
    assert outcome.lost == []


@pytest.mark.parametrize("part", ["hub", "save", pytest.param("train", marks=needs_training), "encode"])
def test_a_full_or_read_only_disk_loses_nothing(part):
    if not disks.can_mount():
        pytest.skip("no disks can be mounted here (unshare -rm)")
    # Of two, the second is read-only.
    outcome = disks.outcomes(part, tries={"hub": 25, "save": 9}.get(part, 2))
    assert outcome.lost == []
    assert outcome.tried


def test_damage_is_seen_before_any_vector(tmp_path):
    outcome = damage.damaged_files(tmp_path, tries=150)
    assert outcome.lost == []
    assert outcome.tried > 100


def test_hostile_hubs_and_recipes_are_refused(tmp_path):
    outcome = hostile.hubs_and_recipes(tmp_path)
    assert outcome.lost == []
    assert outcome.tried >= 40


def test_hostile_texts_are_encoded(tmp_path):
    assert texts.encoding(tmp_path, tries=1500).lost == []


@pytest.mark.parametrize("target", sorted(fuzz_targets.TARGETS))
def test_changed_input_is_read_or_refused(target, tmp_path):
    tries = {"encode": 60, "components": 60, "special_tokens": 60}.get(target, 600)
    outcome = fuzz.shaken(target, tmp_path / "target", tries, seconds=20)
    assert outcome.lost == []
    assert outcome.survived == tries


def test_traffic_is_as_right_as_one_caller_alone(tmp_path):
    outcome = traffic.threads_and_processes(tmp_path, seconds=5, threads=8, processes=2)
    assert outcome.lost == []
    assert outcome.tried


def test_soaking_leaves_files_and_memory_as_they_are(tmp_path):
    outcome = traffic.soak(tmp_path, seconds=8, most_growth=10)
    # Throughput of seven intervals a half has 10 to 20 % of noise.
    assert [line for line in outcome.lost if not line.startswith("throughput")] == []
