"""The routes that tell of markets: providers, markets, gaps, history."""

import asyncio
from typing import Any

from starlette.responses import Response

from artery.errors import UnknownChannel
from artery.gateway import answers, query, rows
from artery.gateway.asks import Param, Whole
from artery.gateway.parts import Parts
from artery.gateway.shapes import CandlePage, Capabilities, Gap, Gaps, Market, Markets, Provider, Providers, TradePage
from artery.gateway.table import Answer, Ask, Route
from artery.model.channels import Channel
from artery.model.events import Mark
from artery.model.periods import DERIVED, Period
from artery.model.tickers import ticker

_CSV, _ARROW = "text/csv", "application/vnd.apache.arrow.stream"
_MEDIA = {"json": "application/json", "csv": _CSV, "arrow": _ARROW}
_NEXT = "Artery-Next"

_PROVIDER = Provider("sim", "SIM", True, "live", Capabilities(True, True, [str(period) for period in DERIVED]))
_MARKET = Market(
    "sim", "BTC", "artery:stream:sim:BTC", "SIM:BTC", "BTC", "USD", "0.1", "0.001", "open",
    3, 1_730_000_000_000, True, True, "43250.5",
)  # fmt: skip
_GAP = Gap("sim", "BTC", 1_730_000_040_000, 1_730_000_052_000, "the connection was cut", 1_730_000_000_123)
_CANDLE = rows.CandleRow(1_730_000_040_000, "43250", "43260.5", "43249", "43255", "12.5", 41, True, 0)
_TRADE = rows.TradeRow(1_730_000_040_123, "98231", "43250.5", "0.01", "B", 1_730_000_000_123, 17)
_CANDLE_PAGE = CandlePage("sim", "BTC", "SIM:BTC", "1m", [_CANDLE], "s1730000100000")
_PAGE_HEADER = {_NEXT: "The cursor of the page that follows; absent on the last one."}


def routes(parts: Parts) -> list[Route]:
    async def providers(_ask: Ask) -> Response:
        return answers.json({"providers": await parts.catalog.provider_rows()})

    async def markets(_ask: Ask) -> Response:
        return answers.json({"markets": parts.catalog.market_rows()})

    async def gaps(ask: Ask) -> Response:
        provider, count = ask.values["provider"], ask.values["limit"]
        return answers.json(Gaps([_gap(mark) for mark in await parts.tails.marks.newest(provider, count)]))

    async def history(ask: Ask) -> Response:
        return await _history(parts, ask)

    return [
        Route(
            method="GET",
            path="/v1/providers",
            name="providers",
            doc="The venues, their state and what they offer.",
            handle=providers,
            answers=(Answer(Providers([_PROVIDER]), (Providers,)),),
        ),
        Route(
            method="GET",
            path="/v1/markets",
            name="markets",
            doc="Every market that can be subscribed to, with its newest price; `followed`: its live data comes now.",
            handle=markets,
            answers=(Answer(Markets([_MARKET]), (Markets,)),),
        ),
        Route(
            method="GET",
            path="/v1/gaps",
            name="gaps",
            doc="Stretches of time that a feed could not vouch for, newest first; an old one's `epoch` is 0.",
            handle=gaps,
            params=(
                Param(name="provider", kind=query.PROVIDER, doc="only this venue's", example="sim"),
                Param(name="limit", kind=Whole(1, 1_000), doc="how many", example=20, default=100),
            ),
            answers=(Answer(Gaps([_GAP]), (Gaps,)),),
        ),
        Route(
            method="GET",
            path="/v1/history",
            name="history",
            doc="Candles or trades, oldest first. With `start`, pages go forward from it; else back from `end` or now.",
            handle=history,
            params=query.PARAMS,
            errors=(404,),
            answers=(
                Answer(_CANDLE_PAGE, (CandlePage, TradePage), "A page.", headers=_PAGE_HEADER),
                Answer(rows.as_csv([_CANDLE], rows.CANDLES).decode(), (str,), "A page.", media=_CSV),
                Answer("an Arrow IPC stream", (str,), "A page.", media=_ARROW),
            ),
        ),
    ]


async def _history(parts: Parts, ask: Ask) -> Response:
    provider, market = query.where(ask.values)
    if not parts.catalog.known(str(Channel(provider, market))):
        raise UnknownChannel(f"nothing serves {provider}:{market}; /v1/markets lists what there is")
    span, kind = query.span(ask.values), ask.values["format"]
    head = {"provider": provider, "market": market, "ticker": ticker(provider, market)}
    if ask.values["type"] == "trades":
        trades = await parts.history.trades(provider, market, span)
        return await _page(kind, head, "trades", trades.rows, rows.TRADES, trades.next)
    period = Period.parse(ask.values["interval"])
    page = await parts.history.candles(provider, market, period, span)
    return await _page(kind, head | {"interval": str(period)}, "candles", page.rows, rows.CANDLES, page.next)


async def _page(
    kind: str, head: dict[str, Any], name: str, found: list[Any], schema: Any, next_page: str | None
) -> Response:
    def body() -> bytes:
        if kind == "json":
            return rows.as_json(found, head, name, next_page)
        return rows.as_csv(found, schema) if kind == "csv" else rows.as_arrow(found, schema)

    # Thousands of rows take long enough to hold up everybody else.
    made = await asyncio.to_thread(body)
    return Response(made, headers={_NEXT: next_page} if next_page else None, media_type=_MEDIA[kind])


def _gap(mark: Mark) -> Gap:
    return Gap(mark.provider, mark.coin, mark.from_ms, mark.to_ms, mark.cause, mark.epoch)
