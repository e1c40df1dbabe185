"""Run jobs on a cluster in the order of their dependencies; lost jobs are retried."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from modenc.distributed.cluster import Check, Resources, beginning, plain_errors

logger = logging.getLogger(__name__)

RETRIES = 3
"""Most retries of a job whose process or node was lost."""
SECONDS_TO_END = 120.0
"""Seconds until the locks of a lost process are released (NFS 4: a lease of 90 seconds)."""


@dataclass(frozen=True)
class Job:
    """A function to run on a node as a Ray task, and the jobs before it."""

    name: str
    call: Callable[[], Any]
    """The function; it can be pickled, and called again after an interruption."""
    after: tuple[int, ...] = ()
    """Positions of the jobs that must be done first, all smaller than its own."""


def run_graph(jobs: Sequence[Job], resources: Resources, check: Check) -> list[Any]:
    """Run jobs, as many at a time as the cluster has room for.

    Args:
        jobs: jobs, each after its dependencies.
        resources: cores and GPUs of each job.
        check: called on the node before each job.

    Returns:
        The result of each job, in order.

    Raises:
        ModencError: a job raised it; no further jobs are started.
        ClusterError: a job was lost more than :data:`RETRIES` times.
    """
    run, begin = ray.remote(_run), beginning(check)
    refs: list[Any] = []
    for job in jobs:
        options = {"name": job.name, "max_retries": RETRIES, **resources.options()}
        before = [refs[position] for position in job.after]
        refs.append(run.options(**options).remote(begin, job.call, *before))
    waiting = dict(zip(refs, jobs, strict=True))
    while waiting:
        (ready,), _ = ray.wait(list(waiting))
        job = waiting.pop(ready)
        with plain_errors(job.name):
            ray.get(ready)
        logger.info("%s: done, %d of %d", job.name, len(jobs) - len(waiting), len(jobs))
    return list(ray.get(refs))


def _run(begin: Callable[[], None], call: Callable[[], Any], *_: Any) -> Any:
    begin()
    return call()
