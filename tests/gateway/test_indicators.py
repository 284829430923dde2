"""Indicators over HTTP: the engine's newest values, and a stretch of the past with the same bits."""

from typing import Any

import msgspec

from artery.indicators.bar import bar_of
from artery.indicators.standard import NAMES, fold
from artery.model.events import Candle
from tests.gateway.made import T0, candle
from tests.gateway.running import Running, until

PATH = "/v1/indicators/sim/BTC/1m"
KEY = "artery:indicator:sim:BTC:1m"


async def ask(running: Running, path: str = PATH, status: int = 200) -> dict[str, Any]:
    async with running.http() as http:
        answer = await http.get(path)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def rows(running: Running, query: str, count: int) -> dict[str, Any] | None:
    found = await ask(running, PATH + query)
    return found if len(found["rows"]) == count else None


def values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in NAMES)


def folded(made: list[Candle]) -> list[tuple[Any, ...]]:
    return [found for _, found in fold(map(bar_of, made))]


def record(first: int, *, warm: bool = True) -> bytes:
    closed = {"startTs": T0, "rev": 1, **dict.fromkeys(NAMES, 1.5), "vwap": None}
    return msgspec.json.encode({"closed": closed, "open": None, "from": first, "position": "17", "warm": warm})


async def test_the_newest_values_are_those_that_the_engine_wrote(running: Running) -> None:
    assert (await ask(running))["closed"] is None
    await running.store.put(KEY, record(T0))
    found = await ask(running)
    assert list(found) == [
        "provider", "market", "ticker", "interval", "closed", "open", "from", "position", "warm"
    ]  # fmt: skip
    assert (found["ticker"], found["from"], found["position"], found["warm"]) == ("SIM:BTC", T0, "17", True)
    assert found["closed"] == {"startTs": T0, "rev": 1, **dict.fromkeys(NAMES, 1.5), "vwap": None}


async def test_a_stretch_begins_where_the_live_values_begin_and_has_their_bits(running: Running) -> None:
    made = [candle(m, seq=m + 1, close=100 + m % 7) for m in range(90)]
    await running.candles(*made, candle(90, seq=91, close=105, closed=False))
    await running.store.put(KEY, record(made[10].start_ts))
    found = await until(lambda: rows(running, "&".join(["?limit=20", f"end={T0 + 91 * 60_000}"]), 20))
    everything = folded([*made[10:], candle(90, close=105)])
    assert [values(row) for row in found["rows"]] == everything[-20:]
    assert (found["from"], found["rows"][-1]["closed"], found["rows"][-2]["closed"]) == (made[10].start_ts, False, True)
    forward = await ask(running, f"{PATH}?start={made[10].start_ts}&limit=30")
    assert [values(row) for row in forward["rows"]] == everything[:30]
    second = await ask(running, f"{PATH}?limit=30&cursor={forward['next']}")
    assert [values(row) for row in second["rows"]] == everything[30:60]
    older = await ask(running, f"{PATH}?start={T0}&limit=40")
    assert [values(row) for row in older["rows"]] == folded(made)[:40]
    assert older["from"] == T0
    await running.store.put(KEY, record(made[50].start_ts, warm=False))
    found = await ask(running, f"{PATH}?start={made[50].start_ts}&limit=10")
    assert [values(row) for row in found["rows"]] == folded(made)[50:60]


async def test_an_empty_stretch_has_no_rows(running: Running) -> None:
    found = await ask(running, f"{PATH}?start=0&end=1")
    assert (found["rows"], found["next"]) == ([], None)


async def test_what_nobody_serves_or_is_no_interval_is_refused(running: Running) -> None:
    assert (await ask(running, "/v1/indicators/sim/NONE/1m", 404))["error"]["code"] == "unknown_channel"
    assert (await ask(running, "/v1/indicators/sim/A/B/1m", 404))["error"]["code"] == "unknown_channel"
    assert "interval" in (await ask(running, "/v1/indicators/sim/BTC/1w", 400))["error"]["message"]
    assert "limit" in (await ask(running, PATH + "?limit=0", 400))["error"]["message"]
    await running.store.put(KEY, b"{")
    assert (await ask(running, PATH, 503))["error"]["code"] == "unavailable"
