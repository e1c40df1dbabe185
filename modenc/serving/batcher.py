"""Encoding thread with a bounded queue; its batches mix requests and languages."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from modenc.serving.errors import ApiError
from modenc.serving.metrics import Metrics
from modenc.serving.settings import ServeSettings
from modenc.texts import TaggedText

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder


@dataclass
class _Request:
    texts: list[TaggedText]
    align: bool
    prompt_name: str | None
    future: Future[NDArray[np.float32]] = field(default_factory=Future)
    taken: int = 0
    """Number of its texts that were put into batches."""
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    """Vectors of its first texts, an array for each batch."""


_Portion = tuple[_Request, list[TaggedText]]
"""A request, and those of its texts that go into one batch."""


class Batcher:
    """Encoder of many requests together, in a thread of its own.

    A batch takes from each waiting request in turn, so that a large one does not hold up small ones. The
    thread opens the encoder, which :attr:`opened` has then, or the error.
    """

    def __init__(
        self, open_encoder: Callable[[], ModularEncoder], settings: ServeSettings, metrics: Metrics
    ) -> None:
        self.opened: Future[ModularEncoder] = Future()
        self._open, self._settings, self._metrics = open_encoder, settings, metrics
        self._queue: deque[_Request] = deque()
        self._waiting = 0
        self._oldest = 0.0
        self._changed = threading.Condition()
        self._draining = self._stopping = False
        self._thread = threading.Thread(target=self._work, name="modenc-encoder", daemon=True)
        metrics.waiting.set_function(lambda: self._waiting)

    @property
    def ready(self) -> bool:
        """Whether requests are accepted."""
        return self.opened.done() and self.opened.exception() is None and not self._stopping

    def start(self) -> None:
        """Open the encoder and start to encode."""
        self._thread.start()

    def drain(self) -> None:
        """Encode at once from now on, without waiting for full batches: no more requests will come."""
        with self._changed:
            self._draining = True
            self._changed.notify()

    def stop(self) -> None:
        """Stop after all accepted requests are answered."""
        with self._changed:
            self._draining = self._stopping = True
            self._changed.notify()
        self._thread.join()

    def submit(
        self, texts: list[TaggedText], *, align: bool, prompt_name: str | None = None
    ) -> Future[NDArray[np.float32]]:
        """Queue texts to be encoded.

        Args:
            texts: at least one, as ``ModularEncoder.route`` returns them; they keep their tokens.
            align: as for ``ModularEncoder.encode``.
            prompt_name: likewise.

        Returns:
            Vectors [texts, hidden], as from ``ModularEncoder.encode``.

        Raises:
            ApiError: too many texts are waiting.
        """
        request = _Request(texts, align, prompt_name)
        with self._changed:
            if self._waiting + len(texts) > self._settings.max_waiting:
                message, headers = "too many texts are waiting; try again in 1 s", {"Retry-After": "1"}
                raise ApiError(429, message, code="rate_limit_exceeded", headers=headers)
            if not self._queue:
                self._oldest = time.monotonic()
            self._queue.append(request)
            self._waiting += len(texts)
            self._changed.notify()
        return request.future

    def _work(self) -> None:
        try:
            encoder = self._open()
        except Exception as error:  # raised again where the server was started
            self.opened.set_exception(error)
            return
        self.opened.set_result(encoder)
        while (portions := self._next_batch()) is not None:
            self._metrics.batches.observe(sum(len(texts) for _, texts in portions))
            portions.sort(key=_options)
            for _, alike in groupby(portions, _options):
                self._encode(encoder, list(alike))

    def _next_batch(self) -> list[_Portion] | None:
        """Return the next batch; None once all is done after a stop."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._queue or self._stopping)
                if not self._queue:
                    return None
                seconds = self._oldest + self._settings.window - time.monotonic()
                self._changed.wait_for(self._is_full, seconds)
                if portions := self._take():
                    return portions

    def _is_full(self) -> bool:
        return self._draining or self._waiting >= self._settings.batch_size

    def _take(self) -> list[_Portion]:
        """Take a batch from the queue; it is empty if all clients left."""
        portions, room = list[_Portion](), self._settings.batch_size
        while self._queue and room:
            request = self._queue.popleft()
            left = len(request.texts) - request.taken
            if request.future.done():  # its client has left
                self._waiting -= left
                continue
            count = min(left, room)
            portions.append((request, request.texts[request.taken : request.taken + count]))
            request.taken += count
            self._waiting -= count
            room -= count
            if count < left:
                self._queue.append(request)
        return portions

    def _encode(self, encoder: ModularEncoder, portions: list[_Portion]) -> None:
        """Encode portions of requests with the same options."""
        texts = [text for _, own in portions for text in own]
        first, size = portions[0][0], self._settings.batch_size
        try:
            vectors = encoder.encode(
                texts, first.prompt_name, batch_size=size, show_progress_bar=False, align=first.align
            )
        except Exception as error:  # is the request's that caused it
            if len(portions) > 1:
                for portion in portions:
                    self._encode(encoder, [portion])
                return
            with suppress(InvalidStateError):  # its client has left
                first.future.set_exception(error)
            return
        self._metrics.count(texts)
        start = 0
        for request, own in portions:
            request.vectors.append(vectors[start : start + len(own)])
            start += len(own)
            if sum(map(len, request.vectors)) == len(request.texts):
                with suppress(InvalidStateError):  # it failed, or its client has left
                    request.future.set_result(np.concatenate(request.vectors))


def _options(portion: _Portion) -> tuple[bool, str]:
    return portion[0].align, portion[0].prompt_name or ""
