"""A client that does not read costs the others nothing and is told what it missed, or let go."""

import asyncio
import json
import socket as sockets
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from artery.gateway import frames
from artery.gateway.frames import Batch
from artery.gateway.limits import LIMITS, Limits
from artery.gateway.protocol import StreamProtocol
from artery.gateway.session import SLOW
from artery.model.events import Book, Trade
from tests.gateway.made import BTC, ETH, T0, book, message, trade
from tests.gateway.running import WAIT_S, Running, hear, started, subscribe, until

BOOKS = {"channel": BTC, "types": ["BOOK_TOPN"]}
TRADES = {"channel": BTC, "types": ["TRADE"]}


async def lazy(running: Running, wanted: dict[str, Any]) -> ClientConnection:
    """A client with small buffers that has subscribed and then reads no more."""
    sock = sockets.socket()
    sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4_096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", running.port))
    client = await running.connect(sock=sock, max_queue=1, ping_interval=None)
    assert (await subscribe(client, wanted))["type"] == "subscribed"
    client.transport.pause_reading()
    return client


def connection_of(running: Running) -> StreamProtocol:
    (found,) = [c for c in running.gateway.sessions.everyone() if isinstance(c, StreamProtocol)]
    return found


async def flood(running: Running, kind: Any, first: int, count: int) -> None:
    for seq in range(first, first + count, 50):
        await running.publish(*[kind(n) for n in range(seq, seq + 50)])
        await asyncio.sleep(0)


async def everything(client: ClientConnection) -> tuple[list[dict[str, Any]], int]:
    """All that a client still reads, and the code at the end."""
    client.transport.resume_reading()
    heard: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                heard.append(json.loads(await client.recv()))
    except ConnectionClosed as end:
        return heard, end.rcvd.code if end.rcvd else 1006


async def test_books_conflate_for_who_reads_slowly_and_the_gap_is_said(running: Running) -> None:
    client = await lazy(running, BOOKS)
    server = connection_of(running)
    sent = 0
    while not (server._queue and server._queue.conflated):
        await flood(running, book, sent + 1, 500)
        sent += 500
        assert sent < 100_000
    waiting = server._queue
    assert waiting is not None
    assert len(waiting) <= 256
    assert waiting.size_bytes <= 1024 * 1024
    client.transport.resume_reading()
    assert await followed(client, sent) >= 1
    await client.close()


async def test_trades_are_never_thinned_so_a_slow_client_is_closed(running: Running) -> None:
    client = await lazy(running, TRADES)
    server = connection_of(running)
    sent = 0
    while running.gateway.sessions.live:
        await flood(running, trade, sent + 1, 500)
        sent += 500
        assert sent < 200_000
    assert server._queue is None
    assert running.gateway.hub.subscribers(BTC) == 0
    heard, code = await everything(client)
    assert code == 4008
    assert [int(item["data"]["seq"]) for item in heard] == list(range(1, len(heard) + 1))


async def test_nothing_is_kept_for_a_client_that_was_let_go_in_the_middle_of_a_round(running: Running) -> None:
    client = await lazy(running, TRADES)
    server, sent = connection_of(running), 0
    while not server._paused:
        await flood(running, trade, sent + 1, 500)
        sent += 500
    server.close(SLOW, "a replay's share of this round was too much")
    server.deliver(Batch([frames.event(message(trade(sent + 1)))]))
    assert server._queue is None
    heard, code = await everything(client)
    assert code == SLOW
    assert max(int(item["data"]["seq"]) for item in heard) <= sent


async def test_others_get_everything_while_one_does_not_read(running: Running) -> None:
    slow = await lazy(running, TRADES)
    async with running.connect() as quick:
        await subscribe(quick, TRADES)
        seqs: list[int] = []
        while len(seqs) < 20_000:
            await flood(running, trade, len(seqs) + 1, 200)
            seqs += [int((await hear(quick))["data"]["seq"]) for _ in range(200)]
    assert seqs == list(range(1, len(seqs) + 1))
    slow.transport.abort()


def deep(seq: int) -> Book:
    """A book of many levels, so that many bytes need few events."""
    levels = tuple((Decimal(level), Decimal(seq)) for level in range(1, 301))
    return Book(provider="sim", coin="BTC", event_ts=T0 + seq, epoch=1, seq=seq, ts=T0 + seq, bids=levels, asks=levels)


