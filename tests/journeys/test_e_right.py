"""After parts were killed, the tables end with every trade once and every candle right."""

import asyncio
from pathlib import Path

import httpx

from artery.lake.reads import Lake
from artery.settings import Settings
from bench.running import Running
from tests.journeys import ledger
from tests.journeys.killing import MINUTE, Killed, now_ms
from tests.journeys.waiting import until

MARKETS = Settings().ingest.markets
"""Those that are followed all the time; other journeys ask for some more, for a while."""
REPAIRED_MS = 25_000
"""What the venue needs to offer its own candle of a window that is over, and ingest to ask for it."""


async def test_every_trade_and_every_candle_is_right(artery: Running, killed: Killed) -> None:
    folder = artery.folder / "sim"
    end_ms = killed.end_ms + MINUTE.ms  # the minute of the hole, and one that is watched all through
    lake = Lake(folder)
    await until("the lake past the hole", lambda: committed_past(lake, folder, end_ms + REPAIRED_MS), within_s=240)

    stored = ledger.lake_trades(lake, MARKETS)
    book = await ledger.read(folder)
    assert set(book.coins()) >= set(MARKETS)
    names = [(trade.coin, trade.ts, trade.tid) for trade in book.trades if trade.coin in MARKETS]
    assert len(names) == len(set(names)), "the bus holds a trade twice"
    assert max(stored.values()) == 1, "the lake holds a trade twice"
    settled = {name for name in names if name[1] < killed.end_ms}
    assert settled <= set(stored), "the lake lacks a trade of the bus"
    assert set(stored) <= set(names), "the lake holds a trade that the bus never had"
    assert any(mark.from_ms <= killed.serve_ms <= mark.to_ms for mark in book.marks), "the hole is not in the log"
    await check_candles(artery, book, lake, end_ms)


async def committed_past(lake: Lake, folder: Path, ms: int) -> bool:
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
    for coin in MARKETS:
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
