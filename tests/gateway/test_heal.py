"""What pub/sub loses comes from the bus before what follows it; what is nowhere is said; no other series waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from websockets.asyncio.client import ClientConnection

from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.gateway.frames import Batch
from artery.gateway.heal import Bounds, Healer
from artery.gateway.hub import Hub
from artery.gateway.past import Past
from artery.lake.reads import Lake
from artery.live.base import Message
from artery.live.memory import MemoryPubSub
from artery.model import codec
from artery.model.events import Book, Trade
from tests.gateway.made import BTC, ETH, book, message, trade
from tests.gateway.running import Running, hear, started, subscribe, until
from tests.servers import RedisServer


class Watcher:
    """Whoever watches a hub; keeps (series, position) of events and (reason, from, to) of gaps."""

    def __init__(self, hub: Hub, *channels: str) -> None:
        self.seen: list[tuple[str, str]] = []
        for channel in channels:
            hub.join(self, channel, frozenset(("TRADE", "BOOK_TOPN")))

    def deliver(self, batch: Batch) -> None:
        self.seen += [("gap" if frame.gap else frame.series, frame.position) for frame in batch.frames]

    def places(self, series: str = "TRADE") -> list[str]:
        return [position for name, position in self.seen if name in (series, "gap")]


class Ward:
    """A healer between a real bus and a hub that somebody watches."""

    def __init__(self, bus: Bus, folder: Path, bounds: Bounds) -> None:
        self.bus, self.hub = bus, Hub()
        self.watcher = Watcher(self.hub, BTC, ETH)
        self.healer = Healer(self.hub, Past(bus, Lake(folder), page=50), bounds)

    async def write(self, *events: Trade | Book) -> None:
        for stream, kind in (("trade", Trade), ("book", Book)):
            found = [codec.encode(event) for event in events if isinstance(event, kind)]
            if found:
                await self.bus.append(stream, found)

    def bring(self, *events: Trade | Book) -> None:
        self.healer.accept([message(event) for event in events])


@pytest.fixture
async def ward(tmp_path: Path) -> AsyncIterator[Ward]:
    async with warded(tmp_path) as made:
        yield made


@asynccontextmanager
async def warded(folder: Path, bounds: Bounds = Bounds()) -> AsyncIterator[Ward]:  # noqa: B008 (frozen)
    bus = open_bus(f"sqlite:///{folder}/bus.db")
    made = Ward(bus, folder, bounds)
    try:
        yield made
    finally:
        made.healer.close()
        await bus.close()


def positions(*events: Trade | Book) -> list[str]:
    return [str(event.position) for event in events]


async def test_lost_events_come_from_the_bus_before_what_follows(ward: Ward) -> None:
    made = [trade(n) for n in range(1, 501)]
    await ward.write(*made)
    ward.bring(*made[:100])
    ward.bring(*made[400:450])
    ward.bring(*made[450:])
    await until(lambda: len(ward.watcher.seen) == 500)
    assert ward.watcher.places() == positions(*made)


async def test_other_series_do_not_wait(ward: Ward) -> None:
    await ward.write(*[trade(n) for n in range(1, 6)])
    ward.bring(trade(1), trade(5), trade(1, coin="ETH"), book(1))
    assert sorted(ward.watcher.seen) == sorted(
        [("TRADE", str(trade(1).position)), ("TRADE", str(trade(1).position)), ("BOOK_TOPN", str(book(1).position))]
    )
    await until(lambda: len(ward.watcher.seen) == 7)


async def test_books_are_healed_as_trades_are(ward: Ward) -> None:
    made = [book(n) for n in range(1, 31)]
    await ward.write(*made)
    ward.bring(made[0], made[29])
    await until(lambda: len(ward.watcher.seen) == 30)
    assert ward.watcher.places("BOOK_TOPN") == positions(*made)


async def test_the_end_of_an_epoch_that_was_lost_is_healed_when_the_next_begins(ward: Ward) -> None:
    made = [trade(n) for n in range(1, 21)] + [trade(n, epoch=2, ts=trade(30 + n).ts) for n in range(1, 6)]
    await ward.write(*made)
    ward.bring(*made[:10])
    ward.bring(*made[22:])
    await until(lambda: len(ward.watcher.seen) >= 26)
    events = [position for name, position in ward.watcher.seen if name == "TRADE"]
    assert events == positions(*made)
    assert ward.watcher.seen[20] == ("gap", f"2.0.{made[20].event_ts}")  # the change of leaders


async def test_what_the_bus_lacks_is_a_gap(ward: Ward) -> None:
    await ward.write(*[trade(n) for n in range(1, 21)])
    await ward.bus.trim("trade", keep=3)
    ward.bring(trade(1), trade(20))
    await until(lambda: len(ward.watcher.seen) == 3)
    assert [name for name, _ in ward.watcher.seen] == ["TRADE", "gap", "TRADE"]
    assert ward.watcher.seen[1][1].startswith("1.19.")


async def test_the_lost_end_of_an_epoch_that_is_nowhere_is_a_gap_though_a_mark_was_said(ward: Ward) -> None:
    ward.hub.note_epoch("sim", 2)  # the mark of the new leader
    await ward.write(trade(1, epoch=2))
    ward.bring(trade(1))
    ward.bring(trade(1, epoch=2))
    await until(lambda: len(ward.watcher.seen) == 3)
    assert [name for name, _ in ward.watcher.seen] == ["TRADE", "gap", "TRADE"]


async def test_a_series_waits_within_bounds_of_time_and_count(tmp_path: Path) -> None:
    for bounds in (Bounds(wait_s=0.0), Bounds(held_events=5)):
        folder = tmp_path / str(bounds.held_events)
        folder.mkdir()
        async with warded(folder, bounds) as ward:
            made = [trade(n) for n in range(1, 31)]
            await ward.write(*made)
            ward.bring(made[0], *made[10:])
            await until(lambda: len(ward.watcher.seen) == 22)
            assert ward.watcher.places() == [*positions(made[0]), str(made[9].position)[:5] + str(made[10].event_ts),
                                             *positions(*made[10:])]  # fmt: skip
            ward.bring(trade(31))
            await until(lambda: ward.watcher.seen[-1] == ("TRADE", str(trade(31).position)))
            assert len(ward.watcher.seen) == 23


async def test_what_repeats_passes_once_and_holds_nothing_up(ward: Ward) -> None:
    await ward.write(*[trade(n) for n in range(1, 4)])
    ward.bring(trade(1), trade(2), trade(2), trade(1), trade(3))
    assert ward.watcher.places() == positions(trade(1), trade(2), trade(3))


async def test_a_last_event_that_nothing_follows_is_found(tmp_path: Path) -> None:
    async with warded(tmp_path, Bounds(audit_s=0.05)) as ward:
        await ward.write(trade(1), trade(1, coin="ETH"))
        ward.bring(trade(1))
        audit = asyncio.create_task(ward.healer.audit())
        try:
            made = trade(2), trade(3), trade(2, coin="ETH"), trade(3, coin="ETH")
            await until(lambda: ward.healer.compared("trade"))  # what is older is the past
            await ward.write(*made)
            await until(lambda: len(ward.watcher.seen) == 5)
        finally:
            audit.cancel()
        assert sorted(ward.watcher.places()) == sorted(positions(trade(1), *made))


class Leaky(MemoryPubSub):
    """Pub/sub that loses what it is told to lose, as one over a network does."""

    def __init__(self) -> None:
        super().__init__()
        self.loses: set[str] = set()

    async def publish(self, messages: Any) -> None:
        await super().publish([each for each in messages if each.position not in self.loses])


async def heard(socket: ClientConnection, last: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    while not found or found[-1] != ("event", last):
        item = await hear(socket)
        found.append((item["type"], int(item.get("data", {}).get("seq", 0))))
    return found


async def test_a_client_sees_every_event_in_order_though_pub_sub_loses_many(tmp_path: Path) -> None:
    leaky = Leaky()
    made = [trade(n) for n in range(1, 1_001)]
    leaky.loses = {str(each.position) for each in made if each.seq % 7 in (2, 3) or 400 < each.seq < 700}
    async with started(tmp_path, pubsub=leaky) as running, running.connect() as socket:
        await subscribe(socket, {"channel": BTC, "types": ["TRADE"]})
        for at in range(0, len(made), 50):
            await running.append("trade", *made[at : at + 50])
            await running.publish(*made[at : at + 50])
        assert await heard(socket, 1_000) == [("event", n) for n in range(1, 1_001)]


async def test_a_full_queue_of_pub_sub_is_healed(tmp_path: Path) -> None:
    async with started(tmp_path, pubsub=MemoryPubSub(queue_max=10)) as running, running.connect() as socket:
        await subscribe(socket, {"channel": BTC, "types": ["TRADE"]})
        made = [trade(n) for n in range(1, 301)]
        await put_all(running, made)
        assert await heard(socket, 300) == [("event", n) for n in range(1, 301)]


async def put_all(running: Running, made: list[Trade]) -> None:
    await running.append("trade", made[0])
    await running.publish(made[0])
    await until(lambda: running.gateway.hub.place(BTC, "TRADE"))
    await running.append("trade", *made[1:])
    await running.publish(*made[1:])


def test_a_message_without_a_place_passes() -> None:
    hub = Hub()
    watcher = Watcher(hub, BTC)

    async def bring() -> None:
        healer = Healer(hub, Past(open_bus("sqlite:////nonexistent/x.db"), Lake(Path("/nonexistent"))))
        healer.accept([Message(BTC, "TRADE", "", b"{}"), Message(BTC, "MIDS", "1.5.1", b"{}")])

    asyncio.run(bring())
    assert watcher.seen == [("TRADE", "")]


@pytest.mark.parametrize("garbage", ["x", "1", "1.x", "1.2.x", "1.2", "..", "1.٣.2", "1." + "9" * 5_000 + ".1"])
async def test_a_place_that_is_none_ends_nothing_and_costs_nobody_an_event(ward: Ward, garbage: str) -> None:
    await ward.write(*[trade(n) for n in range(1, 6)])
    ward.bring(trade(1))
    ward.healer.accept([Message(BTC, "TRADE", garbage, b"{}")])
    ward.bring(trade(2), trade(3), trade(5))
    await until(lambda: ward.watcher.seen[-1][1] == str(trade(5).position))
    assert [at for at in ward.watcher.places() if at != garbage] == [str(trade(n).position) for n in range(1, 6)]


async def test_redis_that_cuts_its_subscribers_costs_nobody_an_event(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis").start()
    try:
        async with started(tmp_path / "data", live={"url": server.url}) as running, running.connect() as socket:
            await subscribe(socket, {"channel": BTC, "types": ["TRADE"]})
            await put_all(running, [trade(n) for n in range(1, 11)])
            with redis.Redis.from_url(server.url) as admin:
                for at in range(11, 101, 10):
                    made = [trade(n) for n in range(at, at + 10)]
                    await running.append("trade", *made)
                    await asyncio.to_thread(admin.execute_command, "CLIENT", "KILL", "TYPE", "pubsub")
                    await running.publish(*made)
            assert await heard(socket, 100) == [("event", n) for n in range(1, 101)]
    finally:
        server.end()
