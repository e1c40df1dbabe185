"""Seconds and megabytes of two things run in turn, as rows of a table."""

from __future__ import annotations

import os
import platform
import resource
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modenc.composition.bert import OneDnnDense, TorchDense, onednn_works

Row = dict[str, Any]


def seconds_of(run: Callable[[], Any]) -> float:
    """Measure the seconds of a run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def paired(ours: Callable[[], Any], peer: Callable[[], Any], pairs: int) -> tuple[list[float], list[float]]:
    """Measure the seconds of runs, ours and the peer's in turn, after a warm-up run of each."""
    ours(), peer()
    seconds = [(seconds_of(ours), seconds_of(peer)) for _ in range(pairs)]
    return [own for own, _ in seconds], [other for _, other in seconds]


def ratio(what: str, ours: list[float], peer: list[float], count: int, gflop: float = 0.0) -> Row:
    """Return how many times faster ours is.

    Args:
        what: the row's name.
        ours: seconds of each run.
        peer: likewise.
        count: texts a run.
        gflop: multiplications and additions that a run's texts need, in 10^9; 0: not counted.
    """
    quartiles = np.percentile(np.array(peer) / np.array(ours), (50, 25, 75))
    row = {
        "what": what,
        "ours /s": count / median(ours),
        "peer /s": count / median(peer),
        "ratio": quartiles[0],
        "spread": list(quartiles[1:]),
    }
    if gflop:
        row["of peak"] = " ".join(
            f"{who} {100 * gflop / median(side) / peak_gflops(torch.get_num_threads()):.0f} %"
            for who, side in (("ours", ours), ("peer", peer))
        )
    return row


@cache
def peak_gflops(threads: int) -> float:
    """Measure 10^9 operations a second of the largest float32 product, by torch's library or oneDNN.

    Args:
        threads: those in use.
    """
    assert threads == torch.get_num_threads()
    size = 2048
    x, weight, bias = torch.rand(size, size), torch.rand(size, size), torch.zeros(size)
    layers = [TorchDense(weight, bias), *([OneDnnDense(weight, bias)] if onednn_works(x.dtype) else [])]
    least = min(seconds_of(lambda layer=layer: layer(x)) for _ in range(8) for layer in layers)
    return 2 * size**3 / least / 1e9


def slowdown(what: str, ours: list[float], peer: list[float]) -> Row:
    """Return how many times the peer's time ours takes."""
    quartiles = np.percentile(np.array(ours) / np.array(peer), (50, 25, 75))
    row = {"what": f"{what} (time, lower is better)", "ours s": median(ours), "peer s": median(peer)}
    return {**row, "ratio": quartiles[0], "spread": list(quartiles[1:])}


def median(values: Iterable[float]) -> float:
    """Return the median."""
    return float(np.median(list(values)))


def resident_mb() -> float:
    """Memory that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def where() -> dict[str, str]:
    """Describe the machine and the versions."""
    packages = ("torch", "transformers", "sentence-transformers", "peft")
    versions = {name: version(name) for name in packages if find_spec(name.replace("-", "_"))}
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA")
    return {
        "cpu": cpu if limit is None else f"{cpu}, limited to {limit}",
        "peak of a float32 product": f"{peak_gflops(torch.get_num_threads()):.0f} GFLOP/s",
        "threads": str(torch.get_num_threads()),
        "date": time.strftime("%Y-%m-%d"),
        **versions,
    }
