"""Errors in the format of OpenAI's API."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response


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
