"""``modenc serve``: vectors over HTTP."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    add,
    add_cluster,
    add_command,
    add_hub_and_routing,
    bounded,
    on_cluster,
    open_encoder,
    open_hub,
    option,
    positive,
)
from modenc.errors import OptionError

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder
    from modenc.hub.store import Hub
    from modenc.serving.settings import ServeSettings

logger = logging.getLogger(__name__)

KEYS = "MODENC_API_KEYS"
_LOCAL = ("127.0.0.1", "::1", "localhost")


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "serve", run)
    add_hub_and_routing(parser)
    add(parser, "--compute", "--device", "--max-memory")
    option(parser, "--host", "ADDRESS", "where to listen; 0.0.0.0: on all interfaces", default="127.0.0.1")
    text = "port to listen on; 0: a free one"
    option(parser, "--port", "N", text, type=bounded(int, 0, 65535), default=8000)
    option(parser, "--name", "NAME", "what requests call the hub (default: the last part of its name)")
    option(parser, "--preload", "CODE,…|all", "languages to load before the first request")
    add(parser, "--batch-size", default=64)
    text = "milliseconds that a text waits for others to share its batch while nothing else is computed"
    option(parser, "--window", "MS", text, type=bounded(float, 0, 60_000), default=2.0)
    text = "texts that may wait; with more, requests are refused (429)"
    option(parser, "--max-waiting", "N", text, type=positive, default=4096)
    option(parser, "--max-texts", "N", "most texts of a request", type=positive, default=2048)
    option(parser, "--max-characters", "N", "most characters of a text", type=positive, default=100_000)
    option(parser, "--max-body", "BYTES", "most bytes of a request", type=positive, default=8_000_000)
    text = "page whose scripts may use the server, such as https://app.example.org; may be repeated; *: all"
    option(parser, "--cors-origin", "ORIGIN", text, action="append", default=[])
    add_cluster(parser)
    text = "servers on the cluster, each with all its languages (default: as many as there is room for)"
    option(parser, "--replicas", "N", text, type=positive)


def run(args: argparse.Namespace) -> None:
    """Serve vectors over HTTP.

    Answers POST /v1/embeddings and GET /v1/models as OpenAI's API does, with the fields lang, align,
    normalize and input_type, too. At / is a page to try it; /health, /ready and /metrics (Prometheus) are for
    operators. If the environment variable MODENC_API_KEYS holds keys, separated by commas, requests need
    one of them. SIGTERM stops the server after it has answered what it took.

    Examples:
        modenc serve --hub adapters_hub/me5-small
        MODENC_API_KEYS=one,two modenc serve --hub adapters_hub/me5-small --host 0.0.0.0 --preload all
        modenc serve --on ray --hub /shared/hub --host 0.0.0.0 --replicas 4
    """
    spread = on_cluster(args)
    if args.replicas and not spread:
        raise OptionError("--replicas: expected --on ray with it, found none; add --on ray")
    hub = open_hub(args)
    import modenc.serving  # noqa: F401  (its extra may be missing)
    from modenc.serving.settings import ServeSettings, key_digests

    keys = key_digests(os.environ.pop(KEYS, ""))  # no process that this one starts inherits them
    limits = ("batch_size", "max_waiting", "max_texts", "max_characters", "max_body")
    settings = ServeSettings(
        args.name or Path(args.hub).resolve().name,
        window=args.window / 1000,
        key_digests=keys,
        cors_origins=tuple(args.cors_origin),
        **{name: getattr(args, name) for name in limits},
    )
    if not keys and args.host not in _LOCAL:
        logger.warning("no keys in %s: whoever reaches the server at %s is served", KEYS, args.host)
    if spread:
        from modenc.cli.serve_on_cluster import serve_on_cluster

        serve_on_cluster(args, hub, settings, _opened)
    else:
        _serve_here(args, hub, settings)


def _serve_here(args: argparse.Namespace, hub: Hub, settings: ServeSettings) -> None:
    from modenc.serving.run import serve

    family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    with socket.create_server((args.host, args.port), family=family, backlog=2048) as listening:
        where = f"http://{f'[{args.host}]' if ':' in args.host else args.host}:{listening.getsockname()[1]}"
        logger.info("%s of %s: %s", settings.name, hub.path, where)
        serve(lambda: _opened(args), settings, listening)


def _opened(args: argparse.Namespace) -> ModularEncoder:
    from modenc.errors import TextsCutWarning

    warnings.simplefilter("ignore", TextsCutWarning)  # counted in the metrics
    encoder = open_encoder(args)
    if args.preload:
        encoder.load(encoder.languages if args.preload == "all" else args.preload.split(","))
    # The first text makes what later ones only use.
    encoder.encode(["1"], show_progress_bar=False)
    logger.info("ready: %s", ", ".join(encoder.languages))
    return encoder
