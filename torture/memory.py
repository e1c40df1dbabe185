"""How much memory this process has taken."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path


def peak_from_now_on() -> float:
    """Megabytes in memory now; :func:`peak` is the most since then, where the system can forget the past."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> float:
    """The most megabytes that were in memory at once."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
