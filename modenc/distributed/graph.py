"""A graph of tasks on a cluster: each runs once those it comes after are done, lost ones run again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from modenc.distributed.cluster import Check, Place, beginning, plain_errors

logger = logging.getLogger(__name__)

RETRIES = 3
"""How often a task is run again whose process or node was lost."""
SECONDS_TO_END = 120.0
"""How long a lost process may take to let its locks go: on NFS version 4, a lease of 90 seconds."""


@dataclass(frozen=True)
class Task:
    """Something to run on a node."""

    name: str
    call: Callable[[], Any]
    """Can be pickled, and run again where it was interrupted."""
    after: tuple[int, ...] = ()
    """Positions of the tasks that must be done before, all smaller than its own."""


def run_graph(tasks: Sequence[Task], place: Place, check: Check) -> list[Any]:
    """Run tasks, as many at a time as the cluster has room for.

    Args:
        tasks: each behind those that it comes after.
        place: what each takes of a node.
        check: made on the node before each task.

    Returns:
        What each gave.

    Raises:
        ModencError: what a task raised; no others are begun after it.
        ClusterError: a task was lost :data:`RETRIES` times and once more.
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
