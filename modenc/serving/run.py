"""Running a server in this process."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from modenc.serving.app import make_app
from modenc.serving.batcher import Batcher
from modenc.serving.metrics import Metrics
from modenc.serving.settings import ServeSettings

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder


class _Server(uvicorn.Server):
    """Server that answers waiting requests at once when it is told to end.

    Without that, uvicorn would wait for requests that wait for a batch to fill.
    """

    def __init__(self, config: uvicorn.Config, batcher: Batcher) -> None:
        super().__init__(config)
        self._batcher = batcher

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGTERM or SIGINT, in the main thread."""
        # Its lock may be held by this very thread, which is why a condition's lock is a reentrant one.
        self._batcher.drain()
        super().handle_exit(sig, frame)


def serve(
    open_encoder: Callable[[], ModularEncoder], settings: ServeSettings, listening: socket.socket
) -> None:
    """Serve until SIGTERM or SIGINT; accepted requests are answered first.

    ``open_encoder`` is called in the thread that encodes, while the server already answers ``/health``.

    Raises:
        ModencError: the encoder cannot be opened.
    """
    metrics = Metrics()

    def give_up() -> None:
        server.should_exit = True

    batcher = Batcher(open_encoder, settings, metrics, give_up)
    app = make_app(batcher, settings, metrics)
    # Requests are counted in the metrics; an access log would be mostly noise.
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, timeout_keep_alive=30
    )
    server = _Server(config, batcher)
    # At its end uvicorn sends itself the signal again, for the handler before it; all is done by then.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    server.run(sockets=[listening])
    if batcher.failure is not None:
        raise batcher.failure
