"""The SDK's client of the relay: it brings history, hears the market, and survives a relay that goes away."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artery.client import Artery
from artery.client.frames import Gap
from artery.client.relay import Progress, Relay
from artery.client.relayed import Candles, Ticks
from artery.errors import BadInput, Unavailable
from artery.lake.catalog import ensure_tables, open_catalog
from artery.lake.reads import Lake
from artery.lake.tables import OHLC as LAKE_OHLC
from artery.model.channels import Channel
from artery.model.events import Candle, Trade
from artery.wire import messages, requests
from artery.wire.artery_pb2 import OHLC, HistoryReadyNotification, Tick
from tests.lake.test_reads import MINUTE, NOON, append, candle
from tests.relay.conftest import House, Peer, soon, until

Ready = HistoryReadyNotification


def client(house: House) -> Relay:
    return Relay(house.where.requests, house.where.clients)


async def outcome_of(house: House, request_id: str, status: "Ready.Status" = Ready.READY) -> Ready:
    """What the pipeline does at the end of a request, on the store's side."""

    async def record() -> requests.Record | None:
        return requests.read_record(await house.store.get(requests.key(request_id)))

    known = await until(record, "the request is known")
    request = known.request
    outcome = Ready(request_id=request_id, client_id=request.client_id, status=status, rows=7, error="why")
    done = requests.Record(known.asked, "done", progress=1_000, outcome=requests.text(outcome))
    await house.store.put(requests.key(request_id), requests.write_record(done))
    return outcome


async def processor_says(processor: Peer, topic: str, message: object) -> None:
    while (await processor.receive())[0] != b"\x01" + topic.encode():
        continue
    await processor.send(*messages.publish(topic, message))  # type: ignore[arg-type]


async def test_history_is_fetched_and_the_outcome_heard(house: House) -> None:
    await house.ingestor()
    processor = house.processor()
    async with client(house) as relay:
        task = asyncio.create_task(relay.fetch("SIM:BTC", "1m", since="1h", request_id="r1"))
        topic = (await processor.receive())[0][1:].decode()
        assert topic.startswith("RESPONSE:py-")
        await until(lambda: house.bus.read("request"), "the request is on the bus")
        outcome = Ready(request_id="r1", status=Ready.READY, rows=60)
        await processor.send(*messages.publish(topic, outcome))
        assert await soon(task) == outcome


async def test_two_first_requests_at_once_subscribe_once_and_leave_nothing(house: House) -> None:
    await house.ingestor()
    processor = house.processor()
    async with client(house) as relay:
        tasks = [asyncio.create_task(relay.fetch("SIM:BTC", "1m", "1h", request_id=name)) for name in ("r1", "r2")]
        for name, task in zip(("r1", "r2"), tasks, strict=True):
            assert await outcome_of(house, name) == await soon(task)
    heard = [(await processor.receive())[0] for _ in range(2)]
    assert [frame[:10] for frame in heard] == [b"\x01RESPONSE:", b"\x00RESPONSE:"]


async def test_an_outcome_that_nobody_heard_is_asked_for(house: House) -> None:
    await house.ingestor()
    seen: list[Progress] = []
    async with client(house) as relay:
        task = asyncio.create_task(relay.fetch("SIM:BTC", "1m", "1h", request_id="r1", progress=seen.append))
        outcome = await outcome_of(house, "r1")
        assert await soon(task) == outcome
    assert seen[-1].state == "done"


async def test_an_error_of_the_venue_and_a_bad_request_are_raised(house: House) -> None:
    await house.ingestor()
    async with client(house) as relay:
        with pytest.raises(BadInput, match="nobody here knows"):
            await soon(relay.fetch("SIM:NOBODY"))
        task = asyncio.create_task(relay.fetch("SIM:BTC", request_id="r1"))
        await outcome_of(house, "r1", Ready.ERROR)
        with pytest.raises(Unavailable, match="why"):
            await soon(task)


async def test_without_a_relay_the_client_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artery.client.relay.SUBMIT_S", 0.2)
    monkeypatch.setattr("artery.client.relay.ANSWER_S", 0.1)
    async with Relay("tcp://127.0.0.1:9", "tcp://127.0.0.1:9") as relay:
        with pytest.raises(Unavailable, match="no relay answers"):
            await relay.fetch("SIM:BTC")
        with pytest.raises(Unavailable, match="no relay answers"):
            await relay.status("r1")


