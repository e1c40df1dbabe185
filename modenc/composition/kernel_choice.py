"""Which of two ways to multiply matrices is the faster one on this machine: measured once, then cached.

With AVX2 alone, torch's default library (MKL) was faster than oneDNN where it took its path for Intel's
processors (``benchmarks/performance_findings.md``); with AVX-512 on AMD's it is slower. So no rule by
instruction set fits all.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from modenc.cache import cache_dir
from modenc.errors import StorageError
from modenc.storage import whole_file

logger = logging.getLogger(__name__)

_FORMAT = 1
_ROUNDS = 12
# What is measured to be faster by less may be slower tomorrow.
_MARGIN = 1.03
# Limits that the libraries below read from the environment.
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")


def second_is_faster(first: Callable[[], Any], second: Callable[[], Any], name: str, threads: int) -> bool:
    """Whether ``second`` takes clearly less time than ``first``, by a stored measurement or a new one.

    Args:
        first: what is taken where there is no clear difference.
        second: the other one.
        name: of what is compared, for the stored measurement.
        threads: that both compute with.
    """
    key = json.dumps([_FORMAT, name, threads, torch.__version__, _processor(), *_limits()])
    stored = _read(name)
    if isinstance(ratio := stored.get(key), float) and ratio > 0:
        return ratio >= _MARGIN
    ratio = times_faster(first, second)
    logger.info("%s: the other library takes 1/%.2f of the time", name, ratio)
    # A cache that cannot be written only means that the next process measures again.
    with suppress(OSError, StorageError):
        _write(name, {**stored, key: ratio})
    return ratio >= _MARGIN


def times_faster(first: Callable[[], Any], second: Callable[[], Any]) -> float:
    """How many times faster ``second`` is: the least time of each, since others' work only adds to it."""
    least = [float("inf"), float("inf")]
    # In turn, so that a busy moment meets both.
    for _ in range(_ROUNDS):
        for number, run in enumerate((first, second)):
            start = time.perf_counter()
            run()
            least[number] = min(least[number], time.perf_counter() - start)
    return least[0] / max(least[1], 1e-9)


def _processor() -> str:
    """What tells apart machines that share a cache folder."""
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return json.dumps([torch.backends.cpu.get_cpu_capability(), platform.machine(), sorted(found.items())])


def _limits() -> list[str]:
    return [os.environ.get(name, "") for name in _LIMITS]


def _file(name: str) -> Path:
    return cache_dir() / "kernels" / f"{name}.json"


def _read(name: str) -> dict[str, Any]:
    with suppress(OSError, ValueError, StorageError):
        found = json.loads(_file(name).read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _write(name: str, content: dict[str, Any]) -> None:
    path = _file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:  # with the usual permissions: users may share a cache
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
