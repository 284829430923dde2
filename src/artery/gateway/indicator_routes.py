"""`/v1/indicators`: the newest values of a series, or those of a stretch of its past."""

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from artery.errors import UnknownChannel
from artery.gateway import answers, indicators, query
from artery.gateway.asks import Param, Whole
from artery.gateway.limits import HTTP
from artery.gateway.parts import Parts
from artery.gateway.shapes import Shape
from artery.gateway.span import Span
from artery.gateway.table import Answer, Ask, Route
from artery.indicators.standard import NAMES, VWAP
from artery.model.channels import Channel
from artery.model.periods import Period
from artery.model.tickers import ticker

_STRETCH = ("start", "end", "limit", "cursor")
_ROWS_USUAL = 1_000
_Number = float | None

IndicatorValues: Any = msgspec.defstruct(
    "IndicatorValues", [("startTs", int), ("rev", int), *[(name, _Number) for name in (*NAMES, VWAP)]]
)
IndicatorRow: Any = msgspec.defstruct(
    "IndicatorRow", [("startTs", int), ("rev", int), ("closed", bool), *[(name, _Number) for name in NAMES]]
)


class Indicators(Shape, frozen=True, rename={"first": "from"}):
    """The values of the newest closed and of the open candle; `from` is the candle that they begin with."""

    provider: str
    market: str
    ticker: str
    interval: str
    closed: IndicatorValues | None
    open: IndicatorValues | None
    first: int
    position: str
    warm: bool


class IndicatorPage(Shape, frozen=True, rename={"first": "from"}):
    """Values of each candle, oldest first; `next` is the cursor of the page that follows."""

    provider: str
    market: str
    ticker: str
    interval: str
    rows: list[IndicatorRow]
    first: int
    next: str | None


_HEAD = {"provider": "sim", "market": "BTC", "ticker": "SIM:BTC", "interval": "1m"}
_EXAMPLE = {
    **_HEAD,
    "closed": indicators.values_example(),
    "open": None,
    "from": 1_729_880_040_000,
    "position": "1284",
    "warm": True,
}

_KNOWN = {param.name: param for param in query.PARAMS}
PARAMS = (
    *[_KNOWN[name] for name in ("provider", "market", "interval", "start", "end", "cursor")],
    Param(name="limit", kind=Whole(1, HTTP.rows), doc="rows of a page", example=500),
)


def routes(parts: Parts) -> list[Route]:
    async def values(ask: Ask) -> Response:
        return await _values(parts, ask)

    return [
        Route(
            method="GET",
            path="/v1/indicators/{provider}/{market}/{interval}",
            name="indicators",
            doc="The newest values; with `start`, `end`, `limit` or `cursor` those of each candle of the past.",
            handle=values,
            params=PARAMS,
            errors=(404,),
            cost=2.0,
            answers=(Answer(_EXAMPLE, (Indicators, IndicatorPage)),),
        )
    ]


async def _values(parts: Parts, ask: Ask) -> Response:
    provider, market, period = ask.values["provider"], ask.values["market"], Period.parse(ask.values["interval"])
    if not parts.catalog.known(str(Channel(provider, market))):
        raise UnknownChannel(f"nothing serves {provider}:{market}; /v1/markets lists what there is")
    head = {"provider": provider, "market": market, "ticker": ticker(provider, market), "interval": str(period)}
    record = await indicators.now(parts.store, provider, market, period)
    if all(ask.values[name] is None for name in _STRETCH):
        return answers.json(head | msgspec.to_builtins(record))
    begin = record.first if record.warm else 0  # one that is not warm may not have its past yet
    found = await indicators.over(parts.history, provider, market, period, _span(ask), begin)
    page = head | {"rows": found.rows, "from": found.first, "next": found.next}
    return await asyncio.to_thread(answers.json, page)


def _span(ask: Ask) -> Span:
    limit = _ROWS_USUAL if ask.values["limit"] is None else ask.values["limit"]
    return query.span({**ask.values, "limit": limit})
