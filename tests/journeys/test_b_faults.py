"""What is killed comes back, and the tables end with every trade once and every candle right."""

import asyncio
import os
import signal
import time

import httpx
import psutil

from artery.client import Artery, Gap
from artery.lake.reads import Lake
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from bench.running import Running
from tests.journeys import ledger
from tests.journeys.waiting import until

MINUTE = Period.parse("1m")


def service(artery: Running, name: str) -> psutil.Process | None:
    """The process of a service under `artery up`."""
    for process in artery.processes():
        try:
            if process.cmdline()[-2:] == ["run", name]:
                return process
        except psutil.Error:
            continue
    return None


def kill(artery: Running, name: str) -> int:
    process = service(artery, name)
    assert process is not None, f"{name} is not running"
    os.kill(process.pid, signal.SIGKILL)
    return process.pid


async def first(artery: Running, kind: type, types: list[str], since_ms: int) -> None:
    """Wait for an event of this kind that is newer than `since_ms`."""
    async with Artery(artery.url, artery.key) as client:
        async for event in client.stream("SIM:BTC", types=types):
            if isinstance(event, kind) and not isinstance(event, Gap) and event.event_ts > since_ms:  # type: ignore[attr-defined]
                return


async def until_event(artery: Running, kind: type, types: list[str], since_ms: int) -> None:
    """As `first`, also while the gateway is away."""
    async with asyncio.timeout(150):
        while True:
            try:
                return await first(artery, kind, types, since_ms)
            except Exception:  # the gateway is not back yet
                await asyncio.sleep(0.2)


async def test_killed_parts_come_back_and_every_trade_and_candle_is_right(artery: Running) -> None:
    folder = artery.folder / "sim"
    await until_event(artery, Candle, ["CANDLE:1m"], now_ms() - 60_000)

    pipeline = kill(artery, "pipeline")
    await until_event(artery, Trade, ["TRADE"], now_ms())  # trades go on without candles
    await until_event(artery, Candle, ["CANDLE:1m"], now_ms())
    assert not psutil.pid_exists(pipeline)

    killed_ms = now_ms()
    kill(artery, "serve")
    await until_event(artery, Trade, ["TRADE"], now_ms())
    assert service(artery, "pipeline") is not None

    end_ms = MINUTE.start(now_ms()) + MINUTE.ms  # the minute of the hole, and one that is watched all through
    lake = Lake(folder)
    position = await until(
        "the lake past the hole", lambda: committed_past(lake, folder, end_ms + MINUTE.ms + 25_000), within_s=240
    )
    assert position

    book = await ledger.read(folder)
    coins = book.coins()
    assert len(coins) == 6
    names = [(trade.coin, trade.ts, trade.tid) for trade in book.trades]
    assert len(names) == len(set(names)), "the bus holds a trade twice"
    stored = ledger.lake_trades(lake, coins)
    assert max(stored.values()) == 1, "the lake holds a trade twice"
    settled = {name for name in names if name[1] < end_ms}
    assert settled <= set(stored), "the lake lacks a trade of the bus"
    assert set(stored) <= set(names), "the lake holds a trade that the bus never had"
    assert any(mark.from_ms <= killed_ms <= mark.to_ms for mark in book.marks), "the hole is not in the log"
    await check_candles(artery, book, lake, end_ms + MINUTE.ms)


async def committed_past(lake: Lake, folder: object, ms: int) -> bool:
    """Whether the lake holds every stream up to this moment (with what the repair of the hole needs)."""
    if now_ms() < ms:
        return False
    positions = await asyncio.to_thread(lake.positions)
    bus = ledger.open_bus(f"sqlite:///{folder}/bus.db")
    try:
        wanted = {stream: await bus.find(stream, ms) for stream in ("trade", "candle", "history", "feed")}
    finally:
        await bus.close()
    return all(int(positions.get(stream, "0")) >= int(position) for stream, position in wanted.items())


async def check_candles(artery: Running, book: ledger.Ledger, lake: Lake, end_ms: int) -> None:
    """Each closed candle is the fold of its trades, or the venue's own where a MARK overlaps it."""
    own = ledger.own_candles(book, MINUTE)
    begin_ms = MINUTE.start(min(trade.event_ts for trade in book.trades))
    rest = artery.sim_url.replace("ws://", "http://").replace("/ws", "/info")
    vouched = unvouched = 0
    for coin in book.coins():
        venue = await ledger.venue_candles(rest, coin, MINUTE, begin_ms, end_ms)
        rows = {row["start"]: row for row in ledger.lake_candles(lake, coin, MINUTE, begin_ms)}
        for start in range(begin_ms, end_ms - MINUTE.ms + 1, MINUTE.ms):
            expected = own.get((coin, start)) if book.is_vouched_for(coin, start, MINUTE) else venue.get(start)
            vouched += book.is_vouched_for(coin, start, MINUTE)
            unvouched += not book.is_vouched_for(coin, start, MINUTE)
            if expected is None:
                assert start not in rows, (coin, start)
                continue
            assert rows[start]["closed"], (coin, start)
            assert ledger.row_values(rows[start]) == expected, (coin, start, book.is_vouched_for(coin, start, MINUTE))
    assert vouched, "no minute was watched all through"
    assert unvouched, "no minute overlapped the hole"


async def test_nothing_that_was_said_in_the_log_is_a_traceback(artery: Running) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        ready = (await http.get(f"{artery.url}/readyz", headers={"Authorization": f"Bearer {artery.key}"})).json()
    assert ready["feeds"]
    said = (artery.folder / "console.log").read_text(errors="replace")
    said += "".join(
        path.read_text(errors="replace")
        for path in (artery.folder / "sim" / "logs").glob("s*.log")
        if path.name != "spark.log"
    )
    assert "Traceback" not in said
    assert artery.key.split(".")[1] not in said, "a secret is in a log"


def now_ms() -> int:
    return time.time_ns() // 1_000_000