def held_bytes(running: Running) -> list[int]:
    """What the gateway itself keeps for each connection."""
    found = [c for c in running.gateway.sessions.everyone() if isinstance(c, StreamProtocol)]
    return [c._transport.get_write_buffer_size() + (c._queue.size_bytes if c._queue else 0) for c in found]


def wide(seq: int) -> Trade:
    """A trade of many bytes."""
    return msgspec.structs.replace(trade(seq), tid="9" * 3_000)


@pytest.mark.parametrize("pairs", [1, 100])
async def test_clients_that_stop_reading_stay_within_their_bound_and_others_get_everything(
    tmp_path: Path, pairs: int
) -> None:
    """Of each pair one gets trades and must be closed, one gets books and is conflated."""
    bound = LIMITS.queue_bytes + 4 * LIMITS.flush_bytes
    pushed_bytes, seq, most = 0, 0, 0
    async with started(tmp_path, Limits(close_s=600)) as running, running.connect() as quick:
        await subscribe(quick, {"channel": BTC, "types": ["TRADE", "BOOK_TOPN"]})
        traders = [await lazy(running, TRADES) for _ in range(pairs)]
        watchers = [await lazy(running, BOOKS) for _ in range(pairs)]
        sessions = running.gateway.sessions
        while pushed_bytes < 9_000_000 or sessions.live > pairs + 1:
            assert pushed_bytes < 50_000_000, sessions.live
            made = [event for n in range(seq, seq + 10) for event in (deep(n + 1), wide(2 * n + 1), wide(2 * n + 2))]
            messages = [message(event) for event in made]
            pushed_bytes += sum(len(item.data) for item in messages)
            await running.pubsub.publish(messages)
            heard = [await hear(quick) for _ in made]
            assert [item["position"] for item in heard] == [str(event.position) for event in made]
            most = max(most, *held_bytes(running))
            seq += 10
        assert sessions.live == pairs + 1
        assert LIMITS.flush_bytes < most <= bound
        for trader, watcher in zip(traders[:3], watchers[:3], strict=True):  # they are all alike
            assert (await everything(trader))[1] == 4008
            watcher.transport.resume_reading()
            assert await followed(watcher, seq) >= 1
        for client in (*traders, *watchers):
            client.transport.abort()


async def followed(client: ClientConnection, last: int) -> int:
    """How many gaps a client was told of on its way to the last book; nothing else may be missing."""
    at, gaps = 0, 0
    while at < last:
        item = await hear(client)
        if item["type"] == "gap":
            assert (item["reason"], int(item["from"].split(".")[1])) == ("slow_client", at)
            at, gaps = int(item["to"].split(".")[1]), gaps + 1
        else:
            at += 1
            assert int(item["data"]["seq"]) == at
    return gaps


async def test_a_client_that_never_reads_its_end_is_cut(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(close_s=0.2)) as running:
        client = await lazy(running, TRADES)
        server = connection_of(running)
        sent = 0
        while running.gateway.sessions.live:
            await flood(running, trade, sent + 1, 500)
            sent += 500
        await until(server._transport.is_closing)
        assert running.gateway.sessions.everyone() == []
        client.transport.abort()


async def test_a_client_that_says_nothing_is_let_go(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(idle_s=3.0, ping_s=0.5)) as running:
        client = await lazy(running, TRADES)
        await until(lambda: running.gateway.sessions.live == 0)
        _, code = await everything(client)
        assert code == 4012


async def test_too_many_at_the_door_are_asked_to_come_back(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(unverified=0)) as running:
        async with running.http() as http:
            headers = {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
                "Sec-WebSocket-Version": "13",
            }
            answer = await http.get("/v1/stream", headers=headers)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["code"] == "rate_limited"


async def test_a_client_that_asks_for_a_past_and_does_not_read_it_is_closed_though_it_talks(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(idle_s=2.0)) as running:
        await running.append("trade", *[wide(n) for n in range(1, 5_001)])
        client = await lazy(running, TRADES | {"since": {"ms": 0}})
        while running.gateway.sessions.live:
            await client.send('{"type":"ping"}')
            await asyncio.sleep(0.2)
        heard, code = await everything(client)
        seqs = [int(item["data"]["seq"]) for item in heard if item["type"] == "event"]
        assert (code, seqs) == (4008, list(range(1, len(seqs) + 1)))


