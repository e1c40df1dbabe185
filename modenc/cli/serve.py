"""``modenc serve``: embeddings over HTTP."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    add_command,
    add_hub_and_routing,
    add_option,
    add_shared,
    bounded,
    open_encoder,
    open_hub,
)

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder

logger = logging.getLogger(__name__)

KEYS = "MODENC_API_KEYS"
_LOCAL = ("127.0.0.1", "::1", "localhost")


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "serve", run)
    add_hub_and_routing(parser)
    add_shared(parser, "--compute", "--device")
    add_option(
        parser, "--host", "ADDRESS", "where to listen; 0.0.0.0: on all interfaces", default="127.0.0.1"
    )
    text = "port to listen on; 0: a free one"
    add_option(parser, "--port", "N", text, type=bounded(int, 0, 65535), default=8000)
    add_option(parser, "--name", "NAME", "what requests call the hub (default: the last part of its name)")
    add_option(parser, "--preload", "CODE,…|all", "languages to load before the first request")
    add_shared(parser, "--batch-size", default=64)


def run(args: argparse.Namespace) -> None:
    """Serve embeddings over HTTP.

    Answers POST /v1/embeddings and GET /v1/models as OpenAI's API does, with the fields lang, align,
    normalize and input_type, too. At / is a page to try it; /health and /metrics (Prometheus) are for
    operators. If the environment variable MODENC_API_KEYS holds keys, separated by commas, requests need
    one of them. SIGTERM stops the server after it has answered what it took.

    Examples:
        modenc serve --hub adapters_hub/me5-small
        MODENC_API_KEYS=one,two modenc serve --hub adapters_hub/me5-small --host 0.0.0.0 --preload all
    """
    hub = open_hub(args)
    digests = key_digests(os.environ.pop(KEYS, ""))  # no process that this one starts inherits them
    import uvicorn

    from modenc.serving.app import make_app

    if not digests and args.host not in _LOCAL:
        logger.warning("no keys in %s: whoever reaches the server at %s is served", KEYS, args.host)
    family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    # Before the minutes that the encoder may take, so that a port in use is said at once.
    with socket.create_server((args.host, args.port), family=family, backlog=2048) as listening:
        app = make_app(open_served(args), served_name(args), args.batch_size, digests)
        where = f"http://{f'[{args.host}]' if ':' in args.host else args.host}:{listening.getsockname()[1]}"
        logger.info("%s of %s: %s", served_name(args), hub.path, where)
        # At its end uvicorn sends itself the signal again, for the handler before it; all is done by then.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        # Requests are counted in the metrics; an access log would be mostly noise.
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])


def key_digests(keys: str) -> list[bytes]:
    """Hash API keys that are separated by commas."""
    from modenc.serving.app import digest

    return [digest(key.strip()) for key in keys.split(",") if key.strip()]


def served_name(args: argparse.Namespace) -> str:
    """Return what requests call the hub."""
    return str(args.name or Path(args.hub).resolve().name)


def open_served(args: argparse.Namespace) -> ModularEncoder:
    """Open the encoder, with the languages to load before the first request.

    Raises:
        ModencError: the hub, the base or an option is wrong.
    """
    from modenc.errors import TextsCutWarning

    warnings.simplefilter("ignore", TextsCutWarning)  # counted in the metrics
    encoder = open_encoder(args)
    # In a thread that ends: OpenMP keeps threads for each one that computes. If there are more than cores,
    # they sleep when they wait for each other, which took a third of the server's speed.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_warm_up, encoder, args.preload).result()
    return encoder


def _warm_up(encoder: ModularEncoder, preload: str | None) -> None:
    """Load languages, and encode a text, which makes what later ones only use."""
    if preload:
        encoder.load(encoder.languages if preload == "all" else preload.split(","))
    encoder.encode(["1"], show_progress_bar=False)
