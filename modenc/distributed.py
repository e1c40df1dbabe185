"""Jobs on the machines of a Ray cluster (extra ``ray``); Ray schedules, places and retries them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from modenc.errors import ClusterError

_RETRIES = 3
"""Most retries of a job whose process or node was lost."""


@dataclass(frozen=True)
class Job:
    """A function to run on a node as a Ray task, and the jobs before it."""

    name: str
    call: Callable[[], Any]
    """The function; it can be pickled, and called again after an interruption."""
    after: tuple[int, ...] = ()
    """Positions of the jobs that must be done first, all smaller than its own."""


@contextmanager
def cluster(address: str | None = None) -> Iterator[None]:
    """Connect to a cluster for the length of the block.

    Args:
        address: ``HOST:PORT`` of its head node. ``None``: that of ``RAY_ADDRESS``, else the one that this
            machine is a node of, else a new one on this machine alone, which ends with the block.

    Raises:
        ClusterError: this process cannot join it.
    """
    forward = logging.getLogger().getEffectiveLevel() <= logging.INFO
    # Ray prints messages about nodes to standard output, which a script may read.
    with redirect_stdout(sys.stderr):
        try:
            ray.init(address, log_to_driver=forward, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises nothing more specific
            raise ClusterError(
                f"{address or 'this machine'}: expected a Ray cluster that this process can join, found: "
                f"{error}; see ray status, or name another with --address"
            ) from error
        try:
            yield
        finally:
            ray.shutdown()


def run_graph(jobs: Sequence[Job], cores: int) -> list[Any]:
    """Run jobs, as many at a time as the cluster has room for.

    Args:
        jobs: jobs, each after its dependencies.
        cores: cores of each job, which Ray makes its number of threads; each also has a GPU if there is any.

    Returns:
        The result of each job, in order.

    Raises:
        ModencError: a job raised it; the other jobs are canceled when the cluster is left.
        ClusterError: a job was lost too often.
    """
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    task = ray.remote(num_cpus=cores, num_gpus=gpus, max_retries=_RETRIES)(_run)
    level, results = logging.getLogger().getEffectiveLevel(), list[Any]()
    for job in jobs:
        before = [results[position] for position in job.after]
        results.append(task.options(name=job.name).remote(job.call, os.getcwd(), level, *before))
    try:
        return list(ray.get(results))  # raises the first error at once
    except RayTaskError as error:
        raise error.cause from None
    except RayError as error:
        raise ClusterError(
            f"{error}\nWhat is finished is kept; run the same command again to go on"
        ) from error


def _run(call: Callable[[], Any], folder: str, level: int, *_: Any) -> Any:
    """Run a job where its relative paths mean the same as for the command."""
    with suppress(OSError):  # they may all be absolute
        os.chdir(folder)
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr)
    return call()