async def test_ticks_and_candles_come_as_trades_and_candles(house: House) -> None:
    processor = house.processor()
    async with client(house) as relay:
        ticks, candles = relay.ticks("SIM:BTC"), relay.candles("SIM:BTC", "1m")
        first = asyncio.ensure_future(anext(ticks))
        tick = Tick(ticker="SIM:BTC", ts_ms=5, trade_id="1", price="1.5", size="2", side="S", epoch=1, seq=1)
        await processor_says(processor, "SIM:BTC|tick|", tick)
        trade = await soon(first)
        assert isinstance(trade, Trade)
        assert (str(trade.px), trade.side, trade.position.seq) == ("1.5", "S", 1)
        second = asyncio.ensure_future(anext(candles))
        candle = OHLC(
            ticker="SIM:BTC", period_s=60, start_ms=60_000, open="1", high="2", low="1", close="2", volume="3"
        )
        await processor_says(processor, "SIM:BTC|ohlc:60|", candle)
        found = await soon(second)
        assert isinstance(found, Candle)
        assert (str(found.period), found.start_ts, str(found.c)) == ("1m", 60_000, "2")
        await ticks.aclose()  # type: ignore[attr-defined]
        await candles.aclose()  # type: ignore[attr-defined]


def test_a_lost_tick_is_a_gap_and_a_repeated_one_is_nothing() -> None:
    order, market = Ticks(Channel("sim", "BTC")), Channel("sim", "BTC")

    def take(epoch: int, seq: int) -> list[Trade | Gap]:
        return list(order.take(Tick(price="1", size="1", side="B", epoch=epoch, seq=seq, ts_ms=seq)))

    assert [type(item) for item in take(1, 1)] == [Trade]
    assert take(1, 1) == []
    assert [type(item) for item in take(1, 2)] == [Trade]
    gap, trade = take(1, 5)
    assert gap == Gap(market, "TRADE", "missed", "1.2.2", "1.5.5", 2, 5)
    assert isinstance(trade, Trade)
    assert [type(item) for item in take(2, 1)] == [Gap, Trade], "a new epoch may have lost the end of the old one"


def test_a_lost_candle_is_a_gap_of_its_time_and_a_repeated_one_is_nothing() -> None:
    order, market = Candles(Channel("sim", "BTC")), Channel("sim", "BTC")

    def take(epoch: int, seq: int, minute: int) -> list[Candle | Gap]:
        prices = dict.fromkeys(("open", "high", "low", "close", "volume"), "1")
        return list(order.take(OHLC(period_s=60, start_ms=minute * MINUTE, epoch=epoch, seq=seq, **prices)))

    assert [type(item) for item in take(1, 1, 5)] == [Candle]
    assert take(1, 1, 5) == []
    assert [type(item) for item in take(1, 2, 5)] == [Candle]
    gap, found = take(1, 5, 7)
    assert gap == Gap(market, "CANDLE:1m", "missed", "1.2.300000", "1.5.420000", 5 * MINUTE, 8 * MINUTE)
    assert isinstance(found, Candle)
    gap, _ = take(2, 1, 3)
    assert isinstance(gap, Gap)
    assert (gap.from_ms, gap.to_ms) == (3 * MINUTE, 8 * MINUTE), "a new epoch; a correction is of an older time"


async def fetched(house: House, folder: Path, **said: Any) -> Any:
    """History that is fetched and read from a lake of four candles, at the snapshot that has three of them."""
    await house.ingestor()
    await asyncio.to_thread(folder.mkdir)
    ensure_tables(open_catalog(folder))
    append(folder, LAKE_OHLC, [candle("SIM:BTC", NOON + number * MINUTE) for number in range(3)])
    snapshot_id = Lake(folder).snapshot("ohlc")
    append(folder, LAKE_OHLC, [candle("SIM:BTC", NOON + 3 * MINUTE)])
    urls = (house.where.requests, house.where.clients)
    async with Artery("http://127.0.0.1:9", "a key", relay=urls, lake=folder) as artery:
        reading = asyncio.create_task(artery.history("SIM:BTC", "1m", NOON, NOON + 10 * MINUTE, fetch=True))
        (entry,) = await until(lambda: house.bus.read("request"), "the request is on the bus")
        asked = requests.decode(entry.fields)
        outcome = Ready(
            request_id=asked.request_id, client_id=asked.client_id, ticker="SIM:BTC", period_s=60, start_ms=NOON,
            end_ms=NOON + 10 * MINUTE, rows=3, snapshot_id=snapshot_id, **said,
        )  # fmt: skip
        done = requests.Record(requests.text(asked), "done", outcome=requests.text(outcome))
        await house.store.put(requests.key(asked.request_id), requests.write_record(done))
        return await soon(reading)


async def test_with_a_lake_fetched_history_is_read_at_the_snapshot_that_was_announced(
    house: House, tmp_path: Path
) -> None:
    table = await fetched(house, tmp_path / "lake", status=Ready.READY)
    assert table.schema.names == ["start", "o", "h", "l", "c", "v", "n", "closed", "rev"]
    assert table.column("start").to_pylist() == [NOON + number * MINUTE for number in range(3)]


async def test_history_of_which_only_a_part_could_be_fetched_comes_with_a_warning(house: House, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="only a part of it could be fetched.*the venue is away"):
        table = await fetched(house, tmp_path / "lake", status=Ready.PARTIAL, error="the venue is away")
    assert table.num_rows == 3
