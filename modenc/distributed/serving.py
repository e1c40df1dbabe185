"""Replicas of a web application behind one address of a cluster, by Ray Serve.

Ray starts and replaces replicas and hands each request to one of them; the application answers it.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from modenc.distributed.cluster import Check, Resources, beginning
from modenc.errors import ClusterError, MissingExtraError, ModencError

try:
    from ray import serve
    from ray.serve.exceptions import RayServeException
except ImportError as error:
    missing = (error.name or "").partition(".")[0]
    raise MissingExtraError(
        f'Ray Serve cannot be imported (missing: {missing}); run: pip install "modenc[ray,serve]"'
    ) from error

if TYPE_CHECKING:
    from starlette.types import ASGIApp

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_TO_ANSWER = 30.0
# For a replica to answer open requests before it is stopped.
_SECONDS_TO_DRAIN = 600.0
# In a row, before the start is given up; each takes seconds.
_FAILED_STARTS = 3
_KEEP_ALIVE = 30
_OPEN = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Host that means all interfaces → host for connections from the same machine."""


@dataclass(frozen=True)
class Service:
    """Web application of one replica, and functions that describe its state."""

    app: ASGIApp
    check: Callable[[], str | None]
    """Returns a message if the replica must be replaced, ``None`` if it works."""
    report: Callable[[], Any]
    """Returns the state that :func:`reports` collects; it can be pickled."""


@dataclass(frozen=True)
class Deployment:
    """Settings of a service on a cluster."""

    name: str
    """Name of the Ray Serve application; a running one of this name is replaced."""
    replicas: int
    resources: Resources
    """Resources of each replica."""
    host: str
    """Address at which the head node listens."""
    port: int
    """Port there; 0: a free one."""
    max_requests: int
    """Most requests that Ray passes to a replica at a time; further ones wait."""


_CAUSE = "A replica was not started: "


@serve.ingress()  # type: ignore[untyped-decorator]
class _Replica:
    def __init__(self, begin: Callable[[], None], make: Callable[[], Service]) -> None:
        try:
            begin()
            self.service = make()
        except ModencError as error:  # Ray wraps it in text; JSON keeps its lines together
            raise ClusterError(_CAUSE + json.dumps(str(error))) from error

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        return self.service.app

    async def check_health(self) -> None:
        if problem := self.service.check():
            raise ClusterError(problem)

    async def report(self) -> tuple[str, Any]:
        return serve.get_replica_context().replica_tag, self.service.report()


@cache
def _all_replicas() -> Any:
    context = serve.get_replica_context()
    return serve.get_deployment_handle(context.deployment, context.app_name)


async def reports() -> dict[str, Any]:
    """Collect name of a replica → its :attr:`Service.report`, without lost ones; call it in a replica."""
    asked = _all_replicas().broadcast("report")
    found = await asked.results_async(timeout_s=_SECONDS_TO_ANSWER, return_exceptions=True)
    return dict(one for one in found if not isinstance(one, BaseException))


