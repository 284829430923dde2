"""The HTTP side as one application: routes, the page, and errors of one form."""

from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

import artery
from artery.errors import ArteryError
from artery.gateway import answers, routes
from artery.gateway.door import Door
from artery.gateway.guard import Guard
from artery.gateway.limits import HTTP, HttpLimits
from artery.gateway.pages import Pages
from artery.gateway.routes import Parts


def make_app(parts: Parts, door: Door, static: Path | None, limits: HttpLimits = HTTP) -> ASGIApp:
    """The application, guarded."""
    app = FastAPI(
        title="Artery",
        version=getattr(artery, "__version__", "0"),
        description="Market data: providers, markets, history. Live data is on the WebSocket `/v1/stream`.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.include_router(routes.router(parts))
    app.mount("/", Pages(static), name="page")
    app.add_exception_handler(ArteryError, _of_ours)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _unforeseen)
    return Guard(app, door, limits)


async def _of_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, ArteryError)
    return answers.problem_of(error, request.state.request_id)


async def _not_valid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return answers.problem(400, request.state.request_id, message=f"{where}: {first['msg']}"[:300])


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answers.problem(error.status_code, request.state.request_id, headers=error.headers)


async def _unforeseen(request: Request, _error: Exception) -> Response:
    """The guard writes it to the log; the caller learns only that it was not its fault."""
    return answers.problem(500, request.state.request_id)
