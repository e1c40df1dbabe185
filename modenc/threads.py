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
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

import joblib
import psutil
import torch

_NUMBERS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
# Processes come and go; the clock of their times has ticks of 10 ms.
_SECONDS_BETWEEN_LOOKS = 0.5
# What was seen longer ago says nothing of now.
_SECONDS_OF_A_LOOK = 10.0
# Of a core: what machines do beside their work.
_UNNOTICED = 0.2
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
    said = any(os.environ.get(name) for name in _NUMBERS)
    number = asked or (own if said else min(own, usable_cores()))
    if number != own:
        torch.set_num_threads(number)
    return number


class Waiting:
    """Has torch's threads sleep while they wait, but only while other processes are busy.

    Results are the same either way. It is looked after between batches; threads may share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._looked = -math.inf
        self._times: tuple[float, float, float] | None = None
        self._idle: Event | None = None

    @property
    def asleep(self) -> bool:
        """Whether threads now sleep while they wait."""
        return self._idle is not None

    def look(self) -> None:
        """See whether other processes are busy, at most twice a second; takes next to no time."""
        if time.monotonic() - self._looked < _SECONDS_BETWEEN_LOOKS or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked = time.monotonic()
            # What containers show of the machine, and the threads that they allow, may be anything.
            with suppress(OSError, RuntimeError, LookupError, ValueError, psutil.Error):
                if _may_sleep():
                    self._decide()
        finally:
            self._lock.release()

    def _decide(self) -> None:
        threads, before, now = torch.get_num_threads(), self._times, _times()
        self._times = now
        if before is not None and now[0] - before[0] <= _SECONDS_OF_A_LOOK:
            others = (now[1] - before[1] - (now[2] - before[2])) / (now[0] - before[0])
        else:
            others = _running() - 1
        crowded = others + threads > _cores() + _UNNOTICED
        if crowded and self._idle is None:
            self._idle = _idle_pools(threads)
        elif not crowded:
            self.stop()

    def stop(self) -> None:
        """Have threads wait as the runtime has them."""
        if self._idle is not None:
            self._idle.set()
            self._idle = None


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


def _idle_pools(threads: int) -> Event | None:
    """Start pools that make the OpenMP threads more than the cores; they end once the event is set."""
    pools = math.ceil(_cores() / (threads - 1)) - 1
    if not 1 <= pools <= _MOST_POOLS:
        return None
    done = Event()
    ready = [Event() for _ in range(pools)]
    for event in ready:
        Thread(target=_hold_pool, args=(event, done), name="modenc-waiting", daemon=True).start()
    for event in ready:
        event.wait()
    return done


def _hold_pool(ready: Event, done: Event) -> None:
    """Have libgomp start a pool for this thread, and keep it."""
    try:
        torch.zeros(_DIVIDED).add_(1)
    finally:
        ready.set()
    done.wait()
