"""A client that comes back with `since` gets what it missed, then live, without a hole or a repeat."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from artery.errors import Unavailable
from artery.gateway.limits import Limits
from artery.gateway.stretch import Part
from artery.gateway.trips import CandleTrip, Start
from artery.model.series import Position
from tests.gateway.made import BTC, ETH, MINUTE, T0, book, candle, trade
from tests.gateway.running import Running, hear, say, started, subscribe, until
from tests.gateway.test_history import store


async def put(running: Running, first: int, last: int, **about: Any) -> None:
    """Durable, then visible, as ingest does it."""
    made = [trade(n, **about) for n in range(first, last + 1)]
    await running.append("trade", *made, trade(first, coin="ETH"))
    await running.publish(*made)


async def back(socket: ClientConnection, since: dict[str, Any], types: tuple[str, ...] = ("TRADE",)) -> None:
    answer = await subscribe(socket, {"channel": BTC, "types": list(types), "since": since})
    assert answer["type"] == "subscribed", answer


async def seqs_until(socket: ClientConnection, last: int) -> tuple[list[int], list[dict[str, Any]]]:
    """The seqs of trades up to `last`, and everything else that came."""
    seqs: list[int] = []
    others: list[dict[str, Any]] = []
    while not seqs or seqs[-1] < last:
        item = await hear(socket)
        if item["type"] == "event" and item["series"] == "TRADE":
            seqs.append(int(item["data"]["seq"]))
        else:
            others.append(item)
    return seqs, others


async def test_from_a_position_nothing_is_missing_and_nothing_comes_twice(running: Running) -> None:
    await put(running, 1, 3_000)
    async with running.connect() as socket:
        writing = asyncio.create_task(put(running, 3_001, 3_400))
        await back(socket, {"positions": {"TRADE": str(trade(700).position)}})
        await writing
        await put(running, 3_401, 3_500)
        seqs, others = await seqs_until(socket, 3_500)
        others = others or [await hear(socket)]
    assert seqs == list(range(701, 3_501))
    assert [item["type"] for item in others] == ["replay_complete"]


async def test_from_a_time_events_begin_at_it(running: Running) -> None:
    await put(running, 1, 50)
    async with running.connect() as socket:
        await back(socket, {"ms": trade(20).ts})
        seqs, _ = await seqs_until(socket, 50)
        assert seqs == list(range(20, 51))
        done = await hear(socket)
        assert (done["type"], done["position"]) == ("replay_complete", str(trade(50).position))


async def test_the_replayed_bytes_are_those_that_were_live(running: Running) -> None:
    async with running.connect() as early, running.connect() as late:
        await subscribe(early, {"channel": BTC, "types": ["TRADE"]})
        await put(running, 1, 5)
        live = [await early.recv(decode=False) for _ in range(5)]
        await back(late, {"ms": 0})
        assert [await late.recv(decode=False) for _ in range(5)] == live


async def test_candles_come_back_by_key_in_their_newest_revision(running: Running) -> None:
    made = [candle(0, seq=1, close=1, closed=False), candle(0, seq=2, close=2), candle(1, seq=3, close=3, closed=False),
            candle(0, seq=4, close=4, rev=1)]  # fmt: skip
    await running.candles(*made)
    async with running.connect() as socket:
        await back(socket, {"positions": {"CANDLE:1m": str(made[0].position)}}, ("CANDLE:1m",))
        found = [await hear(socket) for _ in range(3)]
    assert [(item["type"], item.get("data", {}).get("seq")) for item in found] == [
        ("event", "3"),
        ("event", "4"),
        ("replay_complete", None),
    ]


async def test_a_series_without_a_position_starts_live_and_books_with_the_newest(running: Running) -> None:
    await running.append("book", book(1))
    await running.publish(book(1))
    await put(running, 1, 3)
    async with running.connect() as socket:
        await back(socket, {"positions": {"BOOK_TOPN": str(book(1).position)}}, ("BOOK_TOPN", "TRADE"))
        assert (await hear(socket))["series"] == "BOOK_TOPN"
        await put(running, 4, 4)
        assert (await seqs_until(socket, 4))[0] == [4]


async def test_what_was_trimmed_comes_from_the_lake(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    made = [trade(n) for n in range(1, 101)]
    async with started(tmp_path) as running:
        positions = await running.append("trade", *made)
        await running.bus.trim("trade", keep=30)
    store(folder, trades=made[:80], trade=positions[79])
    async with started(tmp_path) as running, running.connect() as socket:
        await back(socket, {"positions": {"TRADE": str(trade(10).position)}})
        seqs, others = await seqs_until(socket, 100)
    assert seqs == list(range(11, 101))
    assert others == []


async def test_what_is_nowhere_is_a_gap_with_both_ends(running: Running) -> None:
    await put(running, 1, 100)
    await running.bus.trim("trade", keep=30)
    async with running.connect() as socket:
        await back(socket, {"positions": {"TRADE": str(trade(10).position)}})
        seqs, others = await seqs_until(socket, 100)
    (gap,) = others
    assert (gap["type"], gap["reason"]) == ("gap", "trimmed")
    assert gap["from"] == str(trade(10).position)
    assert int(gap["to"].split(".")[1]) == seqs[0] - 1
    assert seqs == list(range(seqs[0], 101))


async def test_a_replay_that_is_too_long_ends_in_a_gap_and_goes_on_live(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(replay_bytes=60_000)) as running:
        await put(running, 1, 500)
        async with running.connect() as socket:
            await back(socket, {"ms": 0})
            heard: list[dict[str, Any]] = []
            while not heard or heard[-1]["type"] != "replay_complete":
                heard.append(await hear(socket))
            gap = heard[-2]
            assert gap["from"] == (heard[-3]["position"] if len(heard) > 2 else "0.0.0")
            assert (gap["type"], gap["reason"], gap["to"]) == ("gap", "trimmed", str(trade(500).position))
            assert 200 <= len(heard) < 400
            await put(running, 501, 501)
            assert (await hear(socket))["data"]["seq"] == "501"


async def test_a_replay_goes_no_faster_than_its_pace(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(replay_bytes_per_s=200_000, replay_pause_bytes=8_000)) as running:
        await put(running, 1, 500)
        async with running.connect() as socket:
            began = time.monotonic()
            await back(socket, {"ms": 0})
            size_bytes = 0
            while (heard := await hear(socket))["type"] != "replay_complete":
                size_bytes += len(json.dumps(heard, separators=(",", ":")))
    assert size_bytes > 100_000
    assert time.monotonic() - began > size_bytes / 200_000 - 0.1  # what comes sooner than a timer is not waited for


async def test_leaving_or_going_away_ends_a_replay(running: Running) -> None:
    await put(running, 1, 5_000)
    hub = running.gateway.hub
    async with running.connect() as socket:
        await say(socket, type="subscribe", id="1", channels=[{"channel": BTC, "since": {"ms": 0}}])
        await say(socket, type="unsubscribe", id="2", channels=[BTC])
        await hear(socket, lambda item: item.get("id") == "2")
        assert hub.subscribers(BTC) == 0
        await say(socket, type="ping", id="3")
        after = await hear(socket, lambda item: item["type"] in ("pong", "event"))
        assert after["type"] == "pong"
        await say(socket, type="subscribe", id="4", channels=[{"channel": BTC, "since": {"ms": T0}}])
        await hear(socket, lambda item: item.get("id") == "4")
        socket.transport.abort()
    await until(lambda: hub.subscribers(BTC) == 0)


async def test_several_replays_of_one_slow_client_all_end(running: Running) -> None:
    made = [trade(n, coin=coin) for n in range(1, 8_001) for coin in ("BTC", "ETH")]
    await running.append("trade", *made)
    async with running.connect(max_queue=1) as socket:
        wanted = [{"channel": name, "types": ["TRADE"], "since": {"ms": 0}} for name in (BTC, ETH)]
        await say(socket, type="subscribe", id="1", channels=wanted)
        found: dict[str, list[int]] = {BTC: [], ETH: []}
        done: set[str] = set()
        while len(done) < 2:
            item = await hear(socket, lambda each: "channel" in each)
            if item["type"] == "replay_complete":
                done.add(item["channel"])
            else:
                found[item["channel"]].append(int(item["data"]["seq"]))
    assert found == {BTC: list(range(1, 8_001)), ETH: list(range(1, 8_001))}


async def test_books_stay_live_while_a_past_is_sent(running: Running) -> None:
    await put(running, 1, 3_000)
    await running.append("book", book(1))
    await running.publish(book(1))
    async with running.connect() as socket:
        await back(socket, {"ms": 0}, ("BOOK_TOPN", "TRADE"))
        await running.append("book", book(2))
        await running.publish(book(2))
        seqs, others = await seqs_until(socket, 3_000)
        while not any(item["type"] == "event" and item["data"]["seq"] == "2" for item in others):
            others.append(await hear(socket))
    assert seqs == list(range(1, 3_001))
    assert [item["series"] for item in others if item["type"] == "replay_complete"].count("BOOK_TOPN") == 1


async def test_a_change_of_leaders_in_the_past_is_a_gap_at_its_place(running: Running) -> None:
    await put(running, 1, 5)
    await put(running, 1, 5, epoch=2)
    async with running.connect() as socket:
        await back(socket, {"positions": {"TRADE": str(trade(2).position)}})
        heard = [await hear(socket) for _ in range(10)]
    assert [item["type"] for item in heard] == [*["event"] * 3, "gap", *["event"] * 5, "replay_complete"]
    assert (heard[3]["reason"], heard[3]["from"]) == ("failover", str(trade(5).position))
    assert heard[3]["to"].startswith("2.0.")


async def test_each_series_of_a_request_may_have_its_own_start(running: Running) -> None:
    await put(running, 1, 20)
    await running.candles(*[candle(m, seq=m + 1) for m in range(5)])
    async with running.connect() as socket:
        since = {"positions": {"TRADE": str(trade(15).position), "CANDLE:1m": f"0.0.{candle(3).start_ts}"}}
        await back(socket, since, ("TRADE", "CANDLE:1m"))
        heard = [await hear(socket) for _ in range(9)]
    assert [item["data"]["seq"] for item in heard if item["type"] == "event"] == ["4", "5", *map(str, range(16, 21))]


async def test_a_replay_that_fails_is_a_gap_and_goes_on_live(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    await put(running, 1, 20)
    running.gateway._past._threads.shutdown()  # so that a read fails as no part of ours does
    async with running.connect() as socket:
        await back(socket, {"positions": {"TRADE": str(trade(5).position)}})
        gap, done = await hear(socket), await hear(socket)
        assert (gap["type"], gap["reason"], gap["from"]) == ("gap", "trimmed", str(trade(5).position))
        assert (gap["to"], "resume" in gap) == (str(trade(20).position), False)
        assert (done["type"], done["position"]) == ("replay_complete", str(trade(20).position))
        await put(running, 21, 21)
        assert (await hear(socket))["data"]["seq"] == "21"
    said = [line for line in "".join(capsys.readouterr()).splitlines() if "a replay failed" in line]
    assert len(said) == 1
    assert "RuntimeError" in said[0]


async def test_candles_of_a_past_that_is_in_memory_leave_room_for_others(running: Running) -> None:
    made = [candle(m % 50, seq=m + 1, rev=m // 50) for m in range(4_000)]
    await running.candles(*made)

    trip = CandleTrip(running.gateway._past, ("sim", "BTC"), MINUTE, Start(None, T0, is_near=True))
    assert [len(found.stretch) async for found in trip.run() if isinstance(found, Part)] == [50]
    after = await running.gateway._past.find("candle", T0)
    reading = asyncio.create_task(trip._collect(after, await running.bus.head("candle"), {}))  # pages are in memory now
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    await reading
    assert turns >= 4_000 / 200


@pytest.mark.parametrize("epoch", [1, 10**15])
async def test_a_position_that_the_log_has_not_come_to_is_a_gap_and_the_client_goes_on_live(
    running: Running, epoch: int
) -> None:
    """The log began anew, or the client was sent here with a position of another one."""
    foreign = Position(epoch, 900, T0)
    for known in (0, 5):
        if known:
            await put(running, 3, known)
        async with running.connect() as socket:
            await back(socket, {"positions": {"TRADE": str(foreign)}})
            gap, done = await hear(socket), await hear(socket)
            assert (gap["type"], gap["reason"], gap["from"]) == ("gap", "trimmed", str(foreign))
            assert gap["to"] == done["position"] == (str(trade(known).position) if known else "")
            assert done["type"] == "replay_complete"
            await put(running, known + 1, known + 2)
            assert await seqs_until(socket, known + 2) == ([known + 1, known + 2], [])


async def test_a_position_that_no_candle_has_come_to_is_a_gap_and_the_client_goes_on_live(running: Running) -> None:
    await running.candles(candle(0, seq=1), candle(1, seq=2))
    await until(lambda: running.gateway.hub.place(BTC, "CANDLE:1m"))
    foreign = Position(10**15, 1, T0)
    async with running.connect() as socket:
        await back(socket, {"positions": {"CANDLE:1m": str(foreign)}}, ("CANDLE:1m",))
        gap, done = await hear(socket), await hear(socket)
        assert (gap["type"], gap["from"], gap["to"]) == ("gap", str(foreign), str(candle(1, seq=2).position))
        assert done["type"] == "replay_complete"
        await running.candles(candle(2, seq=3))
        assert (await hear(socket))["data"]["seq"] == "3"


@pytest.mark.parametrize("series", ["TRADE", "CANDLE:1m"])
async def test_who_has_everything_is_told_of_nothing(tmp_path: Path, series: str) -> None:
    made = {"TRADE": trade(5).position, "CANDLE:1m": candle(5, seq=5).position}
    async with started(tmp_path) as running:
        await running.append("trade", *[trade(n) for n in range(1, 6)])
        await running.candles(*[candle(n, seq=n) for n in range(1, 6)])
        async with running.connect() as socket:
            await back(socket, {"positions": {series: str(made[series])}}, (series,))
            assert (await hear(socket))["type"] == "replay_complete"


async def test_what_the_bus_had_before_live_comes_once_though_the_replay_ended_early(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(replay_bytes=4_000)) as running:
        await put(running, 1, 3)
        made = [trade(n) for n in range(4, 41)]
        await running.append("trade", *made)  # durable, and not yet visible
        async with running.connect() as socket:
            await back(socket, {"positions": {"TRADE": str(trade(1).position)}})
            past: list[int] = []
            while (item := await hear(socket))["type"] != "replay_complete":
                past += [int(item["data"]["seq"])] if item["type"] == "event" else []
            await running.publish(*made)
            seqs, others = await seqs_until(socket, 40)
    assert past[-1] > 3, "the past went on behind what was live"
    assert past + seqs == list(range(2, 41))
    assert others == []


@pytest.mark.parametrize("known", [0, 3])
async def test_a_replay_that_could_not_read_leads_no_client_back(
    running: Running, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    """Whether the gateway knows of no trade, or of fewer than the client: nothing says that the log began anew."""

    async def away(stream: str) -> str:
        raise Unavailable(f"the bus is away, with {stream}")

    if known:
        await put(running, 1, known)
    here = trade(5).position
    async with running.connect() as socket:
        with monkeypatch.context() as patch:
            patch.setattr(running.bus, "head", away)
            await back(socket, {"positions": {"TRADE": str(here)}})
            said = [await hear(socket)]
            while said[-1]["type"] != "replay_complete":
                said.append(await hear(socket))
        assert all(Position.parse(gap["to"]) >= here for gap in said[:-1])
        assert said[-1]["position"] == str(here)
        await put(running, known + 1, 7)
        assert await seqs_until(socket, 7) == ([6, 7], [])
