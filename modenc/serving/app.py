"""The web application: OpenAI's embeddings API, a page to try it, health and metrics."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

import modenc
from modenc.errors import LanguageError
from modenc.evaluation.retrieval import unit
from modenc.langid import UNDETERMINED, Identification
from modenc.languages import BASE, language_name
from modenc.serving.batcher import Batcher
from modenc.texts import TaggedText

if TYPE_CHECKING:
    from modenc.encoder import ModularEncoder

MAX_TEXTS = 2048
"""Most texts of a request, as in OpenAI's API."""
MAX_COMPARED = 100
"""Most texts of a comparison, since its response grows with their square."""
_GUARDED = ("/v1/", "/api/")

_routes = APIRouter()


def _texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            "expected a text or a list of texts, found something else; token numbers cannot be read, since "
            "languages have tokenizers of their own (LangChain: check_embedding_ctx_length=False)"
        )
    return texts


Texts = Annotated[list[str], BeforeValidator(_texts, json_schema_input_type=str | list[str])]


class TextsRequest(BaseModel):
    """The fields that all requests with texts have; ``lang``, ``align`` and ``normalize`` are modenc's own.

    Other fields are refused: ignored, a misspelled one would give other vectors than asked for.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    dimensions: int | None = Field(None, ge=1, description="keep the first so many numbers of each vector")
    encoding_format: Literal["float", "base64"] = "float"
    input_type: Literal["query", "document"] | None = Field(None, description="prompt before each text")
    normalize: bool = Field(True, description="scale vectors to length 1, as OpenAI's are")
    lang: str | list[str | None] | None = Field(
        None, description="language code of all texts, or of each; null: identify it"
    )
    align: bool = Field(True, description="false: best within a language, not comparable across")
    user: str | None = Field(None, description="OpenAI's name for who asks; ignored")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, body: Any) -> Any:
        """Leave out fields that are null."""
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None}


class EmbeddingRequest(TextsRequest):
    """A request of OpenAI's embeddings API."""

    input: Texts = Field(min_length=1, max_length=MAX_TEXTS, description="a text, or a list of texts")
    model: str = Field(description="the name that /v1/models gives")


class SimilarityRequest(TextsRequest):
    """A request to compare texts with each other."""

    texts: Texts = Field(min_length=1, max_length=MAX_COMPARED)


