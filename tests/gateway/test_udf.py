"""TradingView's charting library gets from `/udf/*` what its documentation asks for."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from artery.gateway import keys, udf
from artery.gateway.catalog import Market
from artery.gateway.rows import CandleRow
from artery.gateway.span import Span
from artery.model import symbols
from artery.model.periods import DERIVED, Period
from artery.model.symbols import Symbol
from tests.gateway.made import MINUTE, T0, candle
from tests.gateway.running import Running, started, until

T0_S = T0 // 1_000

# What the library's documentation says of each answer (its UDF page and `LibrarySymbolInfo`).
RESOLUTION = {"type": "string", "pattern": "^([0-9]+|[0-9]*[SDWM])$"}
CONFIG = {
    "type": "object",
    "required": ["supported_resolutions"],
    "properties": {
        "supports_search": {"type": "boolean"},
        "supports_group_request": {"type": "boolean"},
        "supports_marks": {"type": "boolean"},
        "supports_timescale_marks": {"type": "boolean"},
        "supports_time": {"type": "boolean"},
        "supported_resolutions": {"type": "array", "items": RESOLUTION, "minItems": 1},
        "exchanges": {
            "type": "array",
            "items": {"type": "object", "required": ["value", "name", "desc"]},
        },
        "symbols_types": {"type": "array", "items": {"type": "object", "required": ["name", "value"]}},
    },
}
SYMBOL = {
    "type": "object",
    "required": [
        "name", "description", "type", "session", "timezone", "exchange", "listed_exchange", "format", "minmov",
        "pricescale", "supported_resolutions", "has_intraday",
    ],
    "not": {"required": ["s"]},
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "ticker": {"type": "string"},
        "description": {"type": "string"},
        "type": {"enum": ["stock", "index", "forex", "futures", "bitcoin", "crypto", "undefined", "expression",
                          "spread", "cfd", "economic", "equity", "dr", "bond", "right", "warrant", "fund",
                          "structured", "commodity", "fundamental", "spot"]},
        "session": {"const": "24x7"},
        "timezone": {"const": "Etc/UTC"},
        "format": {"enum": ["price", "volume"]},
        "minmov": {"type": "integer", "minimum": 1},
        "pricescale": {"type": "integer", "minimum": 1, "maximum": 10**16},
        "has_intraday": {"type": "boolean"},
        "has_daily": {"type": "boolean"},
        "has_weekly_and_monthly": {"type": "boolean"},
        "intraday_multipliers": {"type": "array", "items": {"type": "string", "pattern": "^[0-9]+$"}},
        "supported_resolutions": {"type": "array", "items": RESOLUTION},
        "volume_precision": {"type": "integer", "minimum": 0},
        "data_status": {"enum": ["streaming", "endofday", "delayed_streaming"]},
    },
}  # fmt: skip
SEARCH = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["symbol", "full_name", "description", "exchange", "ticker", "type"],
        "additionalProperties": {"type": "string"},
    },
}
NUMBERS = {"type": "array", "items": {"type": "number"}}
HISTORY = {
    "oneOf": [
        {
            "type": "object",
            "required": ["s", "t", "c"],
            "properties": {
                "s": {"const": "ok"},
                "t": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
                **dict.fromkeys("ohlcv", NUMBERS),
            },
        },
        {
            "type": "object",
            "required": ["s"],
            "properties": {"s": {"const": "no_data"}, "nextTime": {"type": "integer"}},
            "additionalProperties": False,
        },
        {
            "type": "object",
            "required": ["s", "errmsg"],
            "properties": {"s": {"const": "error"}, "errmsg": {"type": "string"}},
        },
    ]
}


@pytest.fixture
async def charted(tmp_path: Path) -> AsyncIterator[Running]:
    """A gateway with three minutes of candles, a pause, and one more: the last is still open."""
    async with started(tmp_path) as running:
        btc = Symbol("sim", "BTC", "BTC", "USD", Decimal("0.05"), Decimal("0.001"))
        await running.store.put(symbols.key("sim", "BTC"), symbols.write(btc))
        await running.candles(*(candle(n, seq=n + 1, close=100 + n) for n in range(3)))
        await running.candles(candle(10, seq=4, close=110, closed=False))
        await until(
            lambda: len(running.gateway.history.recent.rows("sim", "BTC", 60, Span(0, T0 * 2, 9, forward=True))) == 4
        )
        await until(lambda: any(market.tick_size for market in running.gateway._catalog.markets()))
        yield running


async def ask(running: Running, path: str, schema: dict[str, Any], status: int = 200) -> Any:
    async with running.http() as http:
        answer = await http.get(f"/udf/{path}")
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert list(jsonschema_rs.iter_errors(schema, found)) == []
    return found


async def bars(running: Running, query: str) -> Any:
    return await ask(running, f"history?symbol=SIM:BTC&resolution=1&{query}", HISTORY)


async def test_the_chart_learns_what_there_is(charted: Running) -> None:
    config = await ask(charted, "config", CONFIG)
    assert config["supported_resolutions"] == ["1", "5", "15", "60", "240", "1D"]
    assert (config["supports_search"], config["supports_group_request"], config["supports_time"]) == (True, False, True)
    assert [exchange["value"] for exchange in config["exchanges"]] == ["", "SIM"]


async def test_a_symbol_is_found_by_its_ticker_and_by_its_name(charted: Running) -> None:
    for name in ("SIM:BTC", "BTC"):
        found = await ask(charted, f"symbols?symbol={name}", SYMBOL)
        assert (found["ticker"], found["minmov"], found["pricescale"]) == ("SIM:BTC", 5, 100)
        assert (found["volume_precision"], found["currency_code"]) == (3, "USD")
    missing = await ask(charted, "symbols?symbol=SIM:NOPE", {"required": ["s", "errmsg"]}, 404)
    assert (missing["s"], missing["error"]["code"]) == ("error", "not_found")


async def test_search_finds_what_holds_the_text_and_no_more_than_was_asked_for(charted: Running) -> None:
    assert [row["ticker"] for row in await ask(charted, "search?query=bt&type=&exchange=&limit=30", SEARCH)] == [
        "SIM:BTC"
    ]
    assert len(await ask(charted, "search?query=&limit=1", SEARCH)) == 1
    assert await ask(charted, "search?query=btc&exchange=KALSHI", SEARCH) == []
    assert await ask(charted, "search?query=btc&type=stock", SEARCH) == []


async def test_bars_are_those_from_and_before(charted: Running) -> None:
    found = await bars(charted, f"from={T0_S}&to={T0_S + 120}")
    assert (found["t"], found["c"]) == ([T0_S, T0_S + 60], [100, 101])
    assert {len(found[name]) for name in "tohlcv"} == {2}
    assert (found["o"][0], found["h"][0], found["l"][0], found["v"][0]) == (99, 999, 1, 1.5)
    newest = await bars(charted, f"from={T0_S + 180}&to={T0_S + 3_600}")
    assert newest["c"] == [110]


async def test_countback_goes_before_from(charted: Running) -> None:
    found = await bars(charted, f"from={T0_S + 540}&to={T0_S + 660}&countback=3")
    assert found["t"] == [T0_S + 60, T0_S + 120, T0_S + 600]


async def test_a_stretch_without_bars_says_where_the_next_older_one_is(charted: Running) -> None:
    assert await bars(charted, f"from={T0_S + 200}&to={T0_S + 500}") == {"s": "no_data", "nextTime": T0_S + 120}
    assert await bars(charted, f"from={T0_S - 900}&to={T0_S}") == {"s": "no_data"}
    assert await bars(charted, f"from=-500&to={T0_S}&countback=10") == {"s": "no_data"}
    assert await bars(charted, f"from={T0_S + 500}&to={T0_S + 100}") == {"s": "no_data", "nextTime": T0_S + 60}
    assert await bars(charted, "from=-90&to=-30") == {"s": "no_data"}


async def test_what_is_wrong_is_said_as_the_chart_reads_it(charted: Running) -> None:
    for query, status in (
        ("symbol=SIM:NOPE&resolution=1&to=1", 404),
        ("symbol=SIM:BTC&resolution=7&to=1", 400),
        ("symbol=SIM:BTC&resolution=1", 400),
        ("symbol=SIM:BTC&resolution=1&to=soon", 400),
        ("resolution=1&to=1", 400),
    ):
        found = await ask(charted, f"history?{query}", HISTORY, status)
        assert found["errmsg"] == found["error"]["message"]
    async with charted.http({}) as nobody:
        assert (await nobody.get("/udf/config")).status_code == 401


async def test_the_chart_may_send_what_we_do_not_know(charted: Running) -> None:
    found = await bars(charted, f"from={T0_S}&to={T0_S + 60}&currencyCode=EUR&unitId=x")
    assert found["s"] == "ok"


async def test_the_clock_is_whole_seconds_as_text(charted: Running) -> None:
    async with charted.http() as http:
        answer = await http.get("/udf/time")
    assert answer.headers["content-type"].startswith("text/plain")
    assert abs(int(answer.text) - keys.wall_ms() // 1_000) < 60


async def test_the_chart_is_offered_the_periods_that_the_settings_ask_for(tmp_path: Path) -> None:
    async with started(tmp_path, pipeline={"periods": ("1m", "5s", "2h")}) as running:
        assert (await ask(running, "config", CONFIG))["supported_resolutions"] == ["5S", "1", "120"]
        found = await ask(running, "symbols?symbol=SIM:BTC", SYMBOL)
        assert found["supported_resolutions"] == ["5S", "1", "120"]
        assert (found["seconds_multipliers"], found["intraday_multipliers"]) == (["5"], ["1", "120"])
        assert (found["has_seconds"], found["has_daily"]) == (True, False)
        for name, status in (("120", 200), ("5S", 200), ("D", 400), ("5", 400)):
            await ask(running, f"history?symbol=SIM:BTC&resolution={name}&to={T0_S}", {}, status)


def test_every_period_has_a_name_that_the_chart_knows() -> None:
    assert [udf.resolution(period) for period in DERIVED] == ["1", "5", "15", "60", "240", "1D"]
    assert udf.resolution(Period.parse("7d")) == "7D"
    assert udf.resolution(Period.parse("90s")) == "90S"
    assert MINUTE in DERIVED


def test_numbers_stay_exact() -> None:
    row = CandleRow(T0, "0.000000000000000001", "99999999999999999999.5", "0", "1", "3", 1, True, 0)
    assert b'"o":[0.000000000000000001],"h":[99999999999999999999.5]' in udf.bars([row])


@pytest.mark.parametrize(
    ("tick", "minmov", "pricescale"),
    [("0.01", 1, 100), ("0.5", 5, 10), ("1", 1, 1), ("10", 10, 1), ("", 1, 100), ("nonsense", 1, 100), ("0", 1, 100)],
)
def test_a_tick_is_so_many_parts_of_a_scale(tick: str, minmov: int, pricescale: int) -> None:
    found = udf.symbol(Market("sim", "BTC", tick_size=tick))
    assert (found.minmov, found.pricescale) == (minmov, pricescale)
