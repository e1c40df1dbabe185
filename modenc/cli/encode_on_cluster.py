"""``modenc encode --on ray``: each part of the output folder is a task on a Ray cluster."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import torch

from modenc.cli.arguments import open_encoder
from modenc.cli.encode_parts import Part, encode_parts
from modenc.distributed.cluster import Resources, cluster, shared_folders
from modenc.distributed.graph import Job, run_graph
from modenc.hub.remote import RemoteHub

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub


def encode_on_cluster(args: argparse.Namespace, hub: Hub, parts: Sequence[Part]) -> None:
    """Encode parts, as :func:`encode_parts` does, each in a task.

    Raises:
        DataError: the input or the hub is another on a node, or changes.
        ClusterError: the cluster cannot be used, or a node does not see the output folder.
    """
    sent = tuple(vars(arguments_for_nodes(args, hub)).items())
    threads = torch.get_num_threads()
    with cluster(args.address), shared_folders([args.output]) as check:
        jobs = [Job(part.path.name, partial(_encode, sent, part, threads)) for part in parts]
        args.cut += sum(run_graph(jobs, Resources.of_cluster(threads), check))


def _encode(options: tuple[tuple[str, Any], ...], part: Part, threads: int) -> int:
    """Encode a part; returns the number of truncated texts."""
    args, encoder = argparse.Namespace(**dict(options)), _opened(options)
    torch.set_num_threads(threads)
    encode_parts(args, encoder, [part])
    return int(args.cut)


@lru_cache(maxsize=1)
def _opened(options: tuple[tuple[str, Any], ...]) -> ModularEncoder:
    """Open the encoder once in each of Ray's processes, which run one task after another."""
    return open_encoder(argparse.Namespace(**dict(options)))


def arguments_for_nodes(args: argparse.Namespace, hub: Hub) -> argparse.Namespace:
    """Copy the arguments for the nodes, with the commit of a remote hub."""
    sent = {name: value for name, value in vars(args).items() if name not in ("run", "parser")}
    if isinstance(hub, RemoteHub):
        sent["revision"] = hub.commit
    return argparse.Namespace(**sent)
