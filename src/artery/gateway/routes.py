"""The routes of `/v1` and of those who watch over the gateway."""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from artery.bus.base import Bus
from artery.errors import BadInput, NotAllowed, UnknownChannel
from artery.gateway import answers, keys, metrics, readiness, rows
from artery.gateway.access import SESSION_S, Access, need
from artery.gateway.catalog import Catalog
from artery.gateway.door import cookie_value, credential
from artery.gateway.grants import Grant, Scope
from artery.gateway.history import History
from artery.gateway.query import HistoryQuery, whole
from artery.gateway.tails import Tails
from artery.model.channels import Channel
from artery.model.events import Mark
from artery.model.periods import Period
from artery.model.tickers import ticker
from artery.store.base import Store

_MEDIA = {"json": "application/json", "csv": "text/csv", "arrow": "application/vnd.apache.arrow.stream"}
_NEXT = "Artery-Next"


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes need."""

    bus: Bus
    store: Store
    access: Access
    catalog: Catalog
    history: History
    tails: Tails
    provider: str
    workers: bool
    cookie_name: str

    async def grant(self, request: Request) -> Grant:
        """Who asks, or `NotAllowed`."""
        shown = credential(
            authorization=request.headers.get("authorization", ""),
            cookies=request.headers.get("cookie", ""),
            cookie_name=self.cookie_name,
        )
        try:
            return await self.access.verify(shown)
        except NotAllowed:
            metrics.AUTH_FAILURES.labels("http").inc()
            raise


class _Proof(msgspec.Struct):
    start: str = ""
    key: str = ""


def router(parts: Parts) -> APIRouter:
    """All routes; each part of them in a function of its own."""
    found = APIRouter()
    _market_routes(found, parts)
    _session_routes(found, parts)
    _watch_routes(found, parts)
    return found


def _reader(parts: Parts) -> Any:
    async def reader(request: Request) -> Grant:
        return need(await parts.grant(request), Scope.READ)

    return Depends(reader)


def _market_routes(found: APIRouter, parts: Parts) -> None:
    reader = _reader(parts)

    @found.get("/v1/providers", dependencies=[reader])
    async def providers() -> Response:
        """The venues, their state and what they offer."""
        return answers.json({"providers": await parts.catalog.provider_rows()})

    @found.get("/v1/markets", dependencies=[reader])
    async def markets() -> Response:
        """Every market that can be subscribed to, with its newest price."""
        return answers.json({"markets": parts.catalog.market_rows()})

    @found.get("/v1/gaps", dependencies=[reader])
    async def gaps(
        provider: Annotated[str, Query(description="only this venue's")] = "",
        limit: Annotated[str, Query(description="how many, newest first")] = "100",
    ) -> Response:
        """Stretches of time that a feed could not vouch for, newest first."""
        count = whole("limit", limit, 1, 1_000)
        marks = [mark for mark in reversed(parts.tails.marks) if provider in ("", mark.provider)]
        return answers.json({"gaps": [_gap_row(mark) for mark in marks if mark.to_ms > mark.from_ms][:count]})

    @found.get("/v1/history", dependencies=[reader])
    async def history(
        query: Annotated[HistoryQuery, Depends()],
    ) -> Response:
        """Candles or trades, oldest first. With `start`, pages go forward from it; else back from `end` or now."""
        provider, market = query.where()
        if not parts.catalog.known(str(Channel(provider, market))):
            raise UnknownChannel(f"nothing serves {provider}:{market}; /v1/markets lists what there is")
        if query.format not in _MEDIA:
            raise BadInput("format must be json, csv or arrow")
        span = query.span()
        head = {"provider": provider, "market": market, "ticker": ticker(provider, market)}
        if query.type == "trades":
            trades = await parts.history.trades(provider, market, span)
            return _answer(query.format, head, "trades", trades.rows, rows.TRADES, trades.next)
        if query.type != "candles":
            raise BadInput("type must be candles or trades")
        period = Period.parse(query.interval)
        page = await parts.history.candles(provider, market, period, span)
        return _answer(query.format, head | {"interval": str(period)}, "candles", page.rows, rows.CANDLES, page.next)


def _session_routes(found: APIRouter, parts: Parts) -> None:
    @found.post("/v1/session")
    async def open_session(request: Request) -> Response:
        """Trade a one-use start code or a key for the page's cookie."""
        try:
            proof = msgspec.json.decode(await request.body(), type=_Proof)
        except (msgspec.MsgspecError, RecursionError):
            raise BadInput('the body must be {"start":"…"} or {"key":"…"}') from None
        if bool(proof.start) == bool(proof.key):
            raise BadInput("give either start or key")
        try:
            value, grant = await parts.access.open_page(start=proof.start, key=proof.key)
        except NotAllowed:
            metrics.AUTH_FAILURES.labels("session").inc()
            raise
        response = answers.json({"user": grant.user, "scopes": sorted(grant.scopes)})
        secure = request.url.scheme == "https"
        response.set_cookie(
            parts.cookie_name, value, max_age=SESSION_S, path="/", secure=secure, httponly=True, samesite="strict"
        )
        return response

    @found.get("/v1/session")
    async def session(request: Request) -> Response:
        """Who the key or the cookie speaks for."""
        grant = await parts.grant(request)
        return answers.json({"user": grant.user, "scopes": sorted(grant.scopes)})

    @found.delete("/v1/session", status_code=204)
    async def close_session(request: Request) -> Response:
        """End the page's session."""
        value = cookie_value(request.headers.get("cookie", ""), parts.cookie_name)
        if value:
            await parts.access.close_page(value)
        response = Response(status_code=204)
        response.delete_cookie(parts.cookie_name, path="/", httponly=True, samesite="strict")
        return response


def _watch_routes(found: APIRouter, parts: Parts) -> None:
    reader = _reader(parts)

    @found.get("/healthz")
    async def healthz() -> Response:
        """This process is alive."""
        return answers.json({"alive": True})

    @found.get("/readyz")
    async def readyz(request: Request) -> Response:
        """Whether live data flows; with a key also how each part is, in words."""
        report = await readiness.report(
            parts.bus, parts.store, provider=parts.provider, workers=parts.workers, now_ms=keys.wall_ms()
        )
        status = 200 if report.ready else 503
        try:
            need(await parts.grant(request), Scope.READ)
        except NotAllowed:
            return answers.json({"ready": report.ready}, status)
        return answers.json(report, status)

    @found.get("/metrics", dependencies=[reader])
    async def numbers() -> Response:
        """Counters for Prometheus."""
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


def _answer(
    kind: str, head: dict[str, Any], name: str, found: list[Any], schema: Any, next_page: str | None
) -> Response:
    if kind == "json":
        body = rows.as_json(found, head, name, next_page)
    else:
        body = rows.as_csv(found, schema) if kind == "csv" else rows.as_arrow(found, schema)
    return Response(body, headers={_NEXT: next_page} if next_page else None, media_type=_MEDIA[kind])


def _gap_row(mark: Mark) -> dict[str, Any]:
    return {
        "provider": mark.provider,
        "market": mark.coin,
        "from_ms": mark.from_ms,
        "to_ms": mark.to_ms,
        "cause": mark.cause,
        "epoch": mark.epoch,
    }
