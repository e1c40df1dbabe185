"""``modenc serve --on ray``: replicas of the server of ``modenc serve`` on a cluster."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import torch

from modenc.cli.arguments import open_hub
from modenc.cli.encode_on_cluster import arguments_for_nodes
from modenc.cli.encode_parts import modules_fingerprint
from modenc.distributed.cluster import Resources, check_nodes, cluster
from modenc.distributed.serving import Deployment, Service, reports, serve_replicas
from modenc.errors import ClusterError, ModencError
from modenc.serving.settings import ServeSettings

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

# So that requests above --max-waiting reach a replica, which refuses them with 429: Ray would let them wait.
_REQUESTS_TO_REFUSE = 1000


def serve_on_cluster(
    args: argparse.Namespace,
    hub: Hub,
    settings: ServeSettings,
    open_encoder: Callable[[argparse.Namespace], ModularEncoder],
) -> None:
    """Serve on a cluster until SIGTERM or SIGINT; each replica calls ``open_encoder``, which can be pickled.

    Raises:
        ModencError: the cluster, or the encoder on its nodes, cannot be used.
    """
    sent = arguments_for_nodes(args, hub)
    check = partial(_difference_on_node, sent, modules_fingerprint(hub, hub.languages()))
    # The number of threads decides the last digits: on each node it is what it is here.
    threads = torch.get_num_threads()
    make = partial(_make_service, sent, settings, threads, open_encoder)
    stop = Event()
    with cluster(args.address):
        # Ray has set handlers of its own.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        check_nodes(check)
        resources = Resources.of_cluster(threads)
        replicas = args.replicas or resources.capacity
        if replicas > resources.capacity:
            raise ClusterError(
                f"--replicas: expected at most {resources.capacity}, for which the cluster has room "
                f"(cores of each: {threads}), found {replicas}; add nodes, or set fewer threads "
                "(OMP_NUM_THREADS)"
            )
        requests = settings.max_waiting + settings.batch_size + _REQUESTS_TO_REFUSE
        deployment = Deployment(settings.name, replicas, resources, args.host, args.port, requests)
        serve_replicas(make, deployment, check, stop)


def _difference_on_node(args: argparse.Namespace, modules: str) -> str | None:
    """Return a message if the hub on a node has other modules."""
    place = f"expected {args.hub} as where modenc was started"
    try:
        hub = open_hub(args)
        found = modules_fingerprint(hub, hub.languages())
    except (ModencError, OSError) as error:
        return f"{place}, found: {error}; share the hub, or copy it to the same path on each node"
    advice = "share the hub, or copy it; after a change, start the command again"
    return None if found == modules else f"{place}, found other modules; {advice}"


def _make_service(
    args: argparse.Namespace,
    settings: ServeSettings,
    threads: int,
    open_encoder: Callable[[argparse.Namespace], ModularEncoder],
) -> Service:
    from modenc.serving.app import make_app
    from modenc.serving.batcher import Batcher
    from modenc.serving.metrics import Metrics, page_of_replicas

    encoder = open_encoder(args)
    torch.set_num_threads(threads)
    metrics = Metrics()
    batcher = Batcher(lambda: encoder, settings, metrics, lambda: None)

    async def metrics_page() -> bytes:
        return page_of_replicas(await reports())

    def problem() -> str | None:
        return None if batcher.alive else "the thread that encodes has ended; the replica's log says why"

    return Service(make_app(batcher, settings, metrics, metrics_page), problem, metrics.collect)
