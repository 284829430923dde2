"""The stream bus's library: publish as the seed does, and read what others publish."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import redis

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.client.bus import StreamBus, StreamBusConsumer, decode_stream_event
from artery.client.bus_fields import to_publish
from artery.errors import BadEvent, BadInput, Unavailable
from artery.model.events import Book, Candle, Clock, Mids, Trade
from artery.model.periods import Period
from tests.client.logs import CANDLE, Log, consumer, published
from tests.servers import RedisServer, free_port

TRADE = {
    "t": "TRADE", "coin": "BTC", "ts": 1_730_000_000_789, "px": "43255", "sz": "0.12", "side": "B",
    "eventTs": 1_730_000_000_800,
}  # fmt: skip
BOOK = {
    "t": "BOOK_TOPN", "coin": "BTC", "depth": 20, "bids": [["43250", "1.23"], [43240, 0.98]],
    "asks": [("43260", Decimal("1.01"))], "eventTs": 1_730_000_000_567,
}  # fmt: skip


async def test_the_seeds_example_reaches_its_stream_as_the_seed_writes_it(log: Log, bus: Bus) -> None:
    producer = StreamBus(*log)
    await producer.connect()
    position = await producer.publish(CANDLE)
    await producer.close()
    [entry] = await bus.read("candle")
    assert entry.id == position
    assert entry.fields == {
        "ver": "1", "t": "CANDLE", "coin": "BTC", "interval": "1m", "startTs": "1730000040000", "o": "43210",
        "h": "43280", "l": "43190", "c": "43250", "v": "123.45", "isClosed": "false", "eventTs": "1730000040456",
    }  # fmt: skip


async def test_every_type_of_event_goes_to_its_own_stream(log: Log, bus: Bus) -> None:
    model = Trade(provider="sim", event_ts=5, epoch=3, seq=1, coin="ETH", ts=4, tid="9", px=Decimal(2), sz=Decimal(1),
                  side="S")  # fmt: skip
    async with StreamBus(*log) as producer:
        for event in (TRADE, BOOK, CANDLE, model, Clock(provider="sim", epoch=3, ts=9)):
            await producer.publish(event)
    assert [entry.fields["coin"] for entry in await bus.read("trade")] == ["BTC", "ETH"]
    assert [entry.fields["t"] for entry in await bus.read("feed")] == ["CLOCK"]
    [book] = await bus.read("book")
    assert book.fields["bids"] == '[["43250","1.23"],["43240","0.98"]]'
    assert decode_stream_event((await bus.read("trade"))[1]) == model


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"t": "MIDS"}, "t must be one of"),
        ({"ver": "2"}, "version"),
        ({"isClosed": 1}, "isClosed must be true or false"),
        ({"o": math.nan}, "o must be a number"),
        ({"h": 1e300}, "h must be a number"),
        ({"v": None}, "v must be text, a number"),
        ({"c": {"x": 1}}, "c must be text, a number"),
        ({"startTs": 1_730_000_040_001}, "not a multiple"),
        ({"eventTs": "soon"}, "eventTs"),
        ({str(n): "x" for n in range(200)}, "at most 100 fields"),
    ],
)
async def test_what_is_no_event_is_refused_and_not_written(change: dict[str, Any], why: str, tmp_path: Path) -> None:
    async with StreamBus(f"sqlite:///{tmp_path}/bus.db") as producer:
        with pytest.raises(BadEvent, match=why):
            await producer.publish(CANDLE | change)
        with pytest.raises(BadEvent, match="t must be one of"):
            await producer.publish(Mids(provider="sim", event_ts=1, mids={}))
    bus = open_bus(f"sqlite:///{tmp_path}/bus.db")
    assert await bus.streams() == []
    await bus.close()


@pytest.mark.parametrize(
    ("value", "text"), [(0.000001, "0.000001"), (43255, "43255"), (1e-9, "0.000000001"), (Decimal("1.50"), "1.5")]
)
def test_numbers_are_written_exactly_and_without_exponents(value: object, text: str) -> None:
    assert to_publish(TRADE | {"px": value})[1]["px"] == text


def test_a_foreign_trade_is_named_by_its_fields_where_nothing_else_names_it() -> None:
    fields = {"ver": "1"} | {name: str(value) for name, value in TRADE.items()}
    first, second = decode_stream_event(fields), decode_stream_event(dict(reversed(fields.items())))
    other = decode_stream_event(fields | {"sz": "0.13"})
    assert isinstance(first, Trade)
    assert isinstance(other, Trade)
    assert first == second
    assert first.tid != other.tid
    assert decode_stream_event(fields | {"side": "X"}) is None
    assert decode_stream_event({}) is None


async def test_the_low_level_calls_work_as_in_the_seed(log: Log) -> None:
    await published(log, "A", "B", "C")
    async with consumer(log) as mine:
        await mine.ensure_group("candle")
        assert await mine.read_pending("candle", 100) == []
        fresh = await mine.read_new("candle", 2, 10)
        assert [decode_stream_event(entry.fields).coin for entry in fresh] == ["A", "B"]  # type: ignore[union-attr]
        assert await mine.ack("candle", fresh[0].id) == 1
        assert [entry.id for entry in await mine.read_pending("candle", 100)] == [fresh[1].id]
        assert await mine.ack("candle", [fresh[1].id]) == 1
        assert len(await mine.read_new("candle", 100, 2_000)) == 1


async def test_a_stream_without_events_cannot_be_looped_over(tmp_path: Path) -> None:
    async with consumer(Log(f"sqlite:///{tmp_path}/bus.db")) as mine:
        with pytest.raises(BadInput, match="there are trade, book, candle, feed"):
            await anext(mine.events("history"))


async def test_without_a_connection_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="await connect"):
        await StreamBus(f"sqlite:///{tmp_path}/bus.db").publish(TRADE)
    with pytest.raises(Unavailable, match="await connect"):
        await consumer(Log(f"sqlite:///{tmp_path}/bus.db")).read_new("candle")
    with pytest.raises(Unavailable, match="nothing listens there"):
        await consumer(Log(f"redis://127.0.0.1:{free_port()}")).connect()


async def test_plain_redis_clients_and_the_library_share_streams_and_groups(server: RedisServer) -> None:
    url = server.new_url()
    with redis.Redis.from_url(url, decode_responses=True) as plain:
        plain.xadd("md_stream:book", {"ver": "1"} | {name: str(value) for name, value in BOOK.items()}
                   | {"bids": '[["43250","1.23"]]', "asks": "[]"})  # fmt: skip
        async with StreamBusConsumer(url, "md_stream", "cg_plain_book", "one") as mine:
            [event] = [event async for event in mine.events("book", limit=1)]
            assert isinstance(event, Book)
            assert (event.provider, event.bids) == ("external", ((Decimal(43250), Decimal("1.23")),))
        async with StreamBus(url) as producer:
            await producer.publish(CANDLE)
        plain.xgroup_create("md_stream:candle", "cg_plain", "0")
        [[_, [(_, fields)]]] = plain.xreadgroup("cg_plain", "one", {"md_stream:candle": ">"})
        assert (fields["isClosed"], fields["startTs"]) == ("false", "1730000040000")


def test_a_period_of_the_seed_is_understood() -> None:
    event = decode_stream_event({name: str(value).lower() if isinstance(value, bool) else str(value)
                                 for name, value in CANDLE.items()} | {"ver": "1"})  # fmt: skip
    assert isinstance(event, Candle)
    assert event.period == Period.parse("1m")
