"""Replicas of a server on a cluster, each with what it has loaded: requests are handled in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ray.exceptions import RayActorError

from modenc.errors import ClusterError, MissingExtraError

try:
    from ray import serve
except ImportError as error:
    # Not in the extra ray: it brings HAProxy, which is under GPL-2.0.
    raise MissingExtraError(
        f'Ray Serve cannot be imported ({error}); run: pip install "ray[serve]"'
    ) from error

Handler = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers a batch of requests, one answer each."""


# Requests that a replica has at once; Ray's own 5 would be its largest batch.
_MOST_ONGOING = 256
_SECONDS_TO_NOTICE = 1.0


@serve.deployment(max_ongoing_requests=_MOST_ONGOING)
class BatchedDeployment:
    """Collects requests that come at about the same time, and gives them to a handler together.

    A deployment of Ray Serve: ``BatchedDeployment.options(num_replicas=4).bind(make_handler)``. Requests and
    answers are whatever can be pickled. An exception of the handler is raised for each request of the batch.

    Args:
        make_handler: called once in each replica; can be pickled, and gives a :data:`Handler`.
        max_batch_size: most requests that the handler is given at once; no more than 256, or than the
            deployment's ``max_ongoing_requests`` where its options say another.
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


async def answer(handle: Any, request: Any, tries: int = 5) -> Any:
    """The answer of a deployment, from another replica where one was lost with the request.

    Args:
        handle: what ``ray.serve.run`` gives.
        request: handled once more where the loss came after the handling.
        tries: how many replicas may be asked.

    Raises:
        ClusterError: all of them were lost.
    """
    for _ in range(tries):
        try:
            return await handle.remote(request)
        except RayActorError:
            await asyncio.sleep(_SECONDS_TO_NOTICE)
    raise ClusterError(f"expected a replica that answers, {tries} were lost with the request; try again")
