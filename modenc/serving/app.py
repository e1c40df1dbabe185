"""The web application: OpenAI's embeddings API, a page to try it, health, readiness and metrics."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import modenc
from modenc.composition.routing import Routing
from modenc.errors import LanguageError
from modenc.evaluation.retrieval import unit
from modenc.langid import UNDETERMINED
from modenc.languages import BASE, language_name
from modenc.serving.batcher import Batcher
from modenc.serving.errors import ApiError, answer, http_error, invalid_request, unexpected
from modenc.serving.metrics import Metrics
from modenc.serving.requests import EmbeddingRequest, SimilarityRequest, TextsRequest, check_texts, codes_of
from modenc.serving.settings import MAX_COMPARED, ServeSettings, digest
from modenc.texts import TaggedText

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder

# Between two checks for a disconnected client.
_SECONDS = 1.0
_GUARDED = ("/v1/", "/api/")

_routes = APIRouter()


def make_app(batcher: Batcher, settings: ServeSettings, metrics: Metrics) -> ASGIApp:
    """Make the application; it starts and stops ``batcher``."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await run_in_threadpool(batcher.stop)

    # FastAPI's documentation pages would load scripts from other servers.
    app = FastAPI(
        title="modenc", version=modenc.__version__, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.batcher, app.state.settings, app.state.metrics = batcher, settings, metrics
    page = files("modenc.serving").joinpath("page.html").read_text(encoding="utf-8")
    app.state.page = page.replace("{{model}}", escape(settings.name)).replace("{{most}}", str(MAX_COMPARED))
    app.include_router(_routes)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid_request)
    app.add_exception_handler(Exception, unexpected)
    app.add_middleware(_Gate, settings=settings, metrics=metrics)
    return app


@_routes.post("/v1/embeddings")
async def embeddings(request: Request, body: EmbeddingRequest) -> Response:
    """Encode texts in any mixture of languages."""
    _check_model(request, body.model)
    texts, vectors = await _encode(request, body.input, "input", body)
    return await run_in_threadpool(_embeddings, texts, vectors, body)


@_routes.post("/api/similarities")
async def similarities(request: Request, body: SimilarityRequest) -> Response:
    """Compute the cosines of all pairs of texts, and identify their languages."""
    texts, vectors = await _encode(request, body.texts, "texts", body, MAX_COMPARED)
    try:
        found = await run_in_threadpool(_encoder(request).identify, body.texts)
    except LanguageError:  # no language of the hub can be identified; those given were used
        found = [Routing(UNDETERMINED, 0.0, text.lang, 0.0) for text in texts]
    languages = [
        {"code": own.code, "name": _name(own.code), "confidence": round(own.confidence, 4)}
        | {"modules": text.lang, "modules_name": _name(text.lang)}
        for own, text in zip(found, texts, strict=True)
    ]
    vectors = unit(vectors[:, : body.dimensions])
    return answer({"languages": languages, "similarities": (vectors @ vectors.T).round(4)})


@_routes.get("/v1/models")
async def models(request: Request) -> Response:
    """List the served hub, with its languages."""
    return answer({"object": "list", "data": [_model(request)]})


@_routes.get("/v1/models/{model:path}")
async def model_of_name(request: Request, model: str) -> Response:
    """Describe the served hub, if ``model`` is its name."""
    _check_model(request, model)
    return answer(_model(request))


@_routes.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """Return the page on which sentences are compared."""
    return HTMLResponse(request.app.state.page)


@_routes.get("/health")
async def health() -> Response:
    """Answer as soon as the process runs."""
    return answer({"status": "ok"})


@_routes.get("/ready")
async def ready(request: Request) -> Response:
    """Answer once requests are accepted; 503 before."""
    _encoder(request)
    return answer({"status": "ready"})


@_routes.get("/metrics")
async def counters(request: Request) -> Response:
    """Return the counters for Prometheus."""
    return Response(request.app.state.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _model(request: Request) -> dict[str, Any]:
    hub = _encoder(request).hub
    about = {"id": request.app.state.settings.name, "object": "model", "created": 0, "owned_by": "modenc"}
    return about | {"dimensions": hub.info.hidden_size, "languages": hub.languages()}


def _check_model(request: Request, model: str) -> None:
    if model != (name := request.app.state.settings.name):
        message = f"model: expected {name!r}, found {model!r:.200}"
        raise ApiError(404, message, param="model", code="model_not_found")


def _encoder(request: Request) -> ModularEncoder:
    batcher: Batcher = request.app.state.batcher
    if not batcher.ready:
        raise ApiError(503, "the server is starting or stopping", headers={"Retry-After": "1"})
    return batcher.opened.result()


async def _encode(
    request: Request, given: list[str], param: str, body: TextsRequest, most: int | None = None
) -> tuple[list[TaggedText], NDArray[np.float32]]:
    """Encode the texts in the field ``param``; returns them with their languages and tokens, and vectors."""
    check_texts(given, param, request.app.state.settings, most)
    codes, encoder = codes_of(body.lang, len(given)), _encoder(request)
    width = encoder.hub.info.hidden_size
    if body.dimensions is not None and body.dimensions > width:
        message = f"dimensions: expected 1 to {width}, found {body.dimensions}"
        raise ApiError(400, message, param="dimensions")
    waiting: asyncio.Future[NDArray[np.float32]] | None = None
    try:
        texts = await run_in_threadpool(_load, encoder, given, codes)
        submitted = request.app.state.batcher.submit(texts, align=body.align, prompt_name=body.input_type)
        waiting = asyncio.wrap_future(submitted)
        while not waiting.done():
            await asyncio.wait({waiting}, timeout=_SECONDS)
            if not waiting.done() and await request.is_disconnected():
                raise ApiError(499, "the client has left")
        return texts, waiting.result()
    except LanguageError as error:
        raise ApiError(400, str(error), param="lang") from error
    finally:
        if waiting is not None:
            waiting.cancel()  # not encoded if the client has left; Ray Serve then cancels this very call


def _load(encoder: ModularEncoder, texts: list[str], codes: list[str | None]) -> list[TaggedText]:
    """Identify and read the languages of texts before they share a batch: a download takes long."""
    tagged = encoder.route(texts, codes)
    encoder.load({text.lang for text in tagged} - {BASE, *encoder.loaded})
    return tagged


def _embeddings(texts: list[TaggedText], vectors: NDArray[np.float32], body: EmbeddingRequest) -> Response:
    vectors = np.ascontiguousarray(vectors[:, : body.dimensions])
    if body.normalize:
        vectors = unit(vectors)

    def shown(vector: NDArray[np.float32]) -> Any:
        if body.encoding_format == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return vector

    rows = [
        {"object": "embedding", "index": index, "embedding": shown(vector), "language": text.lang}
        for index, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]
    # A text whose language was removed from the hub meanwhile has no tokens.
    tokens = sum(len(text.tokens.ids) for text in texts if text.tokens is not None)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return answer({"object": "list", "data": rows, "model": body.model, "usage": usage})


def _name(code: str) -> str:
    if code == BASE:
        return "the base"
    return "unknown" if code == UNDETERMINED else language_name(code)


class _Gate:
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
        if scope["method"] == "HEAD":  # the HTTP server leaves out the body
            scope["method"] = "GET"
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
        # A body without this header is measured while it is read.
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._settings.max_body:
            raise self._too_large()

    def _check_key(self, header: str) -> None:
        scheme, _, key = header.partition(" ")
        # The time that a comparison of digests takes says nothing about keys.
        if scheme.lower() != "bearer" or digest(key.strip()) not in self._settings.key_digests:
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
            size += len(message.get("body", b""))
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
