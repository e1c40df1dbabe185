"""How many threads compute, and that they sleep while they wait beside other busy processes."""

import json
import os
import subprocess
import sys
import threading

import joblib
import pytest
import torch

from modenc import threads
from modenc.threads import WaitPolicy, set_threads

# How often threads beside the main one gave the processor up of themselves, meanwhile.
_SWITCHES = """
import json, os, time
import torch
from modenc import threads

def asleep_times(regions=40):
    def switches():
        found = 0
        for task in os.listdir("/proc/self/task"):
            lines = open(f"/proc/self/task/{task}/status").read().splitlines()
            if int(task) != os.getpid():
                found += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))
        return found
    x.add_(1)
    time.sleep(0.1)
    before = switches()
    for _ in range(regions):
        x.add_(1)
        time.sleep(0.002)
    return switches() - before

x = torch.zeros(1 << 18)
torch.set_num_threads(2)
threads._running = lambda: 3
wait_policy = threads.WaitPolicy()
wait_policy.check()
print(json.dumps([wait_policy.asleep, asleep_times()]))
"""


@pytest.fixture
def two_threads(monkeypatch):
    """Torch has two threads on two cores, and no variable chooses how they wait."""
    for name in (*threads._NUMBERS, *threads._POLICIES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(threads, "_cores", lambda: 2)


@pytest.fixture
def number_set(monkeypatch):
    """The numbers that torch is given, in a list."""
    given = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    return given


def test_the_number_that_is_asked_for_is_taken(two_threads, number_set, monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 1)
    assert set_threads(3) == 3
    assert number_set == [3]


def test_a_quota_or_an_affinity_below_torchs_number_counts(two_threads, number_set, monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 1)
    assert set_threads(0) == 1
    assert number_set == [1]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_a_variable_that_says_the_number_stays_in_force(two_threads, number_set, monkeypatch, name):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 1)
    monkeypatch.setenv(name, "2")
    assert set_threads(0) == 2
    assert number_set == []


