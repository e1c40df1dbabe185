"""Encoding thread with a bounded queue; its batches mix requests and languages."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from modenc.serving.errors import ApiError
from modenc.serving.metrics import Metrics
from modenc.serving.settings import ServeSettings

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder

logger = logging.getLogger(__name__)

_LONGEST_WAIT = 60
# Weight of the newest batch in the running mean of texts per second.
_WEIGHT = 0.2


@dataclass(frozen=True)
class Encoded:
    """Result of a request."""

    vectors: NDArray[np.float32]
    """Vectors [texts, hidden], as from ``ModularEncoder.encode``."""
    languages: list[str]
    """Code of the language whose modules encoded each text."""
    tokens: int
    """Number of tokens with prompts, without texts whose language was removed from the hub meanwhile."""


@dataclass
class _Request:
    size: int
    """Number of its texts."""
    align: bool
    prompt_name: str | None
    future: Future[Encoded] = field(default_factory=Future)
    done: list[Encoded] = field(default_factory=list)


class _Portion(NamedTuple):
    """Texts of one request: those that go into one batch, or those that still wait."""

    request: _Request
    texts: Sequence[str]
    langs: Sequence[str | None]
    first: int
    """Number of its first text in the request."""

    def split(self, size: int) -> tuple[_Portion, _Portion]:
        """Split it into its first ``size`` texts and the rest."""
        request, texts, langs, first = self
        rest = _Portion(request, texts[size:], langs[size:], first + size)
        return _Portion(request, texts[:size], langs[:size], first), rest


class Batcher:
    """Encoder of many requests together, in a thread of its own.

    A batch takes from each waiting request in turn, so that a large one does not hold up small ones. The
    thread calls ``open_encoder``, and ``on_failure`` if that fails; :attr:`failure` then says why.
    """

    def __init__(
        self,
        open_encoder: Callable[[], ModularEncoder],
        settings: ServeSettings,
        metrics: Metrics,
        on_failure: Callable[[], None],
    ) -> None:
        self.encoder: ModularEncoder | None = None
        self.failure: Exception | None = None
        self._open, self._settings, self._metrics = open_encoder, settings, metrics
        self._on_failure = on_failure
        self._queue: deque[_Portion] = deque()
        self._waiting = 0
        self._oldest = 0.0
        self._rate = 0.0
        self._changed = threading.Condition()
        self._draining = self._stopping = False
        self._thread = threading.Thread(target=self._work, name="modenc-encoder", daemon=True)
        metrics.waiting.set_function(lambda: self._waiting)

    @property
    def ready(self) -> bool:
        """Whether requests are accepted."""
        return self.encoder is not None and not self._stopping

    @property
    def alive(self) -> bool:
        """Whether the thread runs, or was stopped on purpose."""
        return self._stopping or self._thread.is_alive()

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
        self,
        texts: Sequence[str],
        langs: Sequence[str | None],
        *,
        align: bool,
        prompt_name: str | None = None,
    ) -> Future[Encoded]:
        """Queue texts to be encoded.

        Args:
            texts: at least one.
            langs: a code for each, None where it is to be identified.
            align: as for ``ModularEncoder.encode``.
            prompt_name: likewise.

        Raises:
            ApiError: too many texts are waiting.
        """
        request = _Request(len(texts), align, prompt_name)
        with self._changed:
            if self._waiting + len(texts) > self._settings.max_waiting:
                wait = min(math.ceil(self._waiting / self._rate), _LONGEST_WAIT) if self._rate else 1
                message = f"too many texts are waiting; try again in {wait} s"
                headers = {"Retry-After": str(wait)}
                raise ApiError(429, message, code="rate_limit_exceeded", headers=headers)
            if not self._queue:
                self._oldest = time.monotonic()
            self._queue.append(_Portion(request, texts, langs, 0))
            self._waiting += len(texts)
            self._changed.notify()
        return request.future

    def _work(self) -> None:
        try:
            self.encoder = self._open()
        except Exception as error:  # raised again where the server was started
            self.failure = error
            self._on_failure()
            return
        while (portions := self._next_batch()) is not None:
            if not portions:
                continue
            start, count = time.monotonic(), sum(len(portion.texts) for portion in portions)
            self._metrics.batches.observe(count)
            alike: dict[tuple[bool, str | None], list[_Portion]] = {}
            for portion in portions:
                alike.setdefault((portion.request.align, portion.request.prompt_name), []).append(portion)
            for (align, prompt_name), own in alike.items():
                self._encode(own, align, prompt_name)
            rate = count / (time.monotonic() - start)
            self._rate += (rate - self._rate) * (_WEIGHT if self._rate else 1.0)

    def _next_batch(self) -> list[_Portion] | None:
        """Return the next batch, empty if its clients left; None once all is done after a stop."""
        most = self._settings.batch_size
        with self._changed:
            while not self._queue and not self._stopping:
                self._changed.wait()
            if not self._queue:
                return None
            while not self._draining and self._waiting < most:
                seconds = self._oldest + self._settings.window - time.monotonic()
                if seconds <= 0:
                    break
                self._changed.wait(seconds)
            portions, room = list[_Portion](), most
            while self._queue and room:
                portion, rest = self._queue.popleft().split(room)
                self._waiting -= len(portion.texts)
                if portion.request.future.done():
                    self._waiting -= len(rest.texts)
                    continue
                portions.append(portion)
                room -= len(portion.texts)
                if rest.texts:
                    self._queue.append(rest)
            return portions

    def _encode(self, portions: list[_Portion], align: bool, prompt_name: str | None) -> None:
        try:
            encoded = self._vectors(portions, align, prompt_name)
        except Exception as error:  # is the request's that caused it
            if len(portions) > 1:
                for portion in portions:
                    self._encode([portion], align, prompt_name)
                return
            with suppress(InvalidStateError):  # its client has left
                portions[0].request.future.set_exception(error)
            return
        for portion, own in zip(portions, encoded, strict=True):
            _give(portion.request, own)

    def _vectors(self, portions: list[_Portion], align: bool, prompt_name: str | None) -> list[Encoded]:
        encoder = self.encoder
        assert encoder is not None
        texts = [text for portion in portions for text in portion.texts]
        # If a text is refused, each portion is encoded alone, and the message says which text of its request.
        langs = [lang for portion in portions for lang in portion.langs]
        tagged = encoder.route(texts, langs, first=portions[0].first)
        batch = self._settings.batch_size
        # Tokenizes these very texts.
        vectors = encoder.encode(tagged, prompt_name, batch_size=batch, show_progress_bar=False, align=align)
        self._metrics.count(tagged)
        answers, start = [], 0
        for portion in portions:
            own = slice(start, start + len(portion.texts))
            tokens = sum(len(text.tokens.ids) for text in tagged[own] if text.tokens is not None)
            answers.append(Encoded(vectors[own], [text.lang for text in tagged[own]], tokens))
            start = own.stop
        return answers


def _give(request: _Request, encoded: Encoded) -> None:
    """Add the vectors of a portion; the last one answers the request, unless it failed or its client left."""
    request.done.append(encoded)
    if sum(len(done.languages) for done in request.done) < request.size:
        return
    vectors = np.concatenate([done.vectors for done in request.done])
    languages = [code for done in request.done for code in done.languages]
    with suppress(InvalidStateError):
        request.future.set_result(Encoded(vectors, languages, sum(done.tokens for done in request.done)))
