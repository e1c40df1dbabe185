"""Replicas of a server on a cluster, each with what it has loaded: requests are handled in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ray import serve

Handler = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers a batch of requests, one answer each."""


@serve.deployment
class BatchedDeployment:
    """Collects requests that come at about the same time, and gives them to a handler together.

    A deployment of Ray Serve: ``BatchedDeployment.options(num_replicas=4).bind(make_handler)``. Requests and
    answers are whatever can be pickled. An exception of the handler is raised for each request of the batch.

    Args:
        make_handler: called once in each replica; can be pickled, and gives a :data:`Handler`.
        max_batch_size: most requests that the handler is given at once.
        batch_wait_timeout_s: seconds that the first request of a batch waits for others.
    """

    def __init__(
        self,
        make_handler: Callable[[], Handler],
        max_batch_size: int = 32,
        batch_wait_timeout_s: float = 0.01,
    ) -> None:
        self._handler = make_handler()
        self._batch.set_max_batch_size(max_batch_size)
        self._batch.set_batch_wait_timeout_s(batch_wait_timeout_s)

    @serve.batch  # type: ignore[untyped-decorator]
    async def _batch(self, requests: list[Any]) -> list[Any]:
        # In a thread: health checks and new requests are answered while it computes.
        return list(await asyncio.to_thread(self._handler, requests))

    async def __call__(self, request: Any) -> Any:
        """The handler's answer to one request."""
        return await self._batch(request)
