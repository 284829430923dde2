"""What happens while a key is being verified, and what happens to bytes that are no protocol at all."""

import asyncio
import gc
import random
import weakref
from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from artery.gateway import keys
from artery.gateway.access import Access, Credential
from artery.gateway.grants import Grant
from artery.gateway.limits import Limits
from artery.gateway.sessions import TASKS
from tests.gateway.made import BTC, trade
from tests.gateway.running import Running, hear, say, subscribe, until
from tests.gateway.test_stream import closed

ROUNDS = 150


class Slowly(Access):
    """Verifies as always, but only once it is let."""

    def __init__(self, running: Running) -> None:
        super().__init__(running.store)
        self.go = asyncio.Event()

    async def verify(self, credential: Credential, address: str = "") -> Grant:
        await self.go.wait()
        return await super().verify(credential, address)


@pytest.fixture
async def held(running: Running) -> Slowly:
    slowly = Slowly(running)
    running.gateway.sessions.access = slowly
    return slowly


async def test_early_frames_wait_for_the_key_and_are_answered_in_order(running: Running, held: Slowly) -> None:
    async with running.connect() as socket:
        await say(socket, type="subscribe", id="1", channels=[BTC])
        for n in range(2, 40):
            await say(socket, type="ping", id=str(n))
        await (await socket.ping())  # answered by the protocol itself, so what was sent before it has arrived
        assert running.gateway.sessions.unverified == 1
        assert running.gateway.hub.subscribers(BTC) == 0
        held.go.set()
        assert [(await hear(socket))["id"] for _ in range(39)] == [str(n) for n in range(1, 40)]
        await running.publish(trade(1))
        assert (await hear(socket))["type"] == "event"


async def test_too_many_early_frames_end_the_connection(running: Running, held: Slowly) -> None:
    async with running.connect() as socket:
        for n in range(65):
            await say(socket, type="ping", id=str(n))
        code, said = await closed(socket)
        assert (code, said[0]["code"]) == (4029, "rate_limited")
    held.go.set()
    await until(lambda: not running.gateway.sessions.everyone())


async def test_who_is_being_verified_takes_a_place_at_the_door_until_that_is_over(
    running: Running, held: Slowly
) -> None:
    sessions = running.gateway.sessions
    sessions.limits = Limits(unverified=2)
    async with running.connect() as first, running.connect(), running.http() as http:
        await until(lambda: sessions.unverified == 2)
        with pytest.raises(InvalidStatus) as refused:
            await running.connect()
        assert refused.value.response.status_code == 503
        assert (await http.get("/healthz")).status_code == 200
        first.transport.abort()
        await until(lambda: sessions.unverified == 1)
        async with running.connect() as third:
            held.go.set()
            assert (await subscribe(third, BTC))["type"] == "subscribed"
            assert sessions.unverified == 0


def session_tasks() -> list[str]:
    """The tasks that work for one connection; the gateway's own, and a client's, are none of them."""
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(TASKS)]


async def test_going_away_during_verification_leaves_nothing_behind(running: Running, held: Slowly) -> None:
    sessions = running.gateway.sessions
    left: list[weakref.ref[Any]] = []
    for _ in range(5):
        async with running.connect() as socket:
            await say(socket, type="subscribe", id="1", channels=[BTC])
            await until(lambda: sessions.unverified == 1)
            assert len(session_tasks()) == 1
            left += [weakref.ref(connection) for connection in sessions.everyone()]
            socket.transport.abort()
        await until(lambda: not sessions.everyone() and not session_tasks())
    held.go.set()
    await until(lambda: gc.collect() >= 0 and not any(connection() for connection in left))
    assert (sessions.live, sessions.unverified, running.gateway.hub.subscribers(BTC)) == (0, 0, 0)
    assert len(left) == 5


async def test_a_key_revoked_during_verification_lets_nobody_in(running: Running, held: Slowly) -> None:
    key, text = await keys.make_key(running.store, "ann", ["stream"])
    async with running.connect(additional_headers=running.bearer(text)) as socket:
        await say(socket, type="subscribe", id="1", channels=[BTC])
        await until(lambda: running.gateway.sessions.unverified == 1)
        await keys.revoke(running.store, key.id)
        held.go.set()
        code, said = await closed(socket)
    assert (code, [frame["code"] for frame in said]) == (4500, ["unauthenticated"])
    await until(lambda: not running.gateway.sessions.everyone() and not session_tasks())
    assert running.gateway.hub.subscribers(BTC) == 0


async def upgraded(running: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A WebSocket connection of which the caller makes the bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(
        f"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {b64encode(bytes(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {running.key}\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_random_bytes_hurt_nobody_else(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(7)
    async with running.connect() as good:
        await subscribe(good, {"channel": BTC, "types": ["TRADE"]})
        for n in range(ROUNDS):
            if n % 2:
                _, writer = await upgraded(running)
            else:
                _, writer = await asyncio.open_connection("127.0.0.1", running.port)
            first = chance.choice(
                [b"", b"\x81\x85abcd", b"\x88\x82abcd\x00", b"\x89\xfe\xff\xff", b"GET / HTTP/1.1\r\n"]
            )
            writer.write(first + chance.randbytes(chance.randrange(1, 400)))
            with suppress(ConnectionError):
                await writer.drain()
            writer.transport.abort()
        await running.publish(trade(1))
        assert (await hear(good))["data"]["seq"] == "1"
    await until(lambda: not running.gateway.sessions.everyone())
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    assert running.key.split(".")[1] not in said.out + said.err
