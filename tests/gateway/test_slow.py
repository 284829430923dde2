"""A client that does not read costs the others nothing and is told what it missed, or let go."""

import asyncio
import json
import socket as sockets
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from artery.gateway.limits import Limits
from artery.gateway.protocol import StreamProtocol
from tests.gateway.made import BTC, book, trade
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
    last, gaps = 0, 0
    while last < sent:
        item = await hear(client)
        if item["type"] == "gap":
            assert item["reason"] == "slow_client"
            assert int(item["from"].split(".")[1]) == last
            last = int(item["to"].split(".")[1])
            gaps += 1
        else:
            assert int(item["data"]["seq"]) == last + 1
            last += 1
    assert gaps >= 1
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
