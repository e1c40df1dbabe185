"""The number of threads that compute, and how they wait for each other beside other busy processes.

On Linux torch computes with libgomp, whose threads wait for each other by spinning for some ten
milliseconds. That is fastest while no other process computes; beside a busy process, a spinning thread takes
the core of the thread that it waits for. libgomp reads its setting once, when it is loaded
(``OMP_WAIT_POLICY``, ``GOMP_SPINCOUNT``), with one documented exception: if a process has more threads than
there are cores, they sleep at once. So a second, idle pool of threads makes them sleep while it exists.
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
# Processes come and go; the clock of their times has ticks of 10 ms.
_SECONDS_BETWEEN_LOOKS = 0.5
# Older observations are out of date; without newer ones, threads wait as the runtime does by default.
_SECONDS_OF_A_LOOK = 10.0
# Share of a core that an otherwise idle machine uses.
_BACKGROUND_LOAD = 0.2
# More pools are needed only where threads are few and cores many, and then spinning harms nobody.
_MOST_POOLS = 3
# Torch computes in parallel from 32,768 numbers on.
_DIVIDED = 1 << 17


def usable_cores() -> int:
    """Cores that this process may use, by its affinity and by the quota of its control group."""
    return max(1, int(joblib.cpu_count()))


def set_threads(asked: int) -> int:
    """Set the number of threads that torch computes with; returns the number.

    0 leaves torch's own number, the physical cores, or what ``OMP_NUM_THREADS``, ``MKL_NUM_THREADS`` or
    ``torch.set_num_threads`` say; unless a variable says otherwise, no more than :func:`usable_cores`, which
    torch looks at the affinity alone. The number never depends on other processes, since results do on it.
    """
    own = torch.get_num_threads()
    from_environment = any(os.environ.get(name) for name in _NUMBERS)
    number = asked or (own if from_environment else min(own, usable_cores()))
    if number != own:
        torch.set_num_threads(number)
    return number


class Waiting:
    """Makes torch's threads sleep while they wait, but only while other processes are busy.

    Results are the same either way. :meth:`check` is called before each batch and training step; ten seconds
    after the last call threads wait as the runtime does by default. Threads may share one object.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._looked = -math.inf
        self._times: tuple[float, float, float] | None = None
        self._pools: _IdlePools | None = None

    @property
    def asleep(self) -> bool:
        """Whether threads now sleep while they wait."""
        return self._pools is not None and self._pools.alive

    def check(self) -> None:
        """Check whether other processes are busy, at most twice a second; takes almost no time."""
        if time.monotonic() - self._looked < _SECONDS_BETWEEN_LOOKS or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked = time.monotonic()
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
        if before is not None and now[0] - before[0] <= _SECONDS_OF_A_LOOK:
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
        """Let threads wait as the runtime does by default."""
        if self._pools is not None:
            self._pools.stop()
            self._pools = None


waiting = Waiting()
"""Shared by the whole process."""


def _may_sleep() -> bool:
    """Whether the way of waiting can be chosen here, and the user has not chosen it."""
    return (
        sys.platform == "linux"
        and torch.backends.openmp.is_available()  # type: ignore[no-untyped-call]
        and torch.get_num_threads() > 1
        and not any(name in os.environ for name in _POLICIES)
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _running() -> int:
    """Number of threads that compute at this moment or could, including this one."""
    return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])


def _times() -> tuple[float, float, float]:
    """Seconds of the clock, of all processes on this process's cores, and of this process."""
    every = psutil.cpu_times(percpu=True)
    busy = sum(sum(every[core][:3]) + sum(every[core][5:8]) for core in os.sched_getaffinity(0))
    return time.monotonic(), busy, time.process_time()


def _pools_needed(threads: int) -> int:
    """Idle pools that make OpenMP threads outnumber the cores; 0 if that takes too many."""
    pools = math.ceil(_cores() / (threads - 1)) - 1
    return pools if pools <= _MOST_POOLS else 0


class _IdlePools:
    """Idle pools of OpenMP threads that exist until they are stopped or no longer renewed.

    Raises:
        RuntimeError: no more threads can be started; none is left behind.
    """

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
        except RuntimeError:
            self.stop()
            raise
        for event in ready:
            event.wait()

    @property
    def alive(self) -> bool:
        """Whether all exist; they do not in a forked process."""
        return all(thread.is_alive() for thread in self._threads)

    def renew(self) -> None:
        """Keep them for as long as an observation is valid."""
        self._until = time.monotonic() + _SECONDS_OF_A_LOOK

    def stop(self) -> None:
        """Stop all pools."""
        self._done.set()

    def _hold(self, ready: Event) -> None:
        """Make libgomp start a pool for this thread, and keep it."""
        try:
            torch.zeros(_DIVIDED).add_(1)
        finally:
            ready.set()
        while (seconds := self._until - time.monotonic()) > 0 and not self._done.wait(seconds):
            pass
