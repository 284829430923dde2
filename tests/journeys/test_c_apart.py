"""Artery in separate processes on Redis: one leads, another takes over, and a client of the plain streams belongs."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import redis

from artery.bus.base import place
from artery.client import Artery, Gap
from artery.lake.reads import Lake
from artery.model.events import Candle, Trade
from tests.journeys import ledger
from tests.journeys.apart import Apart, Service, apart, leads
from tests.journeys.waiting import until

MINUTE_MS = 60_000
SPARK_S = 240.0
COIN = "SEED"
CANDLE_FIELDS = {"ver", "t", "coin", "interval", "startTs", "o", "h", "l", "c", "v", "isClosed", "eventTs"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    """The pipeline, the venue, two ingests and a gateway, each a process of its own."""
    with apart(tmp_path_factory.mktemp("apart")) as made:
        for name in ("pipeline", "sim", "ingest", "ingest", "gateway"):
            made.start(name)
        yield made


async def open_gateway(house: Apart) -> None:
    """Wait until the gateway answers and the feed is live."""

    async def answers() -> bool:
        try:
            async with Artery(house.url, house.key) as client:
                await client.markets()
        except Exception:  # not up yet
            return False
        return house.state("artery:feed:sim").get("state") == "live"

    await until("a live feed behind an open gateway", answers)


class Watcher:
    """A client that keeps every trade and gap of one market that it is told of."""

    def __init__(self, house: Apart) -> None:
        self.trades: list[Trade] = []
        self.gaps: list[Gap] = []
        self._task = asyncio.create_task(self._watch(house))

    async def _watch(self, house: Apart) -> None:
        async with Artery(house.url, house.key) as client:
            async for event in client.stream("SIM:BTC", types=["TRADE"]):
                if isinstance(event, Gap):
                    self.gaps.append(event)
                elif isinstance(event, Trade):
                    self.trades.append(event)

    async def until_trade(self, since_ms: int) -> None:
        """Wait for a trade that was received after this time."""

        async def came() -> bool:
            if self._task.done():
                self._task.result()
            return bool(self.trades) and self.trades[-1].event_ts > since_ms

        await until("a trade", came)

    async def knows_of(self, ms: int) -> bool:
        """Whether it was told that this moment lies in a hole."""
        return any((gap.from_ms or 0) <= ms <= (gap.to_ms or 0) for gap in self.gaps)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


async def leader(house: Apart) -> Service:
    """The one ingest that leads."""

    async def one() -> Service | None:
        found = [service for service in house.services if "ingest" in service.log.name and leads(service)]
        return found[0] if len(found) == 1 else None

    found = await until("one that leads", one)
    assert found is not None
    return found


async def test_a_killed_leader_is_followed_and_every_client_is_told_of_the_hole(house: Apart) -> None:
    await open_gateway(house)
    watcher = Watcher(house)
    await watcher.until_trade(0)
    first = await leader(house)
    first.kill()
    killed_ms = now_ms()
    await watcher.until_trade(killed_ms)
    await until("a gap", lambda: watcher.knows_of(killed_ms))
    await watcher.stop()
    assert await leader(house) is not first

    assert "failover" in {gap.reason for gap in watcher.gaps}
    book = await ledger.read_log(house.server.url)
    holes = [mark for mark in book.marks if mark.cause == "failover" and mark.from_ms <= killed_ms <= mark.to_ms]
    assert len({mark.epoch for mark in holes}) == 1, "one leader has said it"
    begin, end = watcher.trades[0].position, watcher.trades[-1].position
    on_the_bus = [trade.position for trade in book.trades if trade.coin == "BTC" and begin <= trade.position <= end]
    assert [trade.position for trade in watcher.trades] == on_the_bus, "the client got what the bus holds, once"
    house.start("ingest")


async def test_a_client_that_knows_only_the_plain_streams_belongs(house: Apart) -> None:
    await open_gateway(house)
    minute = now_ms() // MINUTE_MS * MINUTE_MS
    with house.plain() as plain:
        write(plain, "candle", candle(minute, "1.5", closed="false"))
        write(plain, "trade", trade(minute + 1, "1.5"))
        await until("the market of a foreign producer", lambda: knows(house))
        closed = await told_of_a_closed_candle(house, plain, minute)
        assert (str(closed.c), closed.provider, closed.coin) == ("1.75", "external", COIN)
        assert await charted(house, minute) == [["1.75", True]]
        await until("its candle and trade in the lake", lambda: stored(house, minute), within_s=SPARK_S)
        await read_ours(plain)


def write(plain: Any, kind: str, fields: dict[str, str]) -> str:
    caps = {"candle": 200_000, "trade": 500_000}
    return str(plain.xadd(f"md_stream:{kind}", fields, maxlen=caps[kind], approximate=True))


def candle(start_ms: int, close: str, *, closed: str) -> dict[str, str]:
    return {
        "ver": "1",
        "t": "CANDLE",
        "coin": COIN,
        "interval": "1m",
        "startTs": str(start_ms),
        "o": "1.5",
        "h": "2",
        "l": "1",
        "c": close,
        "v": "123.45",
        "isClosed": closed,
        "eventTs": str(now_ms()),
    }


def trade(ts: int, price: str) -> dict[str, str]:
    head = {"ver": "1", "t": "TRADE", "coin": COIN, "ts": str(ts)}
    return head | {"px": price, "sz": "0.12", "side": "B", "eventTs": str(ts)}


async def knows(house: Apart) -> bool:
    async with Artery(house.url, house.key) as client:
        return ("external", COIN) in {(row["provider"], row["coin"]) for row in await client.markets()}


async def told_of_a_closed_candle(house: Apart, plain: Any, minute: int) -> Candle:
    """What the WebSocket says of the candle, which is closed only once somebody listens."""
    async with asyncio.timeout(60), Artery(house.url, house.key) as client:
        async for event in client.stream(f"EXTERNAL:{COIN}", types=["CANDLE:1m"]):
            if isinstance(event, Candle) and event.closed:
                return event
            if isinstance(event, Candle):
                write(plain, "candle", candle(minute, "1.75", closed="true"))
    raise AssertionError("the stream ended")


async def charted(house: Apart, minute: int) -> list[list[Any]]:
    """The candle as the chart asks for it."""
    params = {"provider": "external", "market": COIN, "interval": "1m", "start": str(minute)}
    async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {house.key}"}) as http:
        answer = (await http.get(f"{house.url}/v1/history", params=params)).raise_for_status().json()
    return [[row["c"], row["closed"]] for row in answer["candles"]]


async def stored(house: Apart, minute: int) -> bool:
    lake = Lake(house.folder / "sim")
    rows = await asyncio.to_thread(lake.candles, f"EXTERNAL:{COIN}", 60, minute, minute + 1)
    trades = await asyncio.to_thread(lake.trades, f"EXTERNAL:{COIN}", minute, minute + 2)
    found = [(str(row["close"].normalize()), row["closed"]) for row in rows.to_pylist()]
    return found == [("1.75", True)] and trades.num_rows == 1


async def read_ours(plain: Any) -> None:
    """A group of the plain client is given our candles, with every field that it knows, and acks them."""
    stream, group = "md_stream:candle", "cg_seed_candle"
    plain.xgroup_create(stream, group, id="0")
    given = plain.xreadgroup(group, "worker-1", {stream: ">"}, count=1_000)[0][1]
    ours = [fields for _, fields in given if fields["coin"] in ("BTC", "ETH")]
    assert ours
    assert all(set(fields) >= CANDLE_FIELDS for fields in ours)
    assert plain.xack(stream, group, *(id_ for id_, _ in given)) == len(given)
    assert plain.xpending(stream, group)["pending"] == 0


class Producer:
    """A plain client that goes on while the server comes and goes; it keeps what was acknowledged."""

    def __init__(self, house: Apart) -> None:
        self.acked: list[str] = []
        self._house = house
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._house.plain() as plain:
            number = 0
            while not self._stop.wait(0.02):
                number += 1
                try:
                    self.acked.append(write(plain, "trade", trade(now_ms(), f"{number}.5")))
                except redis.RedisError:
                    continue

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


async def test_a_server_that_is_killed_and_comes_back_costs_nothing_that_was_acknowledged(house: Apart) -> None:
    await open_gateway(house)
    services = [service for service in house.services if service.runs()]
    producer = Producer(house)
    try:
        await until("some entries", lambda: enough(producer, 20))
        before = await ledger.read_log(house.server.url)
        house.server.kill()
        await asyncio.sleep(2.0)  # the time that it is away, and everyone notices
        house.server.start()
        back_ms, count = now_ms(), len(producer.acked)
        watcher = Watcher(house)
        await watcher.until_trade(back_ms)
        await watcher.stop()
        await until("some more entries", lambda: enough(producer, count + 20))
    finally:
        producer.stop()
    assert all(service.runs() for service in services), "everyone has waited"
    lake = Lake(house.folder / "sim")
    await until("the lake past all of it", lambda: committed(lake, producer.acked[-1]), within_s=SPARK_S)

    after = await ledger.read_log(house.server.url)
    names = [(trade.coin, trade.ts, trade.tid) for trade in after.trades]
    assert names[: len(before.trades)] == [(trade.coin, trade.ts, trade.tid) for trade in before.trades]
    assert len(names) == len(set(names)), "the bus holds a trade twice"
    assert set(producer.acked) <= {trade.tid for trade in after.trades if trade.provider == "external"}
    kept = ledger.lake_trades(lake, ["BTC", "ETH"]) + ledger.lake_trades(lake, [COIN], "external")
    assert max(kept.values()) == 1, "the lake holds a trade twice"
    assert {name for name in names if name[1] < back_ms} <= set(kept), "the lake lacks a trade of the bus"
    assert {(COIN, id_) for id_ in producer.acked} <= {(coin, tid) for coin, _, tid in kept}
    assert set(kept) <= set(names), "the lake holds a trade that the bus never had"
    assert "Traceback" not in house.said()


async def enough(producer: Producer, count: int) -> bool:
    return len(producer.acked) >= count


async def committed(lake: Lake, position: str) -> bool:
    return place((await asyncio.to_thread(lake.positions))["trade"]) >= place(position)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
