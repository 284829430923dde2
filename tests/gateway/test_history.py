"""History is one: what the lake has, and after it what is on the bus, without a hole or a repeat."""

import asyncio
import csv
import io
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from artery.bus.open import open_bus
from artery.gateway import marks, rows, udf
from artery.gateway.history import History, lake_oldest
from artery.gateway.recent import Recent
from artery.gateway.span import Span
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.places import BATCH, POSITIONS, QUERY
from artery.lake.reads import ROWS_MAX, Lake
from artery.lake.tables import OHLC, TRADES
from artery.model.events import Candle, Trade
from artery.wire import history as pages
from tests.gateway.made import MINUTE, T0, candle, trade
from tests.gateway.running import WAIT_S, Running, started, until

PATH = "/v1/history?provider=sim&market=BTC&interval=1m"


def when(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def lake_candle(made: Candle) -> dict[str, Any]:
    return {
        "ticker": "SIM:BTC", "period_s": 60, "start": when(made.start_ts), "open": made.o, "high": made.h,
        "low": made.l, "close": made.c, "volume": made.v, "trades": made.n, "closed": made.closed, "rev": made.rev,
        "source": "live", "updated": when(made.event_ts),
    }  # fmt: skip


def lake_trade(made: Trade) -> dict[str, Any]:
    return {
        "ticker": "SIM:BTC", "ts": when(made.ts), "tid": made.tid, "price": made.px, "size": made.sz,
        "side": made.side, "provider": "sim", "epoch": made.epoch, "seq": made.seq, "received": when(made.event_ts),
    }  # fmt: skip


def store(folder: Path, candles: Sequence[Candle] = (), trades: Sequence[Trade] = (), **positions: str) -> None:
    """Commit to the lake as the pipeline does."""
    catalog = open_catalog(folder)
    ensure_tables(catalog)
    summary = {QUERY: "store", BATCH: "1", POSITIONS: msgspec.json.encode(positions).decode()}
    rows = ((OHLC, [lake_candle(made) for made in candles]), (TRADES, [lake_trade(made) for made in trades]))
    for table, found in rows:
        handle = catalog.load_table(table.full_name)
        handle.append(pa.Table.from_pylist(found, schema=table.schema), snapshot_properties=summary)
    catalog.engine.dispose()


async def ask(running: Running, query: str = "") -> dict[str, Any]:
    async with running.http() as http:
        answer = await http.get(PATH + query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def shown(found: dict[str, Any]) -> list[tuple[int, str]]:
    return [((row["start"] - T0) // 60_000, row["c"]) for row in found["candles"]]


async def put_page(running: Running, made: Sequence[Candle], number: int = 0) -> None:
    batch = pages.page("own:first:sim:BTC:1m", "sim", "BTC", MINUTE, made, number=number, last=True)
    await running.bus.append("history", [pages.encode(batch, event_ts=T0)])


async def test_the_chart_has_a_past_before_there_is_a_lake(running: Running) -> None:
    await put_page(running, [candle(m, close=50 + m, epoch=0) for m in range(100)])
    found = await until(lambda: _rows(running, 100))
    assert shown(found) == [(m, str(50 + m)) for m in range(100)]
    assert found["candles"][0] == {
        "start": T0, "o": "99", "h": "999", "l": "1", "c": "50", "v": "1.5", "n": 3, "closed": True, "rev": 0
    }  # fmt: skip
    assert (found["ticker"], found["interval"], found["next"]) == ("SIM:BTC", "1m", None)


async def _rows(running: Running, count: int, query: str = "") -> dict[str, Any] | None:
    found = await ask(running, query)
    return found if len(found["candles"]) == count else None


async def test_lake_history_and_candles_join_and_the_newest_version_holds(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    async with started(tmp_path) as running:
        positions = await running.candles(*[candle(m, seq=m + 1, close=10) for m in range(5)])
    store(folder, [candle(m, close=10) for m in range(5)], candle=positions[2], history="0")
    async with started(tmp_path) as running:
        await running.candles(candle(4, seq=6, close=77, rev=1), candle(5, seq=7, close=55, closed=False))
        await put_page(running, [candle(-1, close=5, epoch=0), candle(4, close=1, epoch=0)])
        found = await until(lambda: _rows(running, 7))
    assert shown(found) == [(-1, "5"), (0, "10"), (1, "10"), (2, "10"), (3, "10"), (4, "77"), (5, "55")]
    assert found["candles"][-1]["closed"] is False


async def test_what_the_lake_takes_up_is_forgotten_and_still_there(running: Running) -> None:
    made = [candle(m, seq=m + 1) for m in range(20)]
    positions = await running.candles(*made)
    await until(lambda: _rows(running, 20))
    recent = running.gateway.history.recent
    assert len(recent) == 20
    await asyncio.to_thread(store, running.settings.folder, made[:15], candle=positions[14], history="0")
    await until(lambda: len(recent) == 5)
    assert len((await ask(running))["candles"]) == 20


async def test_pages_go_back_from_the_newest_and_forward_from_a_start(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    # Quiet minutes have no candle, so a page spans more time than it has rows.
    minutes = [m for m in range(400) if m % 3]
    store(folder, [candle(m) for m in minutes[:150]], candle="0", history="0")
    async with started(tmp_path) as running:
        await running.candles(*[candle(m, seq=m) for m in minutes[140:]])
        await until(lambda: _rows(running, len(minutes)))
        for direction in ("", f"&start={T0}"):
            seen: list[list[int]] = []
            cursor = ""
            while True:
                found = await ask(running, f"{direction}&limit=40{cursor}")
                page = [m for m, _ in shown(found)]
                assert page == sorted(page)
                seen.append(page)
                if found["next"] is None:
                    break
                cursor = f"&cursor={found['next']}"
            ordered = seen if direction else seen[::-1]
            assert [m for page in ordered for m in page] == minutes
        found = await ask(running, f"&start={T0 + 60_000}&end={T0 + 240_000}")
        assert [m for m, _ in shown(found)] == [1, 2]
        assert (await ask(running, "&start=0&end=0"))["candles"] == []
        found = await ask(running, f"&end={T0 + 600_000}&limit=3")
        assert [m for m, _ in shown(found)] == [5, 7, 8]


async def test_history_comes_as_csv_and_as_exact_arrow(running: Running) -> None:
    await put_page(running, [candle(m, epoch=0) for m in range(3)])
    await until(lambda: _rows(running, 3))
    async with running.http() as http:
        text = (await http.get(PATH + "&format=csv&limit=2")).text
        answer = await http.get(PATH + "&format=arrow&limit=2")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert (len(rows), rows[0]["o"], rows[0]["closed"]) == (2, "99", "true")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert answer.headers["artery-next"] == f"e{T0 + 60_000}"
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.column("start").to_pylist() == [T0 + 60_000, T0 + 120_000]
    assert table.column("v").to_pylist() == [Decimal("1.5")] * 2
    async with running.http() as http:
        empty = await http.get(PATH + "&format=arrow&start=0&end=0")
    assert pa.ipc.open_stream(empty.content).read_all().schema == table.schema


async def test_trades_of_lake_and_bus_are_one(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    # Ten trades in each millisecond: a page must not part them.
    made = [trade(n, ts=T0 + n // 10) for n in range(1, 201)]
    async with started(tmp_path) as running:
        positions = await running.append("trade", *made, trade(1, coin="ETH"))
    store(folder, trades=made[:120], trade=positions[100])
    async with started(tmp_path) as running:
        for direction in ("", f"&start={T0}"):
            seen: list[list[int]] = []
            cursor = ""
            while True:
                found = await ask(running, f"&type=trades{direction}&limit=35{cursor}")
                seen.append([row["seq"] for row in found["trades"]])
                if found["next"] is None:
                    break
                cursor = f"&cursor={found['next']}"
            ordered = seen if direction else seen[::-1]
            assert [seq for page in ordered for seq in page] == list(range(1, 201))


async def test_a_millisecond_with_more_trades_than_a_page_is_given_whole(running: Running) -> None:
    await running.append("trade", *[trade(n, ts=T0) for n in range(1, 51)], trade(51, ts=T0 + 1))
    found = await ask(running, f"&type=trades&start={T0}&limit=10")
    assert len(found["trades"]) == 50
    assert len((await ask(running, f"&type=trades&limit=10&cursor={found['next']}"))["trades"]) == 1


async def test_going_back_loses_no_trade_of_a_millisecond_that_the_lake_holds(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    made = [trade(n, ts=T0 + (n > 2) + (n > 9)) for n in range(1, 13)]  # 2, then 7, then 3 in one millisecond each
    store(folder, trades=made, trade="0")
    async with started(tmp_path) as running, running.http() as http:
        await running.append("trade", trade(13, ts=T0 + 3))
        for limit in (1, 2, 3, 5):
            seqs: list[int] = []
            query = f"/v1/history?ticker=SIM:BTC&type=trades&limit={limit}"
            cursor = ""
            while cursor is not None:
                page = (await http.get(query + (f"&cursor={cursor}" if cursor else ""))).json()
                seqs, cursor = [row["seq"] for row in page["trades"]] + seqs, page["next"]
            assert seqs == list(range(1, 14)), limit


async def test_a_millisecond_that_fills_pages_of_the_log_is_given_whole_in_both_directions(running: Running) -> None:
    made = [trade(1), *[trade(n, ts=T0 + 50) for n in range(2, 4_502)], trade(4_502, ts=T0 + 60)]
    await running.append("trade", *made)
    async with running.http() as http:
        for begin in ("", f"&start={T0}"):
            query = f"/v1/history?ticker=SIM:BTC&type=trades&limit=10{begin}"
            found: list[int] = []
            cursor = ""
            while cursor is not None:
                page = (await http.get(query + (f"&cursor={cursor}" if cursor else ""))).json()
                found, cursor = found + [row["seq"] for row in page["trades"]], page["next"]
            assert sorted(found) == list(range(1, 4_503))


async def test_a_page_that_cannot_be_read_is_passed_over(running: Running) -> None:
    batch = pages.page("x", "sim", "BTC", MINUTE, [candle(7, epoch=0)], number=0, last=True)
    batch.rows[0].close = "NaN"
    garbage = [{"ver": "1", "t": "OHLC_BATCH", "body": "!"}, {"x": "y"}, pages.encode(batch, event_ts=T0)]
    await running.bus.append("history", garbage)
    await put_page(running, [candle(0, epoch=0)])
    assert await until(lambda: _rows(running, 1))


async def test_a_foreign_producers_candles_are_shown(running: Running) -> None:
    fields = {"ver": "1", "t": "CANDLE", "coin": "GOLD", "interval": "1m", "startTs": str(T0), "o": "1", "h": "2",
              "l": "1", "c": "2", "v": "3", "isClosed": "true", "eventTs": str(T0)}  # fmt: skip
    await running.bus.append("candle", [fields])

    async def gold() -> list[dict[str, Any]]:
        async with running.http() as http:
            answer = await http.get("/v1/history?provider=external&market=GOLD")
        return answer.json().get("candles", [])  # type: ignore[no-any-return]

    assert (await until(gold))[0]["c"] == "2"


HISTORY = "/v1/history?ticker=SIM:BTC"


@pytest.mark.parametrize(
    ("where", "name", "path"),
    [
        (rows, "lake_trades", f"{HISTORY}&type=trades&start=0&limit=1"),
        (rows, "lake_trades", f"{HISTORY}&type=trades"),
        (rows, "lake_candles", f"{HISTORY}&start=0"),
        (rows, "lake_candles", HISTORY),
        (rows, "lake_candles", "/v1/indicators/sim/BTC/1m?limit=5"),
        (rows, "joined", HISTORY),
        (rows, "as_json", HISTORY),
        (rows, "as_csv", f"{HISTORY}&format=csv"),
        (udf, "bars", f"/udf/history?symbol=BTC&resolution=1&to={T0 // 1_000 + 600}"),
        (marks, "marks_of", "/v1/gaps"),
    ],
)
async def test_the_loop_takes_its_turns_while_rows_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: ModuleType, name: str, path: str
) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    store(folder, [candle(m) for m in range(5)], [trade(n) for n in range(5)], trade="0", candle="0")
    work, loop = getattr(where, name), asyncio.get_running_loop()
    made = []

    def meanwhile(*given: Any) -> Any:
        turned = threading.Event()
        loop.call_soon_threadsafe(turned.set)
        made.append(turned.wait(WAIT_S))  # in vain, if it is the loop that waits here
        return work(*given)

    async with started(tmp_path) as running, running.http() as http:
        monkeypatch.setattr(where, name, meanwhile)
        assert (await http.get(path)).status_code == 200
    assert made
    assert all(made)


class Noted(Lake):
    """A lake that tells how many rows were read."""

    rows = 0

    def trades(self, ticker: str, start_ms: int, end_ms: int, limit: int = ROWS_MAX) -> pa.Table:
        found = super().trades(ticker, start_ms, end_ms, limit)
        self.rows += found.num_rows
        return found


async def test_what_a_page_costs_does_not_grow_with_what_lies_behind_it(tmp_path: Path) -> None:
    made = [trade(n, ts=T0 + n // 10) for n in range(60_000)]
    for at in range(0, len(made), 20_000):
        store(tmp_path, trades=made[at : at + 20_000], trade="0")
    lake = Noted(tmp_path)
    found = lake_oldest(lake, "SIM:BTC", Span(T0, 2**42, 35, forward=True))
    assert found.column("seq").to_pylist() == list(range(40)), "one more than a page, and its whole millisecond"
    assert lake.rows <= 20_000
    late = Span(T0 + 5_500, 2**42, 35, forward=True)
    assert lake_oldest(lake, "SIM:BTC", late).column("seq").to_pylist() == list(range(55_000, 55_040))
    assert lake.rows <= 40_000
    lake.close()


async def test_following_the_cursor_gives_every_trade_of_a_lake_of_many_files_once(tmp_path: Path) -> None:
    made = [trade(n, ts=T0 + n // 7) for n in range(12_000)]
    for at in range(0, len(made), 3_000):
        store(tmp_path, trades=made[at : at + 3_000], trade="0")
    bus, lake = open_bus(f"sqlite:///{tmp_path}/bus.db"), Lake(tmp_path)
    history, span, seqs = History(Recent(), lake, bus), Span(T0, 2**42, 5_000, forward=True), list[int]()
    while True:
        page = await history.trades("sim", "BTC", span)
        seqs += [row.seq for row in page.rows]
        if page.next is None:
            break
        span = Span(int(page.next[1:]), 2**42, 5_000, forward=True)
    assert seqs == list(range(12_000))
    lake.close()
    await bus.close()
