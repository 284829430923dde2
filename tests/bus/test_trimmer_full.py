"""The trimmer where the server's memory is used up: nobody can write before something has gone."""

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import REGISTRY

from artery.bus import trimmer
from artery.bus.base import CAPS, DEAD, START, Trimmed
from artery.bus.losses import Losses
from artery.bus.reader import open_reader
from artery.bus.redis import RedisBus
from artery.bus.trimmer import STEP_MIN, run_trimmer, trim_all
from artery.errors import Unavailable
from artery.model import codec
from artery.model.events import Mark
from artery.store.redis_link import Link
from tests.servers import RedisServer

G = "cg_storage_trade"
COUNT = 20_000
MUCH_BYTES = 4_000_000
"""More than a few steps free."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made.start()
    made.end()


@pytest.fixture
async def bus(server: RedisServer) -> AsyncIterator[RedisBus]:
    made = RedisBus(server.url)
    yield made
    await made.close()


@asynccontextmanager
async def asked(server: RedisServer) -> AsyncIterator[Link]:
    link = Link(server.url, "ART_BUS_URL", text=True)
    yield link
    await link.close()


async def fill(server: RedisServer, bus: RedisBus, short_bytes: int = 50_000) -> None:
    """Give the server no more memory than it uses, so that it refuses the next write."""
    async with asked(server) as link:
        await link.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # with their buffers, which come and go
        said = await link.call("INFO", "memory")
        used, aside = (
            int(re.findall(rf"{name}:(\d+)", said)[0]) for name in ("used_memory", "mem_not_counted_for_evict")
        )
        await link.call("CONFIG", "SET", "maxmemory", used - aside - short_bytes)
    assert await bus.is_full()
    with pytest.raises(Unavailable, match="out of memory"):
        await bus.append("trade", trades(1))


def trades(count: int) -> list[dict[str, str]]:
    head = {"ver": "1", "t": "TRADE", "provider": "sim", "coin": "BTC", "epoch": "7", "side": "B", "px": "1", "sz": "1"}
    return [
        head | {"ts": str(1_000 + n), "eventTs": str(5_000 + n), "seq": str(n), "tid": f"{n:0100}"}
        for n in range(count)
    ]


def counted(name: str) -> float:
    return REGISTRY.get_sample_value(f"artery_bus_{name}_total", {"stream": "trade"}) or 0.0


async def length_and_lost(bus: RedisBus) -> tuple[int, int]:
    return next((state.length, state.lost) for state in await bus.streams() if state.name == "trade")


async def marked(bus: RedisBus) -> list[tuple[int, int]]:
    found = [codec.decode(entry.fields) for entry in await bus.read("feed")]
    return [(event.from_ms, event.to_ms) for event in found if isinstance(event, Mark)]


def reaches(spans: list[tuple[int, int]]) -> tuple[int, int]:
    """From where to where marks go, if there is no hole between them."""
    ordered = sorted(spans)
    assert all(one[1] >= other[0] for one, other in itertools.pairwise(ordered))
    return ordered[0][0], max(end for _, end in ordered)


class Trouble:
    """A bus over another, of which one call does all that it should and is not heard."""

    def __init__(self, bus: Any, call: str, number: int = 1) -> None:
        self._bus, self._call, self._left = bus, call, number

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._bus, name)
        return call if name != self._call else lambda *args, **more: self._unheard(call(*args, **more))

    async def _unheard(self, call: Any) -> Any:
        outcome, self._left = await call, self._left - 1
        if not self._left:
            raise Unavailable("the answer was lost")
        return outcome


async def test_a_full_server_writes_again_and_the_loss_is_counted_exactly_and_marked(
    server: RedisServer, bus: RedisBus
) -> None:
    await bus.ensure_group("trade", G)
    await bus.append("trade", trades(COUNT), writer="sim", epoch=7)
    await fill(server, bus)
    before = counted("lost")
    done = (await trim_all(bus))["trade"]
    assert 0 < done.lost == done.removed < COUNT / 4  # as little as makes it write again
    assert not await bus.is_full()
    assert await length_and_lost(bus) == (COUNT - done.lost, done.lost)
    assert counted("lost") == before + done.lost
    assert reaches(await marked(bus)) == (1_000, 1_000 + done.lost)
    await bus.append("trade", trades(1))


@pytest.mark.parametrize("call", ["is_full", "give_up", "streams"])
@pytest.mark.parametrize("number", [2, 3, 4])
async def test_whenever_relief_is_broken_off_every_loss_is_marked_and_counted(
    server: RedisServer, bus: RedisBus, call: str, number: int
) -> None:
    await bus.ensure_group("trade", G)
    await bus.append("trade", trades(COUNT), writer="sim", epoch=7)
    await fill(server, bus, short_bytes=MUCH_BYTES)
    before, unheard = counted("lost"), trimmer.Unheard()
    with pytest.raises(Unavailable, match="the answer was lost"):
        await trim_all(Trouble(bus, call, number), unheard=unheard)
    async with asked(server) as link:
        await link.call("CONFIG", "SET", "maxmemory", 0)
    _, lost = await length_and_lost(bus)
    spans = await marked(bus)
    assert (reaches(spans) if lost else spans) == ((1_000, 1_000 + lost) if lost else [])
    await trim_all(bus, unheard=unheard)
    assert counted("lost") == before + lost


async def test_what_is_given_up_in_vain_is_marked_too(
    server: RedisServer, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimmer, "STEPS_MAX", 3)
    await bus.ensure_group("trade", G)
    await bus.append("trade", trades(COUNT))
    await fill(server, bus, short_bytes=MUCH_BYTES)
    with pytest.raises(Unavailable, match="taking from the streams does not help"):
        await trim_all(bus)
    assert await length_and_lost(bus) == (COUNT - 3 * STEP_MIN, 3 * STEP_MIN)
    assert reaches(await marked(bus)) == (1_000, 1_000 + 3 * STEP_MIN)


async def test_two_trimmers_at_once_count_each_loss_once(server: RedisServer, bus: RedisBus) -> None:
    other = RedisBus(server.url)
    await bus.ensure_group("trade", G)
    await bus.append("trade", trades(COUNT))
    await fill(server, bus, short_bytes=400_000)
    before = counted("lost")
    await asyncio.gather(trim_all(bus), trim_all(other))
    _, lost = await length_and_lost(bus)
    assert counted("lost") == before + lost
    assert reaches(await marked(bus)) == (1_000, 1_000 + lost)
    await other.close()


async def test_what_a_reader_needs_that_has_never_run_is_a_loss_too(server: RedisServer, bus: RedisBus) -> None:
    await bus.append("trade", trades(COUNT))
    await fill(server, bus)
    done = (await trim_all(bus))["trade"]
    assert 0 < done.lost == done.removed
    assert await length_and_lost(bus) == (COUNT - done.lost, done.lost)
    assert reaches(await marked(bus)) == (1_000, 1_000 + done.lost)


async def test_dead_letters_go_before_what_a_reader_needs(server: RedisServer, bus: RedisBus) -> None:
    await bus.ensure_group("trade", G)
    await bus.append("trade", trades(COUNT))
    await bus.append(DEAD, trades(COUNT))
    await fill(server, bus)
    done = await trim_all(bus)
    assert list(done) == [DEAD]
    assert await length_and_lost(bus) == (COUNT, 0)


async def test_where_very_many_markets_lose_something_their_provider_is_marked(bus: RedisBus) -> None:
    await bus.append("trade", [entry | {"coin": f"C{entry['seq']}"} for entry in trades(300)])
    losses = Losses()
    losses.see(await bus.read("trade"))
    said = [(mark.coin, mark.from_ms, mark.to_ms) for mark in losses.marks({}, 1, "0", most=299)]
    assert said == [("", 1_000, 1_300)]
    assert len(losses.marks({}, 1, "0", most=300)) == 300


async def test_nothing_is_marked_where_nothing_is_left_to_go(bus: RedisBus) -> None:
    ids = await bus.append("trade", trades(3))
    marks = trades(1)
    assert await bus.give_up("trade", ids[1], marks, ["cg_never_made"]) == Trimmed(2, 2)
    assert await bus.give_up("trade", ids[1], marks, ["cg_never_made"]) == Trimmed(0, 0)
    assert len(await bus.read("feed")) == 1


async def test_a_full_server_gives_up_what_is_stored_before_what_is_not(server: RedisServer, bus: RedisBus) -> None:
    await bus.ensure_group("trade", G)
    await bus.ensure_group("candle", "cg_storage_candle")
    ids = await bus.append("trade", trades(COUNT))
    await bus.append("candle", trades(COUNT))
    await bus.ack_up_to("trade", G, ids[-1])
    await fill(server, bus)
    done = await trim_all(bus)
    assert {name: (one.removed > 0, one.lost) for name, one in done.items()} == {"trade": (True, 0)}
    assert await marked(bus) == []


async def test_a_stream_past_its_hard_cap_on_a_full_server_is_trimmed_and_marked(
    server: RedisServer, bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CAPS, "trade", 2_000)
    await bus.ensure_group("trade", G)
    await bus.append("trade", trades(COUNT))
    await fill(server, bus)
    await trim_all(bus)
    assert await length_and_lost(bus) == (8_000, COUNT - 8_000)
    spans = await marked(bus)
    assert (min(spans)[0], max(end for _, end in spans)) == (1_000, 1_000 + COUNT - 8_000)


async def test_a_server_that_is_full_is_not_left_so_until_the_next_minute(server: RedisServer, bus: RedisBus) -> None:
    await bus.ensure_group("trade", G)
    await bus.append("trade", trades(COUNT))
    task = asyncio.create_task(run_trimmer(bus, every_s=3_600))
    await asyncio.sleep(0.2)
    await fill(server, bus)
    deadline = time.monotonic() + 10
    while await bus.is_full():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await length_and_lost(bus))[1] >= STEP_MIN


async def test_a_full_server_still_gives_what_it_has_so_that_readers_can_catch_up(
    server: RedisServer, bus: RedisBus
) -> None:
    await bus.ensure_group("trade", G)
    ids = await bus.append("trade", trades(COUNT))
    await bus.read_new("trade", G, "me", limit=10)
    await fill(server, bus)
    assert [entry.id for entry in await bus.read("trade", limit=10)] == ids[:10]
    assert [entry.id for entry in await bus.read_pending("trade", G, "me")] == ids[:10]
    assert [entry.id for entry in await bus.read_new("trade", G, "me", limit=10)] == ids[10:20]
    assert await bus.ack("trade", G, ids[:20]) == 20
    assert (await bus.group("trade", G)).lag == COUNT - 20
    assert await bus.head("book") == START
    reader = open_reader(server.url)
    assert [position for position, _ in reader.read_raw("trade", START, 10)] == ids[:10]
    assert reader.head("book") == START
    reader.close()
