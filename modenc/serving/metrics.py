"""Metrics of a server, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector

from modenc.texts import TaggedText


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
            if text.tokens is not None:
                self.tokens.inc(len(text.tokens.ids))
                self.cut.inc(text.tokens.cut)
