"""Encoding thread, whose batches mix requests and languages, and the server's metrics, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector

from modenc.texts import TaggedText

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder


class Metrics:
    """Metrics of one server; a process may have several."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        ProcessCollector(registry=own)
        self.requests = Counter("modenc_requests", "Requests answered.", ("route", "status"), registry=own)
        text = "Seconds from a request to its answer."
        self.seconds = Histogram("modenc_request_seconds", text, ("route",), registry=own)
        text = "Texts encoded, by the modules used."
        self.texts = Counter("modenc_texts", text, ("language",), registry=own)
        self.tokens = Counter("modenc_tokens", "Tokens encoded.", registry=own)
        self.cut = Counter("modenc_texts_cut", "Texts cut at the hub's limit of tokens.", registry=own)
        sizes = [2**power for power in range(8)]
        self.batches = Histogram("modenc_batch_texts", "Texts in a batch.", buckets=sizes, registry=own)

    def count(self, texts: Iterable[TaggedText]) -> None:
        """Count encoded texts and their tokens."""
        for text in texts:
            self.texts.labels(text.lang).inc()
            self.tokens.inc(len(text.tokens))
            self.cut.inc(text.cut)


@dataclass
class _Portion:
    """Texts of one request, at most a batch."""

    texts: list[TaggedText]
    align: bool
    prompt_name: str | None
    vectors: Future[NDArray[np.float32]] = field(default_factory=Future)

    @property
    def options(self) -> tuple[bool, str]:
        return self.align, self.prompt_name or ""


class Batcher:
    """Encoder of many requests together, in a thread of its own.

    A batch has all that waited while the one before was encoded, up to ``batch_size`` texts.
    """

    def __init__(self, encoder: ModularEncoder, batch_size: int) -> None:
        self._encoder, self._batch_size = encoder, batch_size
        self.metrics = Metrics()
        self._queue: SimpleQueue[_Portion | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="modenc-encoder", daemon=True)

    def start(self) -> None:
        """Start to encode."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after all that waits is encoded."""
        self._queue.put(None)
        self._thread.join()

    def encode(
        self, texts: list[TaggedText], *, align: bool, prompt_name: str | None = None
    ) -> NDArray[np.float32]:
        """Encode the texts of a request, as ``ModularEncoder.encode`` does.

        A batch's worth of them waits at a time, so that a large request does not hold up small ones.
        """
        vectors = []
        for start in range(0, len(texts), self._batch_size):
            portion = _Portion(texts[start : start + self._batch_size], align, prompt_name)
            self._queue.put(portion)
            vectors.append(portion.vectors.result())
        return np.concatenate(vectors)

    def _work(self) -> None:
        while (portion := self._queue.get()) is not None:
            batch, count = [portion], len(portion.texts)
            while count < self._batch_size and not self._queue.empty():
                portion = self._queue.get()
                if portion is None:
                    self._queue.put(None)
                    break
                batch.append(portion)
                count += len(portion.texts)
            self.metrics.batches.observe(count)
            batch.sort(key=lambda one: one.options)
            for _, alike in groupby(batch, lambda one: one.options):
                self._encode(list(alike))

    def _encode(self, portions: list[_Portion]) -> None:
        """Encode portions with the same options."""
        texts = [text for portion in portions for text in portion.texts]
        first = portions[0]
        try:
            vectors = self._encoder.encode(
                texts,
                first.prompt_name,
                batch_size=self._batch_size,
                show_progress_bar=False,
                align=first.align,
            )
        except Exception as error:  # is the request's that caused it
            if len(portions) == 1:
                first.vectors.set_exception(error)
                return
            for portion in portions:
                self._encode([portion])
            return
        self.metrics.count(texts)
        start = 0
        for portion in portions:
            portion.vectors.set_result(vectors[start : start + len(portion.texts)])
            start += len(portion.texts)
