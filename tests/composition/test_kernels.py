"""The faster multiplication is measured once a machine."""

import time

import pytest

from modenc.composition import kernels
from modenc.composition.kernels import times_faster


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path))
    return tmp_path / "kernels"


@pytest.fixture
def chosen(monkeypatch):
    """Chooses as a new process, in which torch is ``measured`` times faster."""

    def choose(measured, threads=1):
        monkeypatch.setattr(kernels, "times_faster", lambda *_: measured)
        return kernels.torch_is_faster.__wrapped__(threads)

    return choose


@pytest.mark.parametrize(("ratio", "second"), [(1.08, True), (1.02, False), (0.7, False)])
def test_only_a_clear_difference_changes_the_choice(cache, chosen, ratio, second):
    assert chosen(ratio) == second


def test_a_measurement_is_kept(cache, chosen):
    assert chosen(1.1)
    assert chosen(0.5)
    assert [file.read_text() for file in cache.iterdir()] == ["torch\n"]
    assert not chosen(0.5, threads=2)
    assert not chosen(1.1, threads=2)
    assert len(list(cache.iterdir())) == 2


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path, chosen, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path / "file"))
    assert chosen(1.1)


def test_one_disturbed_run_decides_nothing(monkeypatch):
    """Seconds of twelve turns, the second way's all slow but one."""
    now = [0.0]
    costs = iter([1.0, 9.0] * 11 + [9.0, 0.5])
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def run():
        now[0] += next(costs)

    assert times_faster(run, run) == 2.0
