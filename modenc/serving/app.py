"""Routes of the server: OpenAI's embeddings API, a page to try it, health, readiness and metrics."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp

import modenc
from modenc.composition.routing import Routing
from modenc.errors import LanguageError
from modenc.evaluation.retrieval import unit
from modenc.langid import UNDETERMINED
from modenc.languages import BASE, language_name
from modenc.serving.batcher import Batcher, Encoded
from modenc.serving.errors import ApiError, answer, http_error, invalid_request, unexpected
from modenc.serving.gate import Gate
from modenc.serving.metrics import Metrics
from modenc.serving.requests import EmbeddingRequest, SimilarityRequest, TextsRequest, check_texts, codes_of
from modenc.serving.settings import MAX_COMPARED, ServeSettings

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder

# Between two checks for a disconnected client.
_SECONDS = 1.0


def make_app(
    batcher: Batcher,
    settings: ServeSettings,
    metrics: Metrics,
    metrics_page: Callable[[], Awaitable[bytes]] | None = None,
) -> ASGIApp:
    """Make the application; it starts and stops ``batcher``.

    ``metrics_page`` makes what ``/metrics`` shows, where that is not ``metrics`` alone.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await run_in_threadpool(batcher.stop)

    # FastAPI's documentation pages would load scripts from other servers.
    app = FastAPI(
        title="modenc", version=modenc.__version__, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    routes = _Routes(batcher, settings)
    app.add_api_route("/v1/embeddings", routes.embeddings, methods=["POST"])
    app.add_api_route("/api/similarities", routes.similarities, methods=["POST"])

    async def counters() -> Response:
        """Return the counters for Prometheus."""
        content = await metrics_page() if metrics_page else metrics.page()
        return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")

    handlers: dict[str, Callable[..., Awaitable[Response]]] = {
        "/v1/models": routes.models,
        "/v1/models/{model:path}": routes.model,
        "/": routes.page,
        "/health": routes.health,
        "/ready": routes.ready,
        "/metrics": counters,
    }
    for path, handler in handlers.items():
        app.add_api_route(path, handler, include_in_schema=path != "/")
        # uvicorn leaves out the body.
        app.add_api_route(path, handler, methods=["HEAD"], include_in_schema=False)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid_request)
    app.add_exception_handler(Exception, unexpected)
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    if not settings.cors_origins:
        return app
    # Around all else: browsers ask without a key first, and errors have to be readable, too.
    return CORSMiddleware(
        app,
        settings.cors_origins,
        allow_methods=("GET", "HEAD", "POST"),
        allow_headers=("*",),
        expose_headers=("Retry-After",),
    )