async def test_what_replays_of_one_client_hold_has_one_bound_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    async with started(tmp_path, Limits(held_bytes=50_000)) as running:
        past = [wide(n) for n in range(1, 3_001)]
        await running.append("trade", *past, *[msgspec.structs.replace(each, coin="ETH") for each in past])
        client = await lazy(running, TRADES | {"since": {"ms": 0}})
        await client.send(
            json.dumps({"type": "subscribe", "channels": [TRADES | {"channel": ETH, "since": {"ms": 0}}]})
        )
        hub, room = running.gateway.hub, connection_of(running).room()
        await until(lambda: hub.subscribers(ETH))
        for first in range(3_001, 4_001, 50):
            made = [event for n in range(first, first + 50) for event in (trade(n), trade(n, coin="ETH"))]
            await running.publish(*made)
        await until(lambda: hub.place(ETH, "TRADE") == trade(4_000, coin="ETH").position)
        assert 40_000 < room.held_bytes <= 50_000
        client.transport.resume_reading()
        seen, gaps = {BTC: 0, ETH: 0}, 0
        while min(seen.values()) < 4_000:
            item = await hear(client, lambda each: each["type"] in ("event", "gap"))
            at = int((item["to"] if item["type"] == "gap" else item["position"]).split(".")[1])
            if item["type"] == "gap":
                assert (item["reason"], int(item["from"].split(".")[1])) == ("slow_client", seen[item["channel"]])
                gaps += 1
            else:
                assert at == seen[item["channel"]] + 1
            seen[item["channel"]] = at
        assert gaps == 2
        assert room.held_bytes == 0
        await client.close()


async def test_few_replays_of_one_client_run_at_once_and_all_have_their_turn(tmp_path: Path) -> None:
    coins = [f"C{number}" for number in range(6)]
    async with started(tmp_path, Limits(replays=2), ingest={"markets": tuple(coins)}) as running:
        await running.append("trade", *[trade(n, coin=coin) for n in range(1, 1_001) for coin in coins])
        names = [f"artery:stream:sim:{coin}" for coin in coins]
        async with running.connect() as socket:
            wanted = [{"channel": name, "types": ["TRADE"], "since": {"ms": 0}} for name in names]
            assert (await subscribe(socket, *wanted))["type"] == "subscribed"
            begun: list[str] = []
            ended: set[str] = set()
            while len(ended) < len(names):
                item = await hear(socket)
                if item["channel"] not in begun:
                    begun.append(item["channel"])
                if item["type"] == "replay_complete":
                    ended.add(item["channel"])
                assert len(begun) - len(ended) <= 2
            assert sorted(begun) == names


@pytest.mark.parametrize("since", [{"positions": {"TRADE": str(trade(10).position)}}, {"ms": trade(11).ts}])
async def test_nothing_older_follows_the_answer_to_a_slow_client_that_asks_anew(
    running: Running, since: dict[str, Any]
) -> None:
    client = await lazy(running, TRADES)
    server, sent, hub = connection_of(running), 0, running.gateway.hub
    while not server._queue:
        made = [wide(n) for n in range(sent + 1, sent + 11)]
        await running.append("trade", *made)
        await running.publish(*made)
        await until(lambda last=made[-1].position: hub.place(BTC, "TRADE") == last)  # type: ignore[misc]
        sent += 10
    await client.send(json.dumps({"type": "subscribe", "id": "again", "channels": [TRADES | {"since": since}]}))
    await until(lambda: server._replays)
    client.transport.resume_reading()
    await hear(client, lambda item: item.get("id") == "again")
    seqs = [int((await hear(client))["data"]["seq"]) for _ in range(sent - 10)]
    assert seqs == list(range(11, sent + 1))
    await client.close()


async def test_a_slow_client_is_not_closed_by_what_was_held_for_it_at_the_end_of_a_past(running: Running) -> None:
    past = [wide(n) for n in range(1, 2_001)]
    live = [msgspec.structs.replace(trade(n), tid="9" * 8_000) for n in range(2_001, 2_191)]  # more than a queue takes
    await running.append("trade", *past)
    client = await lazy(running, TRADES | {"since": {"ms": 0}})
    server, hub = connection_of(running), running.gateway.hub
    await until(lambda: server._paused)
    for at in range(0, len(live), 10):
        await running.publish(*live[at : at + 10])
    await until(lambda: hub.place(BTC, "TRADE") == live[-1].position)
    client.transport.resume_reading()
    trades = [await hear(client, lambda item: item["type"] == "event") for _ in range(2_190)]
    assert [int(item["data"]["seq"]) for item in trades] == list(range(1, 2_191))
    await client.close()