def test_fewer_threads_than_cores_are_left(two_threads, number_set, monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    assert set_threads(0) == 2
    assert number_set == []


@pytest.fixture
def machine(two_threads, monkeypatch):
    """Says what the next look sees: more seconds, more of all processes, more of this one."""
    clock = [100.0, 50.0, 5.0]
    monkeypatch.setattr(threads, "_times", lambda: tuple(clock))
    monkeypatch.setattr(threads, "_running", lambda: 2)  # where nothing is known yet: this one and another
    monkeypatch.setattr(threads.time, "monotonic", lambda: clock[0])

    def passed(seconds, every, own):
        for place, more in enumerate((seconds, every, own)):
            clock[place] += more

    return passed


def holders():
    return [thread for thread in threading.enumerate() if thread.name == "modenc-waiting"]


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
def test_threads_sleep_while_others_are_busy_and_no_longer(machine):
    wait_policy, before = WaitPolicy(), len(holders())
    wait_policy.check()
    assert wait_policy.asleep  # by what is running at the moment
    machine(1, 2.0, 2.0)  # this process alone
    wait_policy.check()
    assert not wait_policy.asleep
    machine(1, 2.0, 1.0)  # another takes a core
    wait_policy.check()
    assert wait_policy.asleep
    assert len(holders()) > before
    machine(0.1, 0.2, 0.2)  # too soon to look again
    wait_policy.check()
    assert wait_policy.asleep
    machine(1, 2.0, 1.9)  # what machines do beside their work
    wait_policy.check()
    assert not wait_policy.asleep
    machine(60, 120.0, 120.0)  # too long ago to say anything of now
    wait_policy.check()
    assert wait_policy.asleep
    wait_policy.stop()
    assert not wait_policy.asleep


@pytest.fixture
def asleep(machine):
    """A process whose threads sleep; ends what it started."""
    wait_policy = WaitPolicy()
    wait_policy.check()
    assert wait_policy.asleep
    yield wait_policy
    wait_policy.stop()


def all_end(found):
    for thread in found:
        thread.join(5)
    return not any(thread.is_alive() for thread in found)


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
def test_pools_end_once_a_look_can_decide_nothing(machine, asleep, monkeypatch):
    started = asleep._pools._threads
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    machine(1, 2.0, 1.0)
    asleep.check()
    assert not asleep.asleep
    assert all_end(started)


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
def test_pools_end_once_the_machine_hides_its_times(machine, asleep, monkeypatch):
    def hidden():
        raise PermissionError("/proc/stat")

    started = asleep._pools._threads
    monkeypatch.setattr(threads, "_times", hidden)
    machine(1, 2.0, 1.0)
    asleep.check()
    assert not asleep.asleep
    assert all_end(started)


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
def test_pools_that_nobody_renews_end(machine, monkeypatch):
    monkeypatch.setattr(threads, "_SECONDS_VALID", 0.05)
    wait_policy = WaitPolicy()
    wait_policy.check()
    started = wait_policy._pools._threads
    machine(1, 2.0, 1.0)  # the clock that they see, too
    assert all_end(started)
    assert not wait_policy.asleep
    wait_policy.check()
    assert wait_policy.asleep
    wait_policy.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
def test_pools_are_kept_while_looks_renew_them(machine, asleep):
    started = asleep._pools._threads
    for _ in range(3):
        machine(6, 12.0, 6.0)
        asleep.check()
        assert asleep._pools._until == threads.time.monotonic() + threads._SECONDS_VALID
    assert asleep._pools._threads == started
    assert asleep.asleep


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
def test_no_pool_is_left_where_the_second_cannot_start(machine, monkeypatch):
    """As in a container that allows few threads: each look would leave another one behind."""
    monkeypatch.setattr(threads, "_cores", lambda: 3)  # two pools for two threads
    monkeypatch.setattr(threads, "_running", lambda: 9)
    start, started = threading.Thread.start, []

    def limited(thread):
        if thread.name == "modenc-waiting":
            started.append(thread)
            if len(started) % 2 == 0:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    wait_policy = WaitPolicy()
    for _ in range(2):
        wait_policy.check()
        assert not wait_policy.asleep
        machine(60, 180.0, 60.0)
    assert len(started) == 4
    assert all_end(started[::2])


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is Linux's")
def test_beside_free_cores_threads_may_spin(machine, monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: 4)
    wait_policy = WaitPolicy()
    wait_policy.check()
    assert not wait_policy.asleep
    machine(1, 3.5, 2.0)  # others take one core and a half of the two that are left
    wait_policy.check()
    assert not wait_policy.asleep


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT"])
def test_a_variable_that_says_how_to_wait_stays_in_force(machine, monkeypatch, name):
    monkeypatch.setenv(name, "ACTIVE")
    wait_policy = WaitPolicy()
    wait_policy.check()
    assert not wait_policy.asleep


def test_a_machine_that_cannot_be_looked_at_is_left_alone(machine, monkeypatch):
    def hidden():
        raise PermissionError("/proc/stat")

    monkeypatch.setattr(threads, "_times", hidden)
    wait_policy = WaitPolicy()
    wait_policy.check()
    assert not wait_policy.asleep


def test_one_thread_waits_for_nobody(machine, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(threads, "_running", lambda: 9)
    wait_policy = WaitPolicy()
    wait_policy.check()
    assert not wait_policy.asleep


@pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="libgomp is Linux's; on two cores"
)
@pytest.mark.slow
def test_libgomps_threads_do_sleep():
    """The exception that all this rests on: between pieces of work a waiting thread is off the processor."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    environment = {name: value for name, value in os.environ.items() if name not in threads._POLICIES}
    command = ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-c", _SWITCHES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    asleep, times = json.loads(done.stdout)
    assert asleep
    assert times >= 30  # of 40; spinning for 10 ms, they would meet the next piece awake
