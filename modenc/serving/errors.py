"""Errors in the format of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
# Type of pydantic's error → what was expected.
_ISSUES = {
    "model_attributes_type": "expected a JSON object, found something else; is the header 'Content-Type: "
    "application/json' there?",
    "missing": "expected a value, found null or none",
    "extra_forbidden": "unknown field; /openapi.json lists all; leave it out",
}
_MOST_ISSUES = 10


class ApiError(HTTPException):
    """A request that is refused; ``param`` is its wrong field, and ``code`` one of OpenAI's API."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.param, self.code = param, code


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a JSON response; NumPy arrays become lists of numbers."""
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, headers, media_type="application/json")


async def http_error(request: Request, error: Exception) -> Response:
    """Make the response to a refused request."""
    assert isinstance(error, HTTPException)
    kind = _TYPES.get(error.status_code) or (
        "server_error" if error.status_code >= 500 else "invalid_request_error"
    )
    param, code = getattr(error, "param", None), getattr(error, "code", None)
    message = _message(request, error)
    content = {"message": _text(message), "type": kind, "param": param and _text(param), "code": code}
    return answer({"error": content}, error.status_code, error.headers)


def _message(request: Request, error: HTTPException) -> str:
    """Return the message of an error; those that Starlette and FastAPI raise get one that helps."""
    if not isinstance(error, ApiError) and error.status_code == 404:
        return (
            "path: expected /v1/embeddings, /v1/models, /api/similarities, /health, /ready, /metrics, "
            f"/openapi.json or /, found {request.url.path!r:.200}; the base URL of OpenAI's clients ends in "
            "/v1"
        )
    if not isinstance(error, ApiError) and error.status_code == 400:
        return "body: expected JSON in UTF-8, found another encoding, other data, or too deep nesting"
    if not isinstance(error, ApiError) and error.status_code == 405:
        return f"method: expected {(error.headers or {}).get('Allow')}, found {request.method:.50}"
    return str(error.detail)


def _text(text: str) -> str:
    """Escape lone surrogates, which JSON can have and UTF-8 cannot."""
    return text.encode("utf-8", "backslashreplace").decode()


async def invalid_request(request: Request, error: Exception) -> Response:
    """Make the response to a request with an invalid body; the message has all issues."""
    assert isinstance(error, RequestValidationError)
    issues = []
    for issue in error.errors()[:_MOST_ISSUES]:
        place = ".".join(map(str, issue["loc"][1:]))
        message = _ISSUES.get(issue["type"], issue["msg"])
        if issue["type"] == "json_invalid":
            message, place = f"expected JSON, found at character {place}: {issue['ctx']['error']}", ""
        issues.append((place, message))
    messages = [f"{place or 'body'}: {message}" for place, message in issues]
    param = next((place.partition(".")[0] for place, _ in issues if place), None)
    return await http_error(request, ApiError(400, "; ".join(messages), param=param))


async def unexpected(request: Request, _: Exception) -> Response:
    """Make the response to an internal error, and log the error."""
    return await http_error(request, ApiError(500, "the server failed; its log says why"))
