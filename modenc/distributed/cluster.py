"""Connection to a Ray cluster, checks that its nodes are alike, and its errors as modenc's."""

from __future__ import annotations

import logging
import math
import os
import platform
import secrets
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from modenc.errors import ClusterError, ModencError

Check = Callable[[], str | None]
"""Called on a node; returns a message about what is missing there, or ``None``."""

_SECONDS_TO_ANSWER = 10.0
_PACKAGES = ("modenc", "torch", "transformers")


@contextmanager
def cluster(address: str | None = None) -> Iterator[None]:
    """Connect to a cluster for the length of the block.

    Args:
        address: ``HOST:PORT`` of its head node. ``None``: that of ``RAY_ADDRESS``, else the one that this
            machine is a node of, else a new one on this machine alone, which ends with the block.

    Raises:
        ClusterError: it does not answer, or its version of Ray or Python is another.
    """
    if address is not None:
        _check_answers(address)
    level = logging.getLogger().getEffectiveLevel()
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": level <= logging.INFO}
    try:
        try:
            ray.init(address or "auto", **options)
        except ConnectionError:
            if address is not None or os.environ.get("RAY_ADDRESS"):
                raise
            ray.init("local", include_dashboard=False, **options)
    except Exception as error:  # Ray raises nothing more specific
        name = address or os.environ.get("RAY_ADDRESS", "this machine")
        raise ClusterError(
            f"{name}: expected a Ray cluster, found none that this process can join ({_first_line(error)}); "
            f"it needs Ray {ray.__version__} and Python {platform.python_version()}; see "
            f"ray status --address {name}"
        ) from error
    try:
        # Ray prints messages about nodes to standard output, which a script may read.
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Check that the cluster answers: Ray itself tries for minutes and then ends the process."""
    host, _, port = address.rpartition(":")
    expected = "expected HOST:PORT of a Ray cluster's head node"
    if "://" in address or not host or not port.isdigit():
        raise ClusterError(f"{address}: {expected}, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"{address}: {expected}, found nothing that answers ({error}); start one there with "
            f"ray start --head --port {port}, or name another with --address"
        ) from error


@dataclass(frozen=True)
class Resources:
    """Resources of each Ray task or actor, and how many the cluster has room for."""

    cores: int
    """Cores, and threads, of each."""
    gpus: int
    """GPUs of each: 1 if the cluster has any, else 0."""
    capacity: int
    """How many the cluster can run at once."""

    @classmethod
    def of_cluster(cls, cores: int) -> Resources:
        """Compute how many Ray tasks of ``cores`` cores each fit on the cluster.

        Raises:
            ClusterError: no node has as many cores.
        """
        nodes = [node["Resources"] for node in _nodes()]
        gpus = int(any(node.get("GPU") for node in nodes))
        capacity = sum(_room(node, cores, gpus) for node in nodes)
        if not capacity:
            found = max((math.floor(node.get("CPU", 0)) for node in nodes), default=0)
            raise ClusterError(
                f"expected a node with {cores} cores, the number of threads here, found at most {found}; set "
                "fewer threads (OMP_NUM_THREADS; run.threads in a recipe), or add a node"
            )
        return cls(cores, gpus, capacity)

    def options(self) -> dict[str, Any]:
        """Return options for a Ray task or actor."""
        return {"num_cpus": self.cores, "num_gpus": self.gpus}


def _room(node: dict[str, float], cores: int, gpus: int) -> int:
    room = math.floor(node.get("CPU", 0) / cores)
    return min(room, math.floor(node.get("GPU", 0))) if gpus else room


def _nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]


@contextmanager
def shared_folders(folders: Iterable[Path]) -> Iterator[Check]:
    """Check that all nodes share these folders; yields the same check for nodes that join later.

    Raises:
        ClusterError: a node does not.
    """
    marks = [folder.absolute() / f".ray-{secrets.token_hex(8)}" for folder in dict.fromkeys(folders)]
    try:
        for mark in marks:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        check = partial(_unseen, marks)
        check_nodes(check)
        yield check
    finally:
        for mark in marks:
            mark.unlink(missing_ok=True)


def _unseen(marks: list[Path]) -> str | None:
    missing = ", ".join(str(mark.parent) for mark in marks if not mark.is_file())
    if not missing:
        return None
    return (
        f"expected {missing} on a file system that all nodes share, found another folder or none; mount it "
        "at the same path on each node (NFS, Lustre), or choose folders that are shared"
    )


def check_nodes(check: Check) -> None:
    """Call a check on every node, and compare the versions of packages with those here.

    Raises:
        ClusterError: what nodes lack, a line for each.
    """
    probe, folder = ray.remote(_probe), os.getcwd()
    answers = []
    for node in _nodes():
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        name = f"node {node['NodeManagerAddress']} ({node['NodeID'][:8]})"
        answer = probe.options(num_cpus=0, scheduling_strategy=here).remote(check, _versions(), folder)
        answers.append((name, node["NodeID"], answer))
    problems = []
    for name, node_id, answer in answers:
        try:
            found = ray.get(answer)
        except RayError as error:
            if node_id not in [node["NodeID"] for node in _nodes()]:
                continue  # lost meanwhile
            found = f"modenc cannot be run there ({_first_line(error.__cause__ or error)})"
        if found:
            problems.append(f"{name}: {found}")
    if problems:
        raise ClusterError("\n".join(problems))


def _probe(check: Check, expected: dict[str, str], folder: str) -> str | None:
    with suppress(OSError):  # paths may all be absolute
        os.chdir(folder)
    found = _versions()
    if found != expected:
        return f"expected {_listed(expected)}, as where modenc was started; found {_listed(found)}"
    return check()


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def beginning(check: Check) -> Callable[[], None]:
    """Return a function that prepares a process on a node.

    It sets the working directory and log level of this process there, and raises a :class:`ClusterError` if
    the versions of packages differ or ``check`` returns a message.
    """
    return partial(_begin, check, _versions(), os.getcwd(), logging.getLogger().getEffectiveLevel())


def _begin(check: Check, expected: dict[str, str], folder: str, level: int) -> None:
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr)
    if problem := _probe(check, expected, folder):
        raise ClusterError(f"node {ray.util.get_node_ip_address()}: {problem}")


@contextmanager
def plain_errors(name: str) -> Iterator[None]:
    """Raise errors of a node as they would have been raised here.

    Raises:
        ModencError: the task raised it.
        ClusterError: any other failure; ``name`` is the task's name in the message.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        # Ray's errors of tasks inherit from the class of their cause.
        while cause is not None and (isinstance(cause, RayError) or not isinstance(cause, ModencError)):
            cause = getattr(cause, "cause", None) or cause.__cause__
        if cause is not None:
            raise cause from None
        if not isinstance(error, RayError):
            raise
        raise ClusterError(
            f"{name}: {str(error).strip()}\nWhat is finished is kept; run the same command again to go on"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
