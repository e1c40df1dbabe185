"""Run tasks on a cluster in the order of their dependencies; lost tasks are retried."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from modenc.distributed.cluster import Check, Place, beginning, plain_errors

logger = logging.getLogger(__name__)

RETRIES = 3
"""Most retries of a task whose process or node was lost."""
SECONDS_TO_END = 120.0
"""Seconds until the locks of a lost process are released (NFS 4: a lease of 90 seconds)."""


@dataclass(frozen=True)
class Task:
    """A function to run on a node, and the tasks before it."""

    name: str
    call: Callable[[], Any]
    """The function; it can be pickled, and called again after an interruption."""
    after: tuple[int, ...] = ()
    """Positions of the tasks that must be done first, all smaller than its own."""


def run_graph(tasks: Sequence[Task], place: Place, check: Check) -> list[Any]:
    """Run tasks, as many at a time as the cluster has room for.

    Args:
        tasks: tasks, each after its dependencies.
        place: cores and GPUs of each task.
        check: called on the node before each task.

    Returns:
        The result of each task, in order.

    Raises:
        ModencError: a task raised it; no further tasks are started.
        ClusterError: a task was lost more than :data:`RETRIES` times.
    """
    run, begin = ray.remote(_run), beginning(check)
    refs: list[Any] = []
    for task in tasks:
        options = {"name": task.name, "max_retries": RETRIES, **place.options()}
        before = [refs[position] for position in task.after]
        refs.append(run.options(**options).remote(begin, task.call, *before))
    waiting = dict(zip(refs, tasks, strict=True))
    while waiting:
        (ready,), _ = ray.wait(list(waiting))
        task = waiting.pop(ready)
        with plain_errors(task.name):
            ray.get(ready)
        logger.info("%s: done, %d of %d", task.name, len(tasks) - len(waiting), len(tasks))
    return list(ray.get(refs))


def _run(begin: Callable[[], None], call: Callable[[], Any], *_: Any) -> Any:
    begin()
    return call()
