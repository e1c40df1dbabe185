"""Metrics of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from modenc.texts import TaggedText

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Metrics of one server; a process may have several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter("modenc_requests", "Requests answered.", ("route", "status"))
        text = "Seconds from a request to its answer."
        self.seconds = histogram("modenc_request_seconds", text, ("route",), buckets=_SECONDS)
        self.texts = counter("modenc_texts", "Texts encoded, by the modules used.", ("language",))
        self.tokens = counter("modenc_tokens", "Tokens encoded.")
        self.cut = counter("modenc_texts_cut", "Texts cut at the hub's limit of tokens.")
        self.batches = histogram("modenc_batch_texts", "Texts in a batch.", buckets=_TEXTS)
        self.waiting = Gauge("modenc_texts_waiting", "Texts in the queue.", registry=self.registry)

    def count(self, texts: Iterable[TaggedText]) -> None:
        """Count encoded texts and their tokens."""
        for text in texts:
            self.texts.labels(text.lang).inc()
            if text.tokens is not None:
                self.tokens.inc(len(text.tokens.ids))
                self.cut.inc(text.tokens.cut)

    def page(self) -> bytes:
        """Format all metrics in Prometheus's text format."""
        return generate_latest(self.registry)
