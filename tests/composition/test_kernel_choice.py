"""The faster multiplication is measured once a machine."""

import json
import os
import stat
import time
from pathlib import Path

import pytest

from modenc.composition import kernel_choice
from modenc.composition.kernel_choice import second_is_faster, times_faster


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path))
    return tmp_path / "kernels" / "float32.json"


def chosen(threads=1, measured=None, monkeypatch=None):
    if monkeypatch is not None:
        monkeypatch.setattr(kernel_choice, "times_faster", lambda *_: measured)
    return second_is_faster(None, None, "float32", threads)


@pytest.mark.parametrize(("ratio", "second"), [(1.08, True), (1.02, False), (0.7, False)])
def test_only_a_clear_difference_changes_the_choice(cache, monkeypatch, ratio, second):
    assert chosen(measured=ratio, monkeypatch=monkeypatch) == second


def test_a_measurement_is_kept(cache, monkeypatch):
    assert chosen(measured=1.1, monkeypatch=monkeypatch)
    assert chosen(measured=0.5, monkeypatch=monkeypatch)
    assert list(json.loads(cache.read_text()).values()) == [1.1]
    assert not chosen(threads=2, measured=0.5, monkeypatch=monkeypatch)
    assert len(json.loads(cache.read_text())) == 2
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


@pytest.mark.skipif(os.name == "nt", reason="permissions are POSIX's")
def test_all_who_share_a_cache_can_read_it(cache, monkeypatch):
    mask = os.umask(0o022)
    try:
        assert chosen(measured=1.1, monkeypatch=monkeypatch)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o644


@pytest.mark.parametrize("limit", ["ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"])
def test_a_limit_to_older_instructions_is_measured_for_itself(cache, monkeypatch, limit):
    monkeypatch.delenv(limit, raising=False)
    assert chosen(measured=1.1, monkeypatch=monkeypatch)
    monkeypatch.setenv(limit, "AVX2")
    assert not chosen(measured=0.9, monkeypatch=monkeypatch)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"other": 3}'])
def test_a_damaged_cache_is_replaced(cache, monkeypatch, content):
    cache.parent.mkdir()
    cache.write_text(content)
    assert chosen(measured=1.1, monkeypatch=monkeypatch)
    assert 1.1 in json.loads(cache.read_text()).values()


def test_a_value_that_is_no_measurement_is_replaced(cache, monkeypatch):
    assert chosen(measured=1.1, monkeypatch=monkeypatch)
    key = next(iter(json.loads(cache.read_text())))
    cache.write_text(json.dumps({key: "fast"}))
    assert not chosen(measured=0.9, monkeypatch=monkeypatch)


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path / "file"))
    assert chosen(measured=1.1, monkeypatch=monkeypatch)


def test_no_place_for_a_cache_changes_nothing(monkeypatch):
    monkeypatch.delenv("MODENC_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless():
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert chosen(measured=1.1, monkeypatch=monkeypatch)


def test_one_disturbed_run_decides_nothing(monkeypatch):
    """Seconds of twelve turns, the second way's all slow but one."""
    now = [0.0]
    costs = iter([1.0, 9.0] * 11 + [9.0, 0.5])
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def run():
        now[0] += next(costs)

    assert times_faster(run, run) == 2.0
