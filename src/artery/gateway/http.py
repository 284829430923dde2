"""The HTTP side as one application: it finds the route, reads what is asked, asks who asks, and answers."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from artery.errors import ArteryError, BadInput, TooMuch
from artery.gateway import answers, asks, routes
from artery.gateway.access import need
from artery.gateway.door import Door
from artery.gateway.grants import Grant
from artery.gateway.guard import Guard
from artery.gateway.limits import HTTP, HttpLimits
from artery.gateway.pages import Pages
from artery.gateway.parts import Parts
from artery.gateway.table import Ask, Route, Table, address

_PAGE_COST = 0.1


def make_app(parts: Parts, door: Door, static: Path | None, limits: HttpLimits = HTTP) -> ASGIApp:
    """The application, guarded."""
    return Guard(App(parts, routes.make_table(parts), Pages(static)), door, limits)


class App:
    """Routes first, then the page's files; every error has one form."""

    def __init__(
        self, parts: Parts, table: Table, pages: Pages, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._parts = parts
        self._table = table
        self._pages = pages
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        request_id = request.state.request_id
        methods, path = self._table.find(request.scope["path"])
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        udf = route is not None and route.udf
        try:
            if route is None:
                if methods:
                    return answers.problem(405, request_id, headers={"Allow": ", ".join(sorted(methods))})
                return await self._page(request)
            request.scope["route"] = route
            return await self._answer(route, request, path)
        except ArteryError as error:
            return answers.problem_of(error, request_id, udf=udf)
        except HTTPException as error:
            return answers.problem(error.status_code, request_id, headers=error.headers, udf=udf)
        except ClientDisconnect:
            return answers.problem(408, request_id, udf=udf)

    async def _answer(self, route: Route, request: Request, path: dict[str, str]) -> Response:
        grant = await self._admitted(route, request)
        values = asks.read(route.params, request.scope["query_string"], path, strict=route.strict)
        body = _decoded(await request.body(), route.body.type) if route.body is not None else None
        return await route.handle(Ask(request, values, body, grant))

    async def _admitted(self, route: Route, request: Request) -> Grant | None:
        """Who asks, if they may and have not asked too often."""
        if route.open:
            self._parts.access.admit(address(request), route.cost)
            return None
        grant = await self._parts.grant(request, address(request))
        wait_s = self._parts.per_key.take(grant.source, self._now_s(), route.cost)
        if wait_s:
            raise TooMuch("this key asks too often; wait a moment, or ask for more at once", wait_s)
        return grant if route.scope is None else need(grant, route.scope)

    async def _page(self, request: Request) -> Response:
        self._parts.access.admit(address(request), _PAGE_COST)
        if request.method not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        return await self._pages.get_response(self._pages.get_path(request.scope), request.scope)


def _decoded(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        words = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
        fields = ", ".join(kind.__struct_fields__)
        raise BadInput(f"the body must be a JSON object of {fields}: {words:.120}") from None
