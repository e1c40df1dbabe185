"""Middleware for every request: keys, sizes, encodings, and metrics."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from modenc.serving.errors import ApiError, http_error
from modenc.serving.metrics import Metrics
from modenc.serving.settings import ServeSettings, digest

# First bytes of gzip, zstd and zlib; no JSON begins like these.
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_GUARDED = ("/v1/", "/api/")


class Gate:
    """Middleware that checks the key, refuses large bodies before they are read, and counts responses."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Clients put a slash at the end; a redirect would drop the key where a proxy changes the address.
        scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        start, status = time.monotonic(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, self._limited(receive), noted)
        except ApiError as refused:
            response = await http_error(Request(scope), refused)
            await response(scope, receive, noted)
        except asyncio.CancelledError:  # by Ray Serve, when the client has left
            status = 499
            raise
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.requests.labels(route, status).inc()
            self._metrics.seconds.labels(route).observe(time.monotonic() - start)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._settings.key_digests and scope["path"].startswith(_GUARDED):
            self._check_key(headers.get("authorization", ""))
        if scope["method"] == "POST":
            _check_encoding(headers)
        # A body without this header is measured while it is read.
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._settings.max_body:
            raise self._too_large()

    def _check_key(self, header: str) -> None:
        scheme, _, key = header.partition(" ")
        given = digest(key.strip())
        # Compares with all keys, so that timing leaks nothing.
        same = [hmac.compare_digest(given, known) for known in self._settings.key_digests]
        if scheme.lower() != "bearer" or not any(same):
            raise ApiError(
                401,
                "expected an API key of this server (header 'Authorization: Bearer KEY'), found "
                f"{'another' if key else 'none'}",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _limited(self, receive: Receive) -> Callable[[], Awaitable[Message]]:
        size = 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            body = message.get("body", b"")
            if not size and body.startswith(_COMPRESSED):
                found = f"compressed bytes ({body[:2].hex(' ')} ...)"
                raise ApiError(415, f"body: expected JSON, found {found}; send it uncompressed")
            size += len(body)
            if size > self._settings.max_body:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> ApiError:
        most = self._settings.max_body
        # The connection is closed, since the rest of the body is not read.
        return ApiError(
            413,
            f"expected at most {most} bytes in a request, found more; send fewer texts at a time",
            headers={"Connection": "close"},
        )


def _check_encoding(headers: Headers) -> None:
    given = ", ".join(headers.getlist("content-encoding"))
    if any(coding.strip().lower() not in ("", "identity") for coding in given.split(",")):
        raise ApiError(
            415,
            f"Content-Encoding: expected none or identity, found {given!r:.100}; send the body uncompressed",
            param="Content-Encoding",
            headers={"Accept-Encoding": "identity"},
        )
