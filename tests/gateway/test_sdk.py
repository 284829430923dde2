"""The SDK's one iterator goes from the past into live, survives any cut and any gateway, and says what is missing."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from artery.client import Artery, Gap
from artery.client.frames import Event
from artery.errors import BadInput, NotAllowed, TooMuch, Unavailable
from artery.gateway import metrics
from artery.gateway.limits import Limits
from artery.model import codec
from artery.model.events import Candle, Trade
from artery.model.series import Position
from tests.gateway.made import BTC, T0, book, candle, trade
from tests.gateway.running import Running, started, until
from tests.gateway.test_history import store
from tests.servers import RedisServer

WAIT_S = 30


async def put(running: Running, first: int, last: int, **about: Any) -> None:
    made = [trade(n, **about) for n in range(first, last + 1)]
    await running.append("trade", *made)
    await running.publish(*made)


async def taken(stream: AsyncIterator[Event | Gap], last: int, epoch: int = 1) -> list[int | str]:
    """Seqs of trades up to `last`, and the reasons of gaps."""
    found: list[int | str] = []
    async with asyncio.timeout(WAIT_S):
        async for item in stream:
            if isinstance(item, Gap):
                found.append(item.reason)
            elif isinstance(item, Trade):
                found.append(item.seq)
                if (item.epoch, item.seq) >= (epoch, last):
                    break
    return found


@asynccontextmanager
async def client(*gateways: Running) -> AsyncIterator[Artery]:
    async with Artery([each.url for each in gateways], gateways[0].key) as made:
        yield made


@pytest.mark.parametrize("since", [trade(20).ts, datetime.fromtimestamp(trade(20).ts / 1_000, UTC), trade(19).position,
                                   str(trade(19).position), {"TRADE": trade(19).position}])  # fmt: skip
async def test_one_iterator_goes_from_the_past_into_live(tmp_path: Path, since: Any) -> None:
    async with started(tmp_path) as running, client(running) as artery:
        await put(running, 1, 50)
        stream = artery.stream("SIM:BTC", ["TRADE"], since)
        assert await taken(stream, 50) == list(range(20, 51))
        await put(running, 51, 60)
        assert await taken(stream, 60) == list(range(51, 61))


async def test_an_age_reaches_back_and_none_starts_live(tmp_path: Path) -> None:
    async with started(tmp_path) as running, client(running) as artery:
        now_ms = int(datetime.now(UTC).timestamp() * 1_000)
        await put(running, 1, 3, ts=now_ms - 3_600_000)
        old, live = artery.stream("SIM:BTC", ["TRADE"], "2h"), artery.stream("SIM:BTC", ["TRADE"])
        assert await taken(old, 3) == [1, 2, 3]
        first = asyncio.create_task(taken(live, 4))
        await until(lambda: running.gateway.hub.subscribers(BTC) == 2)
        await put(running, 4, 4, ts=now_ms)
        assert await first == [4]


async def test_a_cut_is_healed_without_a_hole_or_a_repeat(tmp_path: Path) -> None:
    async with started(tmp_path) as running, client(running) as artery:
        stream = artery.stream("SIM:BTC", ["TRADE"], 0)
        await put(running, 1, 10)
        assert await taken(stream, 10) == list(range(1, 11))
        for first in (11, 21, 31):
            for connection in running.gateway.sessions.everyone():
                connection.close(4000, "cut")
            await put(running, first, first + 9)
            assert await taken(stream, first + 9) == list(range(first, first + 10))


async def test_what_nobody_has_any_more_is_a_gap_with_reason_and_ends(tmp_path: Path) -> None:
    async with started(tmp_path) as running, client(running) as artery:
        await put(running, 1, 100)
        await running.bus.trim("trade", keep=20)
        stream = artery.stream("SIM:BTC", ["TRADE"], trade(10).position)
        gap = await anext(stream)
        assert isinstance(gap, Gap)
        assert (gap.reason, gap.from_position, gap.series) == ("trimmed", str(trade(10).position), "TRADE")
        rest = await taken(stream, 100)
        assert rest == list(range(Position.parse(gap.to_position).seq + 1, 101))


async def test_a_past_longer_than_one_replay_comes_whole(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(replay_bytes=60_000)) as running, client(running) as artery:
        await put(running, 1, 1_000)
        assert await taken(artery.stream("SIM:BTC", ["TRADE"], 0), 1_000) == list(range(1, 1_001))


async def test_candles_of_the_lake_and_of_the_bus_come_once_each(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    async with started(tmp_path) as running:
        positions = await running.candles(*[candle(m, seq=m + 1, close=m + 1) for m in range(30)])
    store(folder, [candle(m, close=m + 1) for m in range(20)], candle=positions[19], history="0")
    async with started(tmp_path) as running, client(running) as artery:
        await running.candles(candle(5, seq=31, close=77, rev=1))
        stream = artery.stream("SIM:BTC", ["CANDLE:60s"], T0)
        found: dict[int, int] = {}
        async with asyncio.timeout(WAIT_S):
            while len(found) < 30 or found.get(5) != 77:
                item = await anext(stream)
                assert isinstance(item, Candle)
                found[(item.start_ts - T0) // 60_000] = int(item.c)
        assert found == {m: 77 if m == 5 else m + 1 for m in range(30)}
        for connection in running.gateway.sessions.everyone():
            connection.close(4000, "cut")
        await running.candles(candle(30, seq=32, close=9, closed=False))
        item = await asyncio.wait_for(anext(stream), WAIT_S)
        assert isinstance(item, Candle)
        assert (item.start_ts - T0) // 60_000 == 30, "nothing that was seen comes again"


async def test_candles_of_the_lake_longer_than_one_replay_come_whole(tmp_path: Path) -> None:
    """Also a newer version, on the bus, of a candle that the first of the replays has passed."""
    folder = tmp_path / "sim"
    folder.mkdir()
    async with started(tmp_path) as running:
        positions = await running.candles(*[candle(m, seq=m + 1, close=m + 1) for m in range(400)])
    store(folder, [candle(m, close=m + 1) for m in range(400)], candle=positions[-1], history="0")
    async with started(tmp_path, Limits(replay_bytes=30_000)) as running, client(running) as artery:
        await running.candles(candle(5, seq=401, close=77, rev=1))
        stream = artery.stream("SIM:BTC", ["CANDLE:1m"], T0)
        found: list[int] = []
        async with asyncio.timeout(WAIT_S):
            while not found or found[-1] < 399:
                item = await anext(stream)
                assert isinstance(item, Candle)
                if (minute := (item.start_ts - T0) // 60_000) == 5:
                    assert item.c == 77
                else:
                    found.append(minute)
        assert found == [m for m in range(400) if m != 5]


async def test_a_position_without_its_series_is_refused(tmp_path: Path) -> None:
    async with Artery("http://127.0.0.1:9", "art_live_x.y") as artery:
        with pytest.raises(BadInput, match="one series"):
            await anext(artery.stream("SIM:BTC", [], trade(1).position))
    with pytest.raises(BadInput):
        Artery([], "art_live_x.y")


async def test_two_gateways_on_one_redis_are_one(tmp_path: Path) -> None:
    """A client goes on at another gateway, behind what it saw at the first, though that was killed."""
    server = RedisServer(tmp_path / "redis").start()
    try:
        shared = {"bus": {"url": server.url}, "live": {"url": server.url}, "store": {"url": server.url}}
        async with started(tmp_path / "a", **shared) as first:
            async with started(tmp_path / "a", **shared) as second:
                async with client(first, second) as artery:
                    stream = artery.stream("SIM:BTC", ["TRADE", "BOOK_TOPN"], 0)
                    await put(first, 1, 100)
                    assert await taken(stream, 100) == list(range(1, 101))
                    for connection in first.gateway.sessions.everyone():
                        connection.close(4000, "this gateway goes")
                    await put(second, 101, 150)
                    await second.append("book", book(1))
                    await second.publish(book(1))
                    assert await taken(stream, 150) == list(range(101, 151))
                    assert second.gateway.sessions.live == 1
                    for connection in second.gateway.sessions.everyone():
                        connection.close(4000, "and this one")
                    await put(second, 151, 200)
                    assert await taken(stream, 200) == list(range(151, 201))
    finally:
        server.end()


async def test_a_gateway_that_is_away_is_passed_over(tmp_path: Path) -> None:
    async with started(tmp_path) as running:
        await put(running, 1, 3)
        async with Artery(["http://127.0.0.1:9", running.url], running.key) as artery:
            assert await taken(artery.stream("SIM:BTC", ["TRADE"], 0), 3) == [1, 2, 3]
            assert [each["coin"] for each in await artery.markets()][:2] == ["BTC", "ETH"]
    async with Artery(["http://127.0.0.1:9", "http://127.0.0.1:11"], "art_live_x.y") as artery:
        with pytest.raises(Unavailable, match="artery up"):
            await anext(artery.stream("SIM:BTC"))


async def test_a_gateway_that_answers_with_trouble_of_its_own_is_passed_over(tmp_path: Path) -> None:
    def stopping(connection: ServerConnection, _request: Request) -> Response:
        return connection.respond(503, "stopping")

    async with started(tmp_path) as running, serve(Scripted(), "127.0.0.1", 0, process_request=stopping) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with Artery([f"http://127.0.0.1:{port}", running.url], running.key) as artery:
            assert [each["coin"] for each in await artery.markets()][:2] == ["BTC", "ETH"]
        async with Artery(f"http://127.0.0.1:{port}", running.key) as artery:
            with pytest.raises(Unavailable, match="503"):
                await artery.markets()


async def test_who_asks_too_often_is_told_how_long_to_wait(tmp_path: Path) -> None:
    async with started(tmp_path, gateway={"port": 0, "requests_per_s": 0.1}) as running, client(running) as artery:
        with pytest.raises(TooMuch) as told:
            await asyncio.gather(*[artery.markets() for _ in range(10)])
        assert told.value.wait_s > 1


async def test_a_gateway_without_room_is_asked_again_until_it_has_some(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(unverified=0)) as running, client(running) as artery:
        await put(running, 1, 3)
        refused = metrics.REFUSED.labels("rate_limited")
        before = refused._value.get()
        taking = asyncio.create_task(taken(artery.stream("SIM:BTC", ["TRADE"], 0), 3))
        await until(lambda: refused._value.get() >= before + 1)
        await asyncio.sleep(0.7)
        assert refused._value.get() == before + 1, "it waits as long as it is told"
        running.gateway.sessions.limits = Limits()
        assert await taking == [1, 2, 3]


class Scripted:
    """A gateway that plays its part: each connection gets the next of these frames, then is closed with the code."""

    def __init__(self, *parts: tuple[list[dict[str, Any]], int]) -> None:
        self.parts = list(parts)
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, socket: ServerConnection) -> None:
        said, code = self.parts.pop(0)
        self.asked.append(json.loads(await socket.recv()))
        for frame in said:
            await socket.send(json.dumps(frame))
        await socket.close(code)


def event_frame(n: int) -> dict[str, Any]:
    made = trade(n)
    return {"type": "event", "channel": BTC, "series": "TRADE", "position": str(made.position),
            "data": codec.encode(made)}  # fmt: skip


async def test_a_gateway_that_cannot_now_is_come_back_to_without_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store is away, or it has too much to do: said before a request was read, or of one."""
    monkeypatch.setattr("artery.client.tries.FIRST_PAUSE_S", 0.01)
    away = {"type": "error", "code": "internal", "message": "the key could not be verified now; try again"}
    busy = {"type": "error", "code": "rate_limited", "message": "too many frames"}

    def granted(request: str) -> dict[str, Any]:
        return {"type": "subscribed", "id": request, "channels": [{"channel": BTC, "positions": {}}]}

    script = Scripted(
        ([away], 1013),
        ([granted("2"), event_frame(1)], 4000),
        ([away], 1013),
        ([busy], 4029),
        ([busy | {"id": "5"}], 4000),
        ([granted("6"), event_frame(2), event_frame(3)], 4000),
    )
    async with serve(script, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with Artery(f"http://127.0.0.1:{port}", "art_live_x.y") as artery:
            assert await taken(artery.stream("SIM:BTC", ["TRADE"], 0), 3) == [1, 2, 3]
    begun = [asked["channels"][0]["since"]["positions"]["TRADE"] for asked in script.asked]
    assert begun == ["0.0.0"] * 2 + [str(trade(1).position)] * 4


async def test_a_request_that_is_wrong_is_not_made_again() -> None:
    limit = {"type": "error", "id": "1", "code": "subscription_limit", "message": "a connection may have 1 channels"}
    script = Scripted(([limit], 4000))
    async with serve(script, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with Artery(f"http://127.0.0.1:{port}", "art_live_x.y") as artery:
            with pytest.raises(TooMuch, match="1 channels"):
                await anext(artery.stream("SIM:BTC", ["TRADE"], 0))


async def test_a_gateway_that_refuses_says_why(tmp_path: Path) -> None:
    async with started(tmp_path, gateway={"port": 0, "host": "0.0.0.0"}) as running:
        async with Artery(f"http://127.0.0.2:{running.port}", running.key) as artery:
            with pytest.raises(NotAllowed, match="does not answer to that Host"):
                await anext(artery.stream("SIM:BTC"))
        other = f"http://127.0.0.2:{running.port}"
        await put(running, 1, 3)
        async with Artery([other, running.url], running.key) as artery:  # of two, the other may let it in
            assert await taken(artery.stream("SIM:BTC", ["TRADE"], 0), 3) == [1, 2, 3]


async def test_history_comes_as_arrow_pandas_or_a_sentence(tmp_path: Path) -> None:
    async with started(tmp_path) as running, client(running) as artery:
        await running.append("trade", *[trade(n) for n in range(1, 12_001)])
        table = await artery.trades("SIM:BTC", T0)
        assert table.column("seq").to_pylist() == list(range(1, 12_001))
        frame = await artery.trades("SIM:BTC", T0, T0 + 100, to="pandas")
        assert list(frame["px"]) == [100.0] * len(frame)
        assert str(frame.index.tz) == "UTC"
        empty = await artery.history("SIM:BTC", since=0, until=1, to="pandas")
        assert (len(empty), list(empty.columns)[:4]) == (0, ["o", "h", "l", "c"])
        with pytest.raises(BadInput, match="polars"):
            await artery.history("SIM:BTC", to="polars")


async def test_a_history_that_is_longer_than_one_call_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artery.client.artery.ROWS_MAX", 5_000)
    async with started(tmp_path) as running, client(running) as artery:
        await running.append("trade", *[trade(n) for n in range(1, 7_001)])
        with pytest.warns(UserWarning, match=f"oldest 5,000 rows.*since={trade(5_001).ts}"):
            first = await artery.trades("SIM:BTC", T0)
        rest = await artery.trades("SIM:BTC", trade(5_001).ts)
    found = first.column("seq").to_pylist() + rest.column("seq").to_pylist()
    assert found == list(range(1, 7_001)), "and nothing is warned of that is whole"
