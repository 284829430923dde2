"""Who knows only the streams' names and fields works together with us; what such clients trim is found out."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis

from artery.bus import redis_groups
from artery.bus.base import START, Entry
from artery.bus.redis import RedisBus
from artery.errors import PositionLost
from artery.model.codec import decode
from artery.model.events import Trade
from tests.servers import RedisServer

G = "cg_storage_trade"
TRADE: dict[Any, Any] = {
    "ver": "1",
    "t": "TRADE",
    "coin": "BTC",
    "ts": "1730000000789",
    "px": "43255",
    "sz": "0.12",
    "side": "B",
    "eventTs": "1730000000800",
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made.start()
    made.end()


@pytest.fixture
def url(server: RedisServer) -> str:
    return server.new_url()


@pytest.fixture
async def bus(url: str) -> AsyncIterator[RedisBus]:
    made = RedisBus(url)
    yield made
    await made.close()


@pytest.fixture
def plain(url: str) -> Iterator[Any]:
    with redis.Redis.from_url(url, decode_responses=True, protocol=2) as client:
        yield client


def fill(plain: Any, count: int, start: int = 0) -> list[str]:
    """Entries of different milliseconds, as a plain client may write them."""
    return [plain.xadd("md_stream:trade", {"n": str(n)}, id=f"{1_000 + 10 * n}-0") for n in range(start, start + count)]


async def test_what_a_plain_client_wrote_is_read_and_decoded(bus: RedisBus, plain: Any) -> None:
    id_ = plain.xadd("md_stream:trade", TRADE, maxlen=500_000, approximate=True)
    (entry,) = await bus.read("trade")
    assert (entry.id, entry.fields) == (id_, TRADE)
    event = decode(entry.fields, entry_id=entry.id)
    assert isinstance(event, Trade)
    assert (event.provider, event.coin) == ("external", "BTC")


async def test_what_we_wrote_is_read_by_a_plain_client(bus: RedisBus, plain: Any) -> None:
    ids = await bus.append("trade", [TRADE, TRADE], writer="sim", epoch=3)
    assert plain.xrange("md_stream:trade") == [(id_, TRADE) for id_ in ids]


async def test_a_group_is_shared_with_a_plain_client(bus: RedisBus, plain: Any) -> None:
    plain.xgroup_create("md_stream:trade", G, id="0", mkstream=True)
    ids = await bus.append("trade", [{"n": str(n)} for n in range(9)])
    ours = await bus.read_new("trade", G, "ours", limit=3)
    theirs = plain.xreadgroup(G, "theirs", {"md_stream:trade": ">"}, count=3)[0][1]
    rest = await bus.read_new("trade", G, "ours")
    assert [entry.id for entry in ours] + [id_ for id_, _ in theirs] + [entry.id for entry in rest] == ids
    assert plain.xack("md_stream:trade", G, ids[3], ids[0]) == 2
    assert await bus.ack("trade", G, [ids[4], ids[1]]) == 2
    state = await bus.group("trade", G)
    assert (state.lag, state.pending, state.oldest_pending) == (0, 5, ids[2])
    claimed = await bus.claim("trade", G, "ours", idle_ms=0)
    assert [(entry.id, entry.tries) for entry in claimed] == [(ids[5], 2)]
    assert plain.xpending("md_stream:trade", G)["consumers"] == [{"name": "ours", "pending": 5}]


async def test_text_that_is_not_utf_8_does_no_harm(bus: RedisBus, plain: Any) -> None:
    plain.xadd("md_stream:trade", {b"n": b"\xff\xfe", b"coin": b"BTC"})
    (entry,) = await bus.read("trade")
    assert entry.fields == {"n": "\ufffd\ufffd", "coin": "BTC"}


async def test_a_position_that_a_plain_client_trimmed_is_lost_and_one_behind_it_is_not(
    bus: RedisBus, plain: Any
) -> None:
    ids = fill(plain, 50)
    plain.xtrim("md_stream:trade", maxlen=20, approximate=False)
    for position in (START, ids[0], ids[28]):
        with pytest.raises(PositionLost) as lost:
            await bus.read("trade", after=position)
        assert [entry.id for entry in await bus.read("trade", after=lost.value.first)] == ids[30:]
    assert [entry.id for entry in await bus.read("trade", after=ids[30])] == ids[31:]
    assert await bus.read("trade", after=ids[49]) == []


async def test_a_reader_at_the_edge_of_our_own_trim_loses_nothing(bus: RedisBus, plain: Any) -> None:
    ids = fill(plain, 50)
    await bus.trim("trade", keep=20)
    assert [entry.id for entry in await bus.read("trade", after=ids[29])] == ids[30:]
    with pytest.raises(PositionLost) as lost:
        await bus.read("trade", after=ids[28])
    assert lost.value.first == ids[29]
    assert await bus.find("trade", 1_295) == ids[29]
    assert await bus.find("trade", 1_290) == START
    plain.xtrim("md_stream:trade", maxlen=10, approximate=False)
    with pytest.raises(PositionLost):
        await bus.read("trade", after=ids[29])


async def test_a_group_is_told_once_what_a_plain_client_trimmed_unread(bus: RedisBus, plain: Any) -> None:
    ids = fill(plain, 50)
    await bus.ensure_group("trade", G)
    await bus.read_new("trade", G, "a", limit=10)
    plain.xtrim("md_stream:trade", maxlen=20, approximate=False)
    assert (await bus.group("trade", G)).lag == 20
    with pytest.raises(PositionLost):
        await bus.read_new("trade", G, "a", wait_ms=10_000)
    assert [entry.id for entry in await bus.read_new("trade", G, "a", limit=5)] == ids[30:35]
    assert (await bus.group("trade", G)).lag == 15
    vanished = await bus.read_pending("trade", G, "a", limit=3)
    assert [(entry.id, entry.fields) for entry in vanished] == [(id_, {}) for id_ in ids[:3]]
    vanished = await bus.claim("trade", G, "b", idle_ms=0, limit=12)
    assert [entry.id for entry in vanished] == [*ids[:10], *ids[30:32]]
    assert [bool(entry.fields) for entry in vanished] == [False] * 10 + [True] * 2
    await bus.dead_letter("trade", G, vanished[0], "vanished")
    assert await bus.ack("trade", G, [entry.id for entry in vanished]) == 11


async def test_a_group_whose_whole_stream_was_trimmed_is_told_once(bus: RedisBus, plain: Any) -> None:
    ids = fill(plain, 30)
    await bus.ensure_group("trade", G)
    plain.xtrim("md_stream:trade", maxlen=0, approximate=False)
    with pytest.raises(PositionLost) as lost:
        await bus.read_new("trade", G, "a")
    assert lost.value.first == ids[-1]
    assert await bus.read_new("trade", G, "a") == []
    fill(plain, 1, start=30)
    assert len(await bus.read_new("trade", G, "a")) == 1


async def test_a_position_that_no_entry_has_is_from_another_log(bus: RedisBus, plain: Any) -> None:
    ids = fill(plain, 20)
    with pytest.raises(PositionLost):  # as when the newest entries were lost and others took their place
        await bus.read("trade", after="1055-3")
    plain.xdel("md_stream:trade", ids[7])
    assert [entry.id for entry in await bus.read("trade", after=ids[7])] == ids[8:]


async def test_lag_is_exact_far_from_both_ends_and_after_foreign_trims(bus: RedisBus, plain: Any) -> None:
    ids = await bus.append("trade", [{"n": str(n)} for n in range(9_000)])
    await bus.ensure_group("trade", "near the end", start=ids[8_990])
    await bus.ensure_group("trade", "in the middle", start=ids[5_499])
    await bus.ensure_group("trade", "near the beginning", start=ids[9])
    await bus.ensure_group("trade", "at the beginning")

    async def lags() -> list[int]:
        states = {state.name: state.lag for state in await bus.groups("trade")}
        return [states[f"{where}"] for where in ("near the end", "in the middle", "near the beginning")] + [
            states["at the beginning"]
        ]

    assert await lags() == [9, 3_500, 8_990, 9_000]
    await bus.read_new("trade", "in the middle", "a", limit=700)
    ids += await bus.append("trade", [{"n": "new"}] * 10)
    assert await lags() == [19, 2_810, 9_000, 9_010]
    plain.xtrim("md_stream:trade", maxlen=4_000, approximate=False)
    assert await lags() == [19, 2_810, 4_000, 4_000]
    assert len(plain.xreadgroup("near the beginning", "b", {"md_stream:trade": ">"}, count=1_500)[0][1]) == 1_500
    assert await lags() == [19, 2_810, 2_500, 4_000]
    plain.xdel("md_stream:trade", ids[-5])
    assert await lags() == [18, 2_809, 2_499, 3_999]


async def test_a_consumer_long_gone_is_forgotten_unless_it_holds_something(
    bus: RedisBus, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def known() -> set[str]:
        await bus.ensure_group("trade", G)
        return {said["name"] for said in plain.xinfo_consumers("md_stream:trade", G)}

    await bus.ensure_group("trade", G)
    await bus.append("trade", [TRADE, TRADE])
    [done] = await bus.read_new("trade", G, "done", limit=1)
    [held] = await bus.read_new("trade", G, "holds", limit=1)
    await bus.ack("trade", G, [done.id])
    assert await known() == {"done", "holds"}
    monkeypatch.setattr(redis_groups, "FORGOTTEN_MS", 0)
    assert await known() == {"holds"}
    assert await bus.read_pending("trade", G, "holds") == [Entry(held.id, held.fields, 2)]


async def test_trimming_a_long_stream_takes_many_small_steps_and_is_exact(bus: RedisBus, plain: Any) -> None:
    for _ in range(6):
        await bus.append("trade", [{"n": "1"}] * 5_000)
    ids = [id_ for id_, _ in plain.xrange("md_stream:trade")]
    await bus.ensure_group("trade", G, start=ids[24_999])
    trimmed = await bus.trim("trade", keep=2_000, required=(G,))
    assert (trimmed.removed, trimmed.lost) == (25_000, 0)
    assert plain.xrange("md_stream:trade", count=1)[0][0] == ids[25_000]
    forced = await bus.trim("trade", keep=1_000, required=(G,), keep_at_most=3_000)
    assert (forced.removed, forced.lost) == (2_000, 2_000)
    assert [state.lost for state in await bus.streams()] == [2_000]
    assert plain.xlen("md_stream:trade") == 3_000
