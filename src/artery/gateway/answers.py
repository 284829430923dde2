"""How HTTP answers look: JSON, and errors of one form."""

import math
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from artery.errors import (
    ArteryError,
    BadInput,
    ForbiddenScope,
    NotAllowed,
    NotFound,
    TooMuch,
    Unavailable,
    UnknownChannel,
)

RETRIED = (429, 503)
_STATUS: tuple[tuple[type[ArteryError], int], ...] = (
    (UnknownChannel, 404),
    (NotFound, 404),
    (BadInput, 400),
    (ForbiddenScope, 403),
    (NotAllowed, 401),
    (TooMuch, 429),
    (Unavailable, 503),
)
_CODES = {
    400: ("bad_request", "the request cannot be understood"),
    401: ("unauthenticated", "a key is needed"),
    403: ("forbidden", "this is not allowed"),
    404: ("not_found", "there is nothing here"),
    405: ("method_not_allowed", "this address does not take that method"),
    408: ("timeout", "the request took too long"),
    413: ("too_large", "the request is too large"),
    429: ("rate_limited", "too many requests; try again in a moment"),
    503: ("unavailable", "a part is away for the moment; try again"),
}


def new_request_id() -> str:
    return secrets.token_hex(6)


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def problem(
    status: int,
    request_id: str,
    *,
    code: str = "",
    message: str = "",
    headers: Mapping[str, str] | None = None,
    udf: bool = False,
) -> Response:
    """An error of the contract's form; a chart gets its own form beside it."""
    usual_code, usual_message = _CODES.get(status, ("internal", "something went wrong here; the log says what"))
    said = {"code": code or usual_code, "message": message or usual_message, "requestId": request_id}
    return json(_form(said, udf), status, {**_extra(status), **(headers or {})})


def problem_of(error: ArteryError, request_id: str, *, udf: bool = False) -> Response:
    """An error of ours as an answer; what is not the caller's business is not told."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    if status == 500:
        return problem(500, request_id, udf=udf)
    headers = {"Retry-After": str(max(1, math.ceil(error.wait_s)))} if isinstance(error, TooMuch) else None
    return problem(status, request_id, code=error.code, message=str(error), headers=headers, udf=udf)


def example(status: int, *, udf: bool = False) -> dict[str, Any]:
    """An error as it looks."""
    code, message = _CODES[status]
    return _form({"code": code, "message": message, "requestId": "5f0c1d2e3a4b"}, udf)


def _form(said: dict[str, str], udf: bool) -> dict[str, Any]:
    return {"s": "error", "errmsg": said["message"], "error": said} if udf else {"error": said}


def _extra(status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": "1"} if status in RETRIED else {}
