"""``modenc encode --on ray``: a cluster's nodes encode shards, and this process stores them."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import open_encoder, open_hub, progress_bar
from modenc.cli.encode_job import Shard, actual_precision, encode_for_job, input_state, read_shards
from modenc.cli.vector_shards import VectorShards
from modenc.distributed.cluster import Resources, check_nodes, cluster
from modenc.distributed.shards import Work, map_shards
from modenc.errors import ClusterError, ModencError
from modenc.hub.remote import RemoteHub
from modenc.threads import set_threads

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub

logger = logging.getLogger(__name__)


def encode_missing_shards(
    args: argparse.Namespace,
    encoder: ModularEncoder,
    store: VectorShards,
    counts: dict[str, int],
    job: dict[str, Any],
) -> int:
    """Encode the missing shards; returns the number of all texts."""
    store.begin(job, resumable=True)
    total = sum(counts.values())
    shards = math.ceil(total / args.shard_size)
    missing = store.missing(shards)
    if len(missing) < shards:
        done = shards - len(missing)
        logger.info("%d shards of %d texts are done already; resuming", done, args.shard_size)
    if not missing:
        return total
    node_args = arguments_for_nodes(args, encoder.hub)
    read = partial(_read, node_args, encoder.max_characters, counts)
    names = f"{args.input} and {args.hub}"
    check = partial(difference_on_node, node_args, names, input_state, job)
    # The number of threads affects the last digits, so it is the same on all nodes.
    threads = set_threads(0)
    make_worker = partial(_make_worker, node_args, job, threads)
    with cluster(args.address), progress_bar(" shards", shards, shards - len(missing)) as bar:
        check_nodes(check)
        for number, found in map_shards(missing, read, make_worker, Resources.of_cluster(threads), check):
            vectors, codes, cut = found
            store.write(number, number * args.shard_size, vectors, codes)
            args.cut += cut
            bar.update()
    return total


def arguments_for_nodes(args: argparse.Namespace, hub: Hub) -> argparse.Namespace:
    """Copy the arguments for the nodes, with the commit of a remote hub."""
    sent = {name: value for name, value in vars(args).items() if name not in ("run", "parser")}
    if isinstance(hub, RemoteHub):
        sent["revision"] = hub.commit
    return argparse.Namespace(**sent)


def difference_on_node(
    args: argparse.Namespace,
    files: str,
    state: Callable[[argparse.Namespace, Hub], dict[str, Any]],
    expected: dict[str, Any],
) -> str | None:
    """Compare the state of the hub, and of other ``files``, on a node with the expected one.

    Returns a message on what differs, or None.
    """
    place = f"expected {files} as where modenc was started"
    try:
        found = state(args, open_hub(args))
    except (ModencError, OSError) as error:
        return f"{place}, found: {error}; share the folders, or copy them to the same paths on each node"
    others = ", ".join(name for name in found if found[name] != expected[name])
    advice = "share the folders, or copy them with the files' dates; after a change, start the command again"
    return f"{place}, found other {others}; {advice}" if others else None


def _read(
    args: argparse.Namespace, max_characters: int, counts: dict[str, int], numbers: Sequence[int]
) -> Iterator[Shard]:
    """Read the shards with these numbers, which ascend."""
    shards = read_shards(args, max_characters, counts, start=numbers[0])
    wanted = set(numbers)
    return (shard for shard in islice(shards, numbers[-1] - numbers[0] + 1) if shard.number in wanted)


def _make_worker(args: argparse.Namespace, job: dict[str, Any], threads: int) -> Work:
    """Open an encoder, and return a function: shard → vectors, languages, number of truncated texts."""
    encoder = open_encoder(args)
    set_threads(threads)
    compute = actual_precision(args.compute, encoder.device)
    if compute != job["compute"]:
        raise ClusterError(
            f"expected nodes that compute in {job['compute']}, as here, found one for which --compute "
            f"{args.compute} is {compute}; use --compute fp32"
        )

    def work(shard: Shard) -> Any:
        args.cut = 0
        return *encode_for_job(args, encoder, shard, job), args.cut

    return work