def make_app(
    encoder: ModularEncoder, name: str, batch_size: int = 64, key_digests: Iterable[bytes] = ()
) -> FastAPI:
    """Make the application.

    Args:
        encoder: the encoder of the hub.
        name: name of the hub, for ``model`` in requests.
        batch_size: most texts in a forward pass; they may come from many requests and be in many languages.
        key_digests: :func:`digest` of each API key, of which requests need one; empty: none is needed.
    """
    batcher = Batcher(encoder, batch_size)
    keys = frozenset(key_digests)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await run_in_threadpool(batcher.stop)

    # FastAPI's documentation pages would load scripts from other servers.
    app = FastAPI(
        title="modenc", version=modenc.__version__, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.encoder, app.state.name, app.state.batcher = encoder, name, batcher
    page = files("modenc.serving").joinpath("page.html").read_text(encoding="utf-8")
    app.state.page = page.replace("{{model}}", escape(name)).replace("{{most}}", str(MAX_COMPARED))
    app.include_router(_routes)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid_request)
    app.add_exception_handler(Exception, unexpected)

    @app.middleware("http")
    async def checked_and_counted(
        request: Request, call: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        start, status = time.monotonic(), 500
        try:
            if keys and request.url.path.startswith(_GUARDED) and _digest_of(request) not in keys:
                message = "expected an API key of this server (header 'Authorization: Bearer KEY')"
                response = await http_error(request, ApiError(401, message, code="invalid_api_key"))
            else:
                response = await call(request)
            status = response.status_code
            return response
        finally:
            route = getattr(request.scope.get("route"), "path", "other")
            batcher.metrics.requests.labels(route, status).inc()
            batcher.metrics.seconds.labels(route).observe(time.monotonic() - start)

    return app


def digest(key: str) -> bytes:
    """Hash an API key; the time that a comparison of hashes takes says nothing about keys."""
    return sha256(key.encode()).digest()


def _digest_of(request: Request) -> bytes:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return digest(key.strip()) if scheme.lower() == "bearer" else b""


@_routes.post("/v1/embeddings")
def embeddings(request: Request, body: EmbeddingRequest) -> Response:
    """Encode texts in any mixture of languages."""
    _check_model(request, body.model)
    texts, vectors = _encode(request, body.input, body)
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
    tokens = sum(len(text.tokens) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return answer({"object": "list", "data": rows, "model": body.model, "usage": usage})


@_routes.post("/api/similarities")
def similarities(request: Request, body: SimilarityRequest) -> Response:
    """Compute the cosines of all pairs of texts, and identify their languages."""
    texts, vectors = _encode(request, body.texts, body)
    try:
        found = request.app.state.encoder.identify(body.texts)
    except LanguageError:  # no language of the hub can be identified; those given were used
        found = [Identification(UNDETERMINED, 0.0, text.lang) for text in texts]
    languages = [
        {"code": own.code, "name": _name(own.code), "confidence": round(own.confidence, 4)}
        | {"modules": text.lang, "modules_name": _name(text.lang)}
        for own, text in zip(found, texts, strict=True)
    ]
    vectors = unit(vectors)
    return answer({"languages": languages, "similarities": (vectors @ vectors.T).round(4)})


@_routes.get("/v1/models")
def models(request: Request) -> Response:
    """List the served hub, with its languages."""
    return answer({"object": "list", "data": [_model(request)]})


@_routes.get("/v1/models/{model:path}")
def model_of_name(request: Request, model: str) -> Response:
    """Describe the served hub, if ``model`` is its name."""
    _check_model(request, model)
    return answer(_model(request))


@_routes.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """Return the page on which sentences are compared."""
    return HTMLResponse(request.app.state.page)


@_routes.get("/health")
async def health() -> Response:
    """Say that requests are answered."""
    return answer({"status": "ok"})


@_routes.get("/metrics")
async def counters(request: Request) -> Response:
    """Return the counters for Prometheus."""
    registry = request.app.state.batcher.metrics.registry
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _model(request: Request) -> dict[str, Any]:
    hub = request.app.state.encoder.hub
    about = {"id": request.app.state.name, "object": "model", "created": 0, "owned_by": "modenc"}
    return about | {"dimensions": hub.info.hidden_size, "languages": hub.languages()}


def _check_model(request: Request, model: str) -> None:
    if model != (name := request.app.state.name):
        message = f"model: expected {name!r}, found {model!r:.200}"
        raise ApiError(404, message, param="model", code="model_not_found")


def _encode(
    request: Request, given: list[str], body: TextsRequest
) -> tuple[list[TaggedText], NDArray[np.float32]]:
    """Encode texts; returns them with their languages and tokens, and vectors of ``body.dimensions``."""
    encoder: ModularEncoder = request.app.state.encoder
    batcher: Batcher = request.app.state.batcher
    width = encoder.hub.info.hidden_size
    if body.dimensions is not None and body.dimensions > width:
        message = f"dimensions: expected 1 to {width}, found {body.dimensions}"
        raise ApiError(400, message, param="dimensions")
    try:
        texts = encoder.route(given, body.lang)
        vectors = batcher.encode(texts, align=body.align, prompt_name=body.input_type)
    except LanguageError as error:
        raise ApiError(400, f"lang: {error}", param="lang") from error
    return texts, np.ascontiguousarray(vectors[:, : body.dimensions])


def _name(code: str) -> str:
    if code == BASE:
        return "the base"
    return "unknown" if code == UNDETERMINED else language_name(code)


class ApiError(HTTPException):
    """A request that is refused; ``param`` is its wrong field, and ``code`` one of OpenAI's API."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(status, message)
        self.param, self.code = param, code


def answer(content: Any, status: int = 200) -> Response:
    """Make a JSON response; NumPy arrays become lists of numbers."""
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, media_type="application/json")


async def http_error(request: Request, error: Exception) -> Response:
    """Make the response to a refused request."""
    assert isinstance(error, HTTPException)
    message = error.detail
    if error.status_code == 404 and not isinstance(error, ApiError):
        message = f"no such path: {request.url.path!r:.200}; the base URL of OpenAI's clients ends in /v1"
    param = getattr(error, "param", None)
    kind = "server_error" if error.status_code >= 500 else "invalid_request_error"
    content = {
        "message": _text(message),
        "type": "authentication_error" if error.status_code == 401 else kind,
        "param": param and _text(param),
        "code": getattr(error, "code", None),
    }
    return answer({"error": content}, error.status_code)


def _text(text: str) -> str:
    """Escape lone surrogates, which JSON can have and UTF-8 cannot."""
    return text.encode("utf-8", "backslashreplace").decode()


async def invalid_request(request: Request, error: Exception) -> Response:
    """Make the response to a request with an invalid body; the message has all issues."""
    assert isinstance(error, RequestValidationError)
    found = [(".".join(map(str, issue["loc"][1:])) or "body", issue["msg"]) for issue in error.errors()]
    message = "; ".join(f"{place}: {text.removeprefix('Value error, ')}" for place, text in found)
    param = found[0][0].partition(".")[0]
    return await http_error(request, ApiError(400, f"{message}; /openapi.json has all fields", param=param))


async def unexpected(request: Request, _: Exception) -> Response:
    """Make the response to an internal error; Starlette logs it."""
    return await http_error(request, ApiError(500, "the server failed; its log says why"))