def serve_replicas(make: Callable[[], Service], deployment: Deployment, check: Check, stop: Event) -> None:
    """Serve until ``stop`` is set; replicas answer open requests before they stop.

    Args:
        make: called once in each replica; it can be pickled.
        deployment: the settings.
        check: called by each replica on its node before it starts.
        stop: ends the service.

    Raises:
        ClusterError: ``make`` or ``check`` raised an error while the first replicas were started (the message
            is the error's), or Ray Serve cannot be used or was lost.
    """
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    try:
        with _ray_serve(deployment) as port:
            here = replace(deployment, port=port)
            since = _deploy(make, here, check)
            try:
                _watch(here, since, stop)
            finally:
                _remove(here.name, since)
    except (RayError, RayServeException, TimeoutError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[-1].removeprefix("ray.serve.exceptions.RayServeException: ")
        raise ClusterError(f"Ray Serve cannot serve {deployment.name}: {reason}; see ray status") from error


@contextmanager
def _ray_serve(deployment: Deployment) -> Iterator[int]:
    """Start Ray Serve if it does not run; yields its port. If it was started here and is idle, it ends after.

    Raises:
        ClusterError: it runs with another host or port, or cannot listen there.
    """
    before = serve.status()
    if before.proxies or before.applications:
        _routes(deployment)
        if deployment.name in before.applications:
            logger.warning("%s: replaces the application of this name in the cluster", deployment.name)
        yield deployment.port
        return
    port = _on_head(_free_port, deployment)
    options = {"host": deployment.host, "port": port, "keep_alive_timeout_s": _KEEP_ALIVE}
    try:
        serve.start(proxy_location="HeadOnly", http_options=options, logging_config={"log_level": "WARNING"})
        yield port
    finally:
        if not serve.status().applications:
            serve.shutdown()


def _deploy(make: Callable[[], Service], deployment: Deployment, check: Check) -> float:
    """Start replicas; returns the time of it, which identifies them."""
    replicas = serve.deployment(
        _Replica,
        name=deployment.name,
        num_replicas=deployment.replicas,
        ray_actor_options=deployment.resources.options(),
        max_ongoing_requests=deployment.max_requests,
        graceful_shutdown_timeout_s=_SECONDS_TO_DRAIN,
        max_constructor_retry_count=_FAILED_STARTS,
        logging_config={"log_level": "WARNING", "enable_access_log": False},
    )
    target = serve.RunTarget(replicas.bind(beginning(check), make), deployment.name)
    serve.run_many([target], wait_for_applications_running=False)
    return float(serve.status().applications[deployment.name].last_deployed_time_s)


def _watch(deployment: Deployment, since: float, stop: Event) -> None:
    """Log the address once all replicas are ready, and changes in their number, until ``stop`` is set.

    Raises:
        ClusterError: they cannot be started, or the application is no longer the one that was deployed.
    """
    ready, started = (0, ""), False
    while not stop.wait(_SECONDS_BETWEEN_LOOKS):
        found = serve.status().applications.get(deployment.name)
        if found is None or found.status == "DELETING" or found.last_deployed_time_s != since:
            raise ClusterError(f"{deployment.name}: another process has removed or replaced this application")
        ready = _log_ready(deployment, found, ready)
        if started:
            continue
        if found.status == "DEPLOY_FAILED":
            reasons = [found.message, *(one.message for one in found.deployments.values())]
            raise ClusterError(_reason("\n".join(reasons)))
        if found.status == "RUNNING" and deployment.name in _routes(deployment).values():
            host = deployment.host
            shown = _head()["NodeManagerAddress"] if host in _OPEN else host
            logger.info("%s: ready at http://%s:%d", deployment.name, _bracketed(shown), deployment.port)
            started = True


def _reason(message: str) -> str:
    """Extract modenc's own error from Ray's message, or return all of the message."""
    found = re.findall(f'{_CAUSE}(".*")$', message, re.MULTILINE)
    return str(json.loads(found[-1])) if found else f"no replica could be started: {message.strip()}"


def _log_ready(deployment: Deployment, found: Any, before: tuple[int, str]) -> tuple[int, str]:
    """Return how many replicas are ready, and Ray's reason if some are not; log both if they changed."""
    if (replicas := found.deployments.get(deployment.name)) is None:
        return before
    ready = int(replicas.replica_states.get("RUNNING", 0))
    reason = replicas.message if ready < deployment.replicas else ""
    if (ready, reason) != before:
        log = logger.warning if ready < before[0] else logger.info
        shown = f" ({reason})" if reason else ""
        log("%s: %d of %d replicas are ready%s", deployment.name, ready, deployment.replicas, shown)
    return ready, reason


def _remove(name: str, since: float) -> None:
    """Stop the replicas after they answered open requests, unless another process has replaced them."""
    end = time.monotonic() + _SECONDS_TO_DRAIN
    while (found := serve.status().applications.get(name)) and time.monotonic() < end:
        if found.last_deployed_time_s != since:
            return
        with suppress(TimeoutError):
            serve.delete(name)


def _head() -> dict[str, Any]:
    return next(node for node in ray.nodes() if "node:__internal_head__" in node["Resources"])


def _on_head(call: Callable[[str, int], Any], deployment: Deployment) -> Any:
    """Call a function of host and port on the head node.

    Raises:
        ClusterError: it returned an ``OSError``.
    """
    here = NodeAffinitySchedulingStrategy(_head()["NodeID"], soft=False)
    task = ray.remote(call).options(num_cpus=0, scheduling_strategy=here)
    found = ray.get(task.remote(deployment.host, deployment.port))
    if isinstance(found, OSError):
        where = f"--host {deployment.host}, --port {deployment.port}"
        raise ClusterError(f"{where}: cannot be used on the head node ({found}); choose others")
    return found


def _free_port(host: str, port: int) -> int | OSError:
    """Check that the port is free, or find a free one for 0; returns it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family) as listening:
            return int(listening.getsockname()[1])
    except OSError as error:
        return error


def _routes(deployment: Deployment) -> dict[str, str]:
    """Ask Ray Serve for its routes: path → application.

    Raises:
        ClusterError: it does not listen where the deployment says.
    """
    if (found := _on_head(_asked_for_routes, deployment)) is None:
        raise ClusterError(
            f"expected Ray Serve at --host {deployment.host}, --port {deployment.port} of the head node, "
            "found it elsewhere: it was started in this cluster before, with a host and port of its own; "
            "give these"
        )
    return dict(found)


def _asked_for_routes(host: str, port: int) -> dict[str, str] | None:
    address = f"http://{_bracketed(_OPEN.get(host, host))}:{port}/-/routes"
    try:
        # A proxy of the environment would be asked for this machine's own address.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(address, timeout=_SECONDS_TO_ANSWER) as answer:
            return dict(json.load(answer))
    except HTTPError:  # until the first application is there
        return {}
    except (OSError, ValueError):
        return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
