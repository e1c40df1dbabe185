"""How many threads compute, and how they wait for each other beside other busy processes.

On Linux torch computes with libgomp, whose threads wait for each other by spinning for some ten
milliseconds. Alone on the machine that is quickest. Beside another busy process a thread spins in the place
of the one that it waits for. libgomp reads once, when it is loaded, whether to (``OMP_WAIT_POLICY``,
``GOMP_SPINCOUNT``), with one documented exception: the threads of a process that has more of them than there
are cores sleep at once. A second pool of threads that has nothing to do makes a process one of those, for as
long as it is there.
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
# What was seen longer ago says nothing of now; threads that nobody looks after wait as the runtime has them.
_SECONDS_OF_A_LOOK = 10.0
# Of a core: what machines do beside their work.
_BACKGROUND_LOAD = 0.2
# More pools are needed only where the threads are few beside the cores, and then spinning is in nobody's way.
_MOST_POOLS = 3
# Torch divides what has at least 32,768 numbers.
_DIVIDED = 1 << 17


def usable_cores() -> int:
    """Cores that this process may use, by its affinity and by the quota of its control group."""
    return max(1, int(joblib.cpu_count()))


def set_threads(asked: int) -> int:
    """Have torch compute with ``asked`` threads from now on; returns their number.

    0 leaves torch's own number, the physical cores, or what ``OMP_NUM_THREADS``, ``MKL_NUM_THREADS`` or
    ``torch.set_num_threads`` say; unless a variable says otherwise, no more than :func:`usable_cores`, which
    torch asks for the affinity alone. The number never depends on what else runs: it decides the bytes.
    """
    own = torch.get_num_threads()
    from_environment = any(os.environ.get(name) for name in _NUMBERS)
    number = asked or (own if from_environment else min(own, usable_cores()))
    if number != own:
        torch.set_num_threads(number)
    return number


class Waiting:
    """Has torch's threads sleep while they wait, but only while other processes are busy.

    Results are the same either way. :meth:`look` is called before each batch and training step; ten seconds
    after the last call threads wait as the runtime has them. Threads may share one object.
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

    def look(self) -> None:
        """See whether other processes are busy, at most twice a second; takes next to no time."""
        if time.monotonic() - self._looked < _SECONDS_BETWEEN_LOOKS or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked = time.monotonic()
            if _may_sleep():
                self._decide()
            else:
                self.stop()
        # What containers show of the machine, and the threads that they allow, may be anything.
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
        """Have threads wait as the runtime has them."""
        if self._pools is not None:
            self._pools.stop()
            self._pools = None


waiting = Waiting()
"""The process's own."""


def _may_sleep() -> bool:
    """Whether there is anything to choose, and nobody has chosen."""
    return (
        sys.platform == "linux"
        and torch.backends.openmp.is_available()  # type: ignore[no-untyped-call]
        and torch.get_num_threads() > 1
        and not any(name in os.environ for name in _POLICIES)
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _running() -> int:
    """Threads that compute at this moment or could, with this one."""
    return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])


def _times() -> tuple[float, float, float]:
    """Seconds: of the clock, of all processes on the cores of this one, of this one."""
    every = psutil.cpu_times(percpu=True)
    busy = sum(sum(every[core][:3]) + sum(every[core][5:8]) for core in os.sched_getaffinity(0))
    return time.monotonic(), busy, time.process_time()


def _pools_needed(threads: int) -> int:
    """Idle pools that make the OpenMP threads more than the cores; 0: that would take too many."""
    pools = math.ceil(_cores() / (threads - 1)) - 1
    return pools if pools <= _MOST_POOLS else 0


class _IdlePools:
    """Pools of OpenMP threads that have nothing to do, until they are stopped or no longer renewed.

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
        """Whether all are there; in a process that was forked from theirs they are not."""
        return all(thread.is_alive() for thread in self._threads)

    def renew(self) -> None:
        """Keep them for as long as a look says something."""
        self._until = time.monotonic() + _SECONDS_OF_A_LOOK

    def stop(self) -> None:
        """End them."""
        self._done.set()

    def _hold(self, ready: Event) -> None:
        """Have libgomp start a pool for this thread, and keep it."""
        try:
            torch.zeros(_DIVIDED).add_(1)
        finally:
            ready.set()
        while (seconds := self._until - time.monotonic()) > 0 and not self._done.wait(seconds):
            pass
