"""TradingView's UDF: what its charting library asks of a datafeed, at `/udf/*`."""

import asyncio
from collections.abc import Iterable, Sequence
from decimal import Decimal

from starlette.responses import Response

from artery.errors import ArteryError, NotFound
from artery.gateway import answers, keys
from artery.gateway.asks import Choice, Param, Text, Whole
from artery.gateway.catalog import Market
from artery.gateway.limits import HTTP
from artery.gateway.parts import Parts
from artery.gateway.rows import CandleRow
from artery.gateway.shapes import UdfBars, UdfConfig, UdfExchange, UdfFound, UdfNoData, UdfSymbol, UdfType
from artery.gateway.span import Span
from artery.gateway.table import Answer, Ask, Route
from artery.model.codec import LATEST_MS
from artery.model.decimals import number
from artery.model.periods import DERIVED, Period
from artery.model.tickers import ticker

_TYPE = "crypto"
_LATEST_S = LATEST_MS // 1_000
_PLACES_USUAL = 2
_FOUND_MAX = 100
_DAY_S = 86_400


def resolution(period: Period) -> str:
    """A period as the chart names it: minutes without a unit, days with a D, seconds with an S."""
    if period.seconds % 60:
        return f"{period.seconds}S"
    return f"{period.seconds // _DAY_S}D" if period.seconds % _DAY_S == 0 else str(period.seconds // 60)


def named(periods: Iterable[Period]) -> dict[str, Period]:
    """The periods by the names that the chart may ask for: a day has two."""
    found = {resolution(period): period for period in periods}
    return {**found, "D": found["1D"]} if "1D" in found else found


def config(markets: Iterable[Market], periods: Iterable[Period] = DERIVED) -> UdfConfig:
    """What this datafeed can do."""
    names = dict.fromkeys(_exchange(market) for market in markets)
    exchanges = [UdfExchange("", "All exchanges", ""), *(UdfExchange(name, name, name) for name in names)]
    types = [UdfType("All types", ""), UdfType("Crypto", _TYPE)]
    return UdfConfig(True, False, False, False, True, [resolution(period) for period in periods], exchanges, types)


def symbol(market: Market, periods: Iterable[Period] = DERIVED) -> UdfSymbol:
    """A market as the chart wants to know it; it is open at all hours, and its days are UTC's."""
    names = [resolution(period) for period in periods]
    seconds, minutes = [name[:-1] for name in names if name.endswith("S")], [name for name in names if name.isdigit()]
    tick, places = _step(market.tick_size)
    exchange = _exchange(market)
    return UdfSymbol(
        name=market.coin,
        ticker=ticker(market.provider, market.coin),
        description=_description(market),
        type=_TYPE,
        exchange=exchange,
        listed_exchange=exchange,
        session="24x7",
        timezone="Etc/UTC",
        format="price",
        minmov=tick,
        pricescale=10**places,
        has_intraday=bool(seconds or minutes),
        has_seconds=bool(seconds),
        has_daily=any(name.endswith("D") for name in names),
        has_weekly_and_monthly=False,
        intraday_multipliers=minutes,
        seconds_multipliers=seconds,
        supported_resolutions=names,
        volume_precision=_step(market.size_step)[1],
        data_status="streaming",
        currency_code=market.quote or "USD",
    )


def find(markets: Iterable[Market], name: str) -> Market:
    """The market with this ticker, or the first with this name."""
    found = list(markets)
    for market in found:
        if ticker(market.provider, market.coin) == name:
            return market
    for market in found:
        if market.coin == name:
            return market
    raise NotFound(f"there is no symbol {name!r:.80}; /udf/search lists what there is")


def search(markets: Iterable[Market], query: str, exchange: str, kind: str, limit: int) -> list[UdfFound]:
    """Markets whose ticker or description holds the text; those that begin with it come first."""
    wanted = query.casefold()
    found = [
        market
        for market in markets
        if exchange in ("", _exchange(market))
        and kind in ("", _TYPE)
        and wanted in f"{ticker(market.provider, market.coin)} {_description(market)}".casefold()
    ]
    found.sort(key=lambda market: not market.coin.casefold().startswith(wanted))
    return [_row(market) for market in found[:limit]]


def bars(rows: Sequence[CandleRow]) -> bytes:
    """Candles as columns of numbers; decimals go out as they are, never as floats."""
    columns = [",".join(str(row.start // 1_000) for row in rows)]
    columns += [",".join(getattr(row, name) for row in rows) for name in ("o", "h", "l", "c", "v")]
    named = ",".join(f'"{name}":[{column}]' for name, column in zip("tohlcv", columns, strict=True))
    return f'{{"s":"ok",{named}}}'.encode()


def _row(market: Market) -> UdfFound:
    name = ticker(market.provider, market.coin)
    return UdfFound(market.coin, name, _description(market), _exchange(market), name, _TYPE)


def _exchange(market: Market) -> str:
    return ticker(market.provider, "").rstrip(":")


def _description(market: Market) -> str:
    base = market.base or market.coin
    simulated = " (simulated)" if market.provider == "sim" else ""
    return f"{base} / {market.quote}{simulated}" if market.quote else f"{base}{simulated}"


def _step(text: str) -> tuple[int, int]:
    """A step of price or size as (units, places): 0.05 is 5 units of 2 places."""
    try:
        value = number(text)
    except ArteryError:
        return 1, _PLACES_USUAL
    exponent = value.normalize().as_tuple().exponent
    places = max(0, -exponent) if isinstance(exponent, int) else _PLACES_USUAL
    units = int(value * Decimal(10) ** places)
    return (units, places) if units > 0 else (1, _PLACES_USUAL)


_SYMBOL = Param(
    name="symbol",
    kind=Text(r"[A-Za-z0-9._/@#+:\-]{1,170}", "a ticker or a market's name"),
    doc="a ticker, or a market's name",
    example="SIM:BTC",
    required=True,
)
_SECONDS = Whole(-_LATEST_S, _LATEST_S)
_ANY_TEXT = Text(r"[^\x00-\x1f]{0,100}", "at most 100 letters")
_EXAMPLE = Market("sim", "BTC", "BTC", "USD", "0.1", "0.001", "open")
_BAR = CandleRow(1_730_000_040_000, "43250", "43260.5", "43249", "43255", "12.5", 41, True, 0)


def routes(parts: Parts) -> list[Route]:
    return [*_market_routes(parts), *_time_routes(parts)]


def _market_routes(parts: Parts) -> list[Route]:
    async def configuration(_ask: Ask) -> Response:
        return answers.json(config(parts.catalog.markets(), parts.catalog.periods))

    async def symbols(ask: Ask) -> Response:
        return answers.json(symbol(find(parts.catalog.markets(), ask.values["symbol"]), parts.catalog.periods))

    async def searched(ask: Ask) -> Response:
        wanted = (ask.values[name] for name in ("query", "exchange", "type", "limit"))
        return answers.json(search(parts.catalog.markets(), *wanted))

    return [
        Route(
            method="GET",
            path="/udf/config",
            name="udf_config",
            doc="What this datafeed can do.",
            handle=configuration,
            answers=(Answer(config([_EXAMPLE]), (UdfConfig,)),),
        ),
        Route(
            method="GET",
            path="/udf/symbols",
            name="udf_symbols",
            doc="One market, as the chart wants to know it.",
            handle=symbols,
            params=(_SYMBOL,),
            errors=(404,),
            answers=(Answer(symbol(_EXAMPLE), (UdfSymbol,)),),
        ),
        Route(
            method="GET",
            path="/udf/search",
            name="udf_search",
            doc="Markets whose ticker or description holds a text.",
            handle=searched,
            params=(
                Param(name="query", kind=_ANY_TEXT, doc="the text", example="btc", default=""),
                Param(name="type", kind=_ANY_TEXT, doc="only this type", example=_TYPE, default=""),
                Param(name="exchange", kind=_ANY_TEXT, doc="only this exchange", example="SIM", default=""),
                Param(name="limit", kind=Whole(1, _FOUND_MAX), doc="how many", example=30, default=30),
            ),
            answers=(Answer([_row(_EXAMPLE)], (list[UdfFound],)),),
        ),
    ]


def _time_routes(parts: Parts) -> list[Route]:
    resolutions = tuple(named(parts.catalog.periods))

    async def now(_ask: Ask) -> Response:
        return Response(str(keys.wall_ms() // 1_000), media_type="text/plain")

    async def history(ask: Ask) -> Response:
        return await _history(parts, ask)

    return [
        Route(
            method="GET",
            path="/udf/time",
            name="udf_time",
            doc="The server's clock, Unix seconds as text.",
            handle=now,
            answers=(Answer("1730000040", (str,), media="text/plain"),),
        ),
        Route(
            method="GET",
            path="/udf/history",
            name="udf_history",
            doc="Bars that start in [from, to), or the newest `countback` before `to`; at most 5,000, the newest.",
            handle=history,
            params=(
                _SYMBOL,
                Param(
                    name="resolution",
                    kind=Choice(resolutions),
                    doc="length of a bar",
                    example=resolutions[0],
                    required=True,
                ),
                Param(name="from", kind=_SECONDS, doc="first bar, Unix seconds", example=1_730_000_000, default=0),
                Param(name="to", kind=_SECONDS, doc="before this, Unix seconds", example=1_730_003_600, required=True),
                Param(
                    name="countback",
                    kind=Whole(1, 1_000_000),
                    doc="how many bars before `to`; it goes before `from`",
                    example=300,
                ),
            ),
            errors=(404,),
            answers=(Answer(UdfBars("ok", [1_730_000_040], *([1.5] for _ in "ohlcv")), (UdfBars, UdfNoData)),),
        ),
    ]


async def _history(parts: Parts, ask: Ask) -> Response:
    values = ask.values
    market = find(parts.catalog.markets(), values["symbol"])
    period = named(parts.catalog.periods)[values["resolution"]]
    end_ms, countback = max(0, values["to"]) * 1_000, values["countback"]
    start_ms = 0 if countback else max(0, values["from"]) * 1_000

    async def newest(since_ms: int, limit: int) -> list[CandleRow]:
        span = Span(since_ms, end_ms, limit, forward=False)
        return (await parts.history.candles(market.provider, market.coin, period, span)).rows

    found = await newest(start_ms, min(countback or HTTP.rows, HTTP.rows)) if start_ms < end_ms else []
    if found:
        return Response(await asyncio.to_thread(bars, found), media_type="application/json")
    older = await newest(0, 1) if end_ms else []
    return answers.json(UdfNoData("no_data", older[-1].start // 1_000) if older else UdfNoData("no_data"))
