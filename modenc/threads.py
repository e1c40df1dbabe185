"""Number of computing threads, and how they wait for each other while other processes are busy.

On Linux torch computes with libgomp, whose threads wait for each other by spinning for about ten
milliseconds. That is fastest while no other process computes. While another process is busy, a spinning
thread may take the core from the thread that it waits for. libgomp reads its wait policy once, when it is
loaded (``OMP_WAIT_POLICY``, ``GOMP_SPINCOUNT``), with one documented exception: if a process has more threads
than there are cores, waiting threads sleep at once. So a second, idle pool of threads makes them sleep.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path
from threading import Event, Lock, Thread

import joblib
import psutil
import torch

_NUMBERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
# Processor times have ticks of 10 ms, so shorter intervals would be inaccurate.
_SECONDS_BETWEEN_CHECKS = 0.5
# A check is valid for this time; without a newer one, threads wait as by default.
_SECONDS_VALID = 10.0
# Share of a core that an idle machine uses.
_BACKGROUND_LOAD = 0.2
# More pools would be needed only for few threads on many cores, where spinning is harmless.
_MOST_POOLS = 3
# Numbers in a tensor that torch computes in parallel, which it does from 32,768 on.
_PARALLEL_SIZE = 1 << 17


def set_threads(requested: int) -> int:
    """Set the number of threads that torch computes with; returns the number.

    0 keeps torch's number: the physical cores, or the value of ``OMP_NUM_THREADS``, ``MKL_NUM_THREADS`` or
    ``torch.set_num_threads``. Unless an environment variable sets it, it is limited to the cores that this
    process may use, since torch ignores control groups. It never depends on other processes, since results
    depend on it.
    """
    own = torch.get_num_threads()
    from_environment = any(os.environ.get(name) for name in _NUMBERS)
    number = requested or (own if from_environment else min(own, joblib.cpu_count()))
    if number != own:
        torch.set_num_threads(number)
    return number


class WaitPolicy:
    """Policy that makes waiting threads of torch sleep, but only while other processes are busy.

    Results are the same either way. :meth:`check` is called before each batch and training step. Ten seconds
    after the last call, threads wait as by default. Threads may share one object.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._checked = -math.inf
        self._times: tuple[float, float, float] | None = None
        self._pools: _IdlePools | None = None

    @property
    def asleep(self) -> bool:
        """Whether waiting threads sleep at present."""
        return self._pools is not None and self._pools.alive

    def check(self) -> None:
        """Check whether other processes are busy, at most twice a second; takes almost no time."""
        if time.monotonic() - self._checked < _SECONDS_BETWEEN_CHECKS or not self._lock.acquire(
            blocking=False
        ):
            return
        try:
            self._checked = time.monotonic()
            if _may_sleep():
                self._decide()
            else:
                self.stop()
        # Containers may hide the machine's load, or allow no more threads.
        except (OSError, RuntimeError, LookupError, ValueError, psutil.Error):
            self.stop()
        finally:
            self._lock.release()

    def _decide(self) -> None:
        threads, before, now = torch.get_num_threads(), self._times, _times()
        self._times = now
        if before is not None and now[0] - before[0] <= _SECONDS_VALID:
            others = (now[1] - before[1] - (now[2] - before[2])) / (now[0] - before[0])
        else:
            others = _running() - 1
        crowded = others + threads > _cores() + _BACKGROUND_LOAD
        if not crowded:
            self.stop()
        elif self._pools is not None and self._pools.alive:
            self._pools.renew()
        elif count := _pools_needed(threads):
            self._pools = _IdlePools(count)

    def stop(self) -> None:
        """Let threads wait as by default."""
        if self._pools is not None:
            self._pools.stop()
            self._pools = None


wait_policy = WaitPolicy()
"""Wait policy of the process."""


def _may_sleep() -> bool:
    """Check whether the policy can be changed on this system, and the user has not set it."""
    return (
        sys.platform == "linux"
        and torch.backends.openmp.is_available()  # type: ignore[no-untyped-call]
        and torch.get_num_threads() > 1
        and not any(name in os.environ for name in _POLICIES)
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _running() -> int:
    """Return the number of running and runnable threads of the system, including this one."""
    return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])


def _times() -> tuple[float, float, float]:
    """Return seconds of the clock, of all processes on this process's cores, and of this process."""
    every = psutil.cpu_times(percpu=True)
    busy = sum(sum(every[core][:3]) + sum(every[core][5:8]) for core in os.sched_getaffinity(0))
    return time.monotonic(), busy, time.process_time()


def _pools_needed(threads: int) -> int:
    """Return how many idle pools make OpenMP threads outnumber the cores; 0 if it takes too many."""
    pools = math.ceil(_cores() / (threads - 1)) - 1
    return pools if pools <= _MOST_POOLS else 0


class _IdlePools:
    """Idle pools of OpenMP threads that exist until they are stopped or no longer renewed."""

    def __init__(self, count: int) -> None:
        self._done = Event()
        self.renew()
        ready = [Event() for _ in range(count)]
        self._threads = [
            Thread(target=self._hold, args=(event,), name="modenc-waiting", daemon=True) for event in ready
        ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError:  # no more can be started
            self.stop()
            raise
        for event in ready:
            event.wait()

    @property
    def alive(self) -> bool:
        """Whether all threads are running; in a forked process they are not."""
        return all(thread.is_alive() for thread in self._threads)

    def renew(self) -> None:
        """Keep the pools for as long as a check is valid."""
        self._until = time.monotonic() + _SECONDS_VALID

    def stop(self) -> None:
        """Stop all pools."""
        self._done.set()

    def _hold(self, ready: Event) -> None:
        """Make libgomp start a pool for this thread, and keep it."""
        try:
            torch.zeros(_PARALLEL_SIZE).add_(1)
        finally:
            ready.set()
        while (seconds := self._until - time.monotonic()) > 0 and not self._done.wait(seconds):
            pass