class _Routes:
    """Handlers of the routes."""

    def __init__(self, batcher: Batcher, settings: ServeSettings) -> None:
        self._batcher, self._settings = batcher, settings
        page = files("modenc.serving").joinpath("page.html").read_text(encoding="utf-8")
        self._page = page.replace("{{model}}", escape(settings.name)).replace("{{most}}", str(MAX_COMPARED))
        self._policy = _policy(self._page)

    async def embeddings(self, request: Request, body: EmbeddingRequest) -> Response:
        """Encode texts in any mixture of languages."""
        self._check_model(body.model)
        check_texts(body.input, "input", self._settings)
        encoded = await self._encoded(request, body.input, body)
        return await run_in_threadpool(_embeddings, encoded, body)

    async def similarities(self, request: Request, body: SimilarityRequest) -> Response:
        """Compute the cosines of all pairs of texts, and identify their languages."""
        check_texts(body.texts, "texts", self._settings, MAX_COMPARED)
        encoded = await self._encoded(request, body.texts, body)
        try:
            found = await run_in_threadpool(self._encoder().identify, body.texts)
        except LanguageError:  # no language of the hub can be identified; those given were used
            found = [Routing(UNDETERMINED, 0.0, modules, 0.0) for modules in encoded.languages]
        languages = [
            {"code": own.code, "name": _name(own.code), "confidence": round(own.confidence, 4)}
            | {"modules": modules, "modules_name": _name(modules)}
            for own, modules in zip(found, encoded.languages, strict=True)
        ]
        vectors = unit(encoded.vectors[:, : body.dimensions])
        return answer({"languages": languages, "similarities": (vectors @ vectors.T).round(4)})

    async def models(self) -> Response:
        """List the served hub, with its languages."""
        return answer({"object": "list", "data": [self._model()]})

    async def model(self, model: str) -> Response:
        """Describe the served hub, if ``model`` is its name."""
        self._check_model(model)
        return answer(self._model())

    async def page(self) -> Response:
        """Return the page on which sentences are compared."""
        return HTMLResponse(self._page, headers={"Content-Security-Policy": self._policy})

    async def health(self) -> Response:
        """Answer as soon as the process runs."""
        return answer({"status": "ok"})

    async def ready(self) -> Response:
        """Answer once requests are accepted; 503 before."""
        self._encoder()
        return answer({"status": "ready"})

    def _model(self) -> dict[str, Any]:
        hub = self._encoder().hub
        about = {"id": self._settings.name, "object": "model", "created": 0, "owned_by": "modenc"}
        return about | {"dimensions": hub.info.hidden_size, "languages": hub.languages()}

    def _check_model(self, model: str) -> None:
        if model != (name := self._settings.name):
            message = f"model: expected {name!r}, found {model!r:.200}"
            raise ApiError(404, message, param="model", code="model_not_found")

    def _encoder(self) -> ModularEncoder:
        encoder = self._batcher.encoder
        if encoder is None or not self._batcher.ready:
            raise ApiError(503, "the server is starting or stopping", headers={"Retry-After": "1"})
        return encoder

    async def _encoded(self, request: Request, texts: list[str], body: TextsRequest) -> Encoded:
        codes: Sequence[str | None] = codes_of(body.lang, len(texts))
        encoder = self._encoder()
        width = encoder.hub.info.hidden_size
        if body.dimensions is not None and body.dimensions > width:
            message = f"dimensions: expected 1 to {width}, found {body.dimensions}"
            raise ApiError(400, message, param="dimensions")
        try:
            texts, codes = await run_in_threadpool(_load, encoder, texts, codes)
        except LanguageError as error:
            raise ApiError(400, str(error), param="lang") from error
        submitted = self._batcher.submit(texts, codes, align=body.align, prompt_name=body.input_type)
        waiting = asyncio.wrap_future(submitted)
        try:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=_SECONDS)
                if not waiting.done() and await request.is_disconnected():
                    raise ApiError(499, "the client has left")
            return waiting.result()
        except LanguageError as error:
            raise ApiError(400, str(error), param="lang") from error
        finally:
            waiting.cancel()  # not encoded if the client has left; Ray Serve then cancels this very call


def _load(
    encoder: ModularEncoder, texts: list[str], codes: Sequence[str | None]
) -> tuple[list[str], Sequence[str | None]]:
    """Read the languages of texts before they share a batch with others; a download takes long.

    Returns the texts and their codes, which need not be identified again if they were for this.
    """
    loaded = {BASE, *encoder.loaded}
    if loaded.issuperset(encoder.languages):
        return texts, codes
    tagged = encoder.route(texts, codes)
    used = [text.lang for text in tagged]
    encoder.load(set(used) - loaded)
    return [*tagged], used


def _embeddings(encoded: Encoded, body: EmbeddingRequest) -> Response:
    vectors: NDArray[np.float32] = np.ascontiguousarray(encoded.vectors[:, : body.dimensions])
    if body.normalize:
        vectors = unit(vectors)

    def shown(vector: NDArray[np.float32]) -> Any:
        if body.encoding_format == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return vector

    rows = [
        {"object": "embedding", "index": index, "embedding": shown(vector), "language": code}
        for index, (vector, code) in enumerate(zip(vectors, encoded.languages, strict=True))
    ]
    usage = {"prompt_tokens": encoded.tokens, "total_tokens": encoded.tokens}
    return answer({"object": "list", "data": rows, "model": body.model, "usage": usage})


def _name(code: str) -> str:
    if code == BASE:
        return "the base"
    return "unknown" if code == UNDETERMINED else language_name(code)


def _policy(page: str) -> str:
    """Make a content security policy that allows the page's own script and style only."""
    hashes = {
        kind: base64.b64encode(sha256(found[1].encode()).digest()).decode()
        for kind in ("script", "style")
        if (found := re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL))
    }
    own = "; ".join(f"{kind}-src 'sha256-{digest}'" for kind, digest in hashes.items())
    return (
        f"default-src 'none'; connect-src 'self'; {own}; img-src data:; base-uri 'none'; form-action 'none'"
    )
