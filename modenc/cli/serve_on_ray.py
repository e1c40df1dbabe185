"""``modenc serve`` as a Ray Serve application: ``serve run modenc.cli.serve_on_ray:app hub=DIR``."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import torch
from ray import serve

from modenc.cli.main import parse
from modenc.cli.serve import KEYS, key_digests, open_served, served_name
from modenc.serving.app import make_app

if TYPE_CHECKING:
    from starlette.types import ASGIApp


@serve.ingress()  # type: ignore[untyped-decorator]
class _Replica:
    """One server, with an encoder of its own."""

    def __init__(self, args: argparse.Namespace, digests: list[bytes]) -> None:
        self._app = make_app(open_served(args), served_name(args), args.batch_size, digests)

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        return self._app


def app(options: dict[str, Any]) -> serve.Application:
    """Build the application; ``serve run`` calls it.

    Args:
        options: options of ``modenc serve`` without their dashes, such as ``hub`` and ``batch-size``, and
            ``replicas`` and ``gpus`` (of each, usually 0 or 1).
    """
    options = dict(options)
    replicas, gpus = int(options.pop("replicas", 1)), float(options.pop("gpus", 0))
    args = parse(["serve", *(f"--{name}={value}" for name, value in options.items())])
    sent = {name: value for name, value in vars(args).items() if name not in ("run", "parser")}
    replica = serve.deployment(
        _Replica,
        name="modenc",
        num_replicas=replicas,
        ray_actor_options={"num_cpus": torch.get_num_threads(), "num_gpus": gpus},
        max_ongoing_requests=1000,
        graceful_shutdown_timeout_s=600,
    )
    # Ray may call this in a process with others that read the keys, too: they stay in its environment.
    return replica.bind(argparse.Namespace(**sent), key_digests(os.environ.get(KEYS, "")))
