"""``modenc serve``: embeddings over HTTP."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from modenc.cli.arguments import (
    add_command,
    add_hub_and_routing,
    add_option,
    add_shared,
    bounded,
    open_encoder,
    open_hub,
    positive,
)

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder
    from modenc.serving.settings import ServeSettings

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
    text = "milliseconds that a text waits for others to share its batch while nothing else is computed"
    add_option(parser, "--window", "MS", text, type=bounded(float, 0, 60_000), default=2.0)
    text = "texts that may wait; with more, requests are refused (429)"
    add_option(parser, "--max-waiting", "N", text, type=positive, default=4096)
    add_option(parser, "--max-texts", "N", "most texts of a request", type=positive, default=2048)
    add_option(parser, "--max-characters", "N", "most characters of a text", type=positive, default=100_000)
    add_option(parser, "--max-body", "BYTES", "most bytes of a request", type=positive, default=8_000_000)


def run(args: argparse.Namespace) -> None:
    """Serve embeddings over HTTP.

    Answers POST /v1/embeddings and GET /v1/models as OpenAI's API does, with the fields lang, align,
    normalize and input_type, too. At / is a page to try it; /health, /ready and /metrics (Prometheus) are for
    operators. If the environment variable MODENC_API_KEYS holds keys, separated by commas, requests need
    one of them. SIGTERM stops the server after it has answered what it took.

    Examples:
        modenc serve --hub adapters_hub/me5-small
        MODENC_API_KEYS=one,two modenc serve --hub adapters_hub/me5-small --host 0.0.0.0 --preload all
    """
    hub = open_hub(args)
    settings = serve_settings(args, os.environ.pop(KEYS, ""))  # no process that this one starts inherits them
    if not settings.key_digests and args.host not in _LOCAL:
        logger.warning("no keys in %s: whoever reaches the server at %s is served", KEYS, args.host)
    family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    with socket.create_server((args.host, args.port), family=family, backlog=2048) as listening:
        where = f"http://{f'[{args.host}]' if ':' in args.host else args.host}:{listening.getsockname()[1]}"
        logger.info("%s of %s: %s", settings.name, hub.path, where)
        _serve(partial(open_served, args), settings, listening)


def serve_settings(args: argparse.Namespace, keys: str) -> ServeSettings:
    """Make the settings that the arguments describe, with API keys that are separated by commas.

    Raises:
        OptionError: they do not fit together, or a key is none.
    """
    from modenc.serving.settings import ServeSettings, key_digests

    limits = ("batch_size", "max_waiting", "max_texts", "max_characters", "max_body")
    return ServeSettings(
        args.name or Path(args.hub).resolve().name,
        window=args.window / 1000,
        key_digests=key_digests(keys),
        **{name: getattr(args, name) for name in limits},
    )


def open_served(args: argparse.Namespace) -> ModularEncoder:
    """Open the encoder, with the languages to load before the first request.

    Raises:
        ModencError: the hub, the base or an option is wrong.
    """
    from modenc.errors import TextsCutWarning

    warnings.simplefilter("ignore", TextsCutWarning)  # counted in the metrics
    encoder = open_encoder(args)
    if args.preload:
        encoder.load(encoder.languages if args.preload == "all" else args.preload.split(","))
    # The first text makes what later ones only use.
    encoder.encode(["1"], show_progress_bar=False)
    logger.info("ready: %s", ", ".join(encoder.languages))
    return encoder


def _serve(
    open_encoder: Callable[[], ModularEncoder], settings: ServeSettings, listening: socket.socket
) -> None:
    """Serve until SIGTERM or SIGINT; accepted requests are answered first.

    The encoder is opened in the thread that encodes, while the server already answers ``/health``.
    """
    import uvicorn

    from modenc.serving.app import make_app
    from modenc.serving.batcher import Batcher
    from modenc.serving.metrics import Metrics

    metrics = Metrics()
    batcher = Batcher(open_encoder, settings, metrics)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # Its lock may be held by this very thread, which is why a condition's lock is a reentrant one.
            batcher.drain()
            super().handle_exit(sig, frame)

    # Requests are counted in the metrics; an access log would be mostly noise.
    app = make_app(batcher, settings, metrics)
    server = Server(
        uvicorn.Config(app, log_config=None, access_log=False, server_header=False, timeout_keep_alive=30)
    )

    def end_on_failure(opened: Future[ModularEncoder]) -> None:
        server.should_exit = server.should_exit or opened.exception() is not None

    batcher.opened.add_done_callback(end_on_failure)
    # At its end uvicorn sends itself the signal again, for the handler before it; all is done by then.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    server.run(sockets=[listening])
    batcher.opened.result()  # raises its error
