"""Whatever bytes arrive on `/v1/stream`: no exception, no leak, and an answer that the contract knows.

ART_FAULT_LONG=1 makes it 100,000 streams of a new seed; ART_FAULT_SEED=n repeats a run.
"""

import asyncio
import json
from pathlib import Path

import pytest
from websockets.frames import EXTERNAL_CLOSE_CODES

from tests.faults.trial import LONG, seed
from tests.gateway.made import BTC, ETH, MIDS, book, trade
from tests.gateway.running import Running, started, until
from tests.gateway.test_early import session_tasks
from tests.gateway.wire import CLOSE, PING, PONG, TEXT, Hostile, Memory, Port, frames_of

STREAMS = 100_000 if LONG else 3_000
SEED = seed(20_261)
AT_ONCE = 50

KINDS = {"subscribed", "unsubscribed", "pong", "error", "event", "gap", "replay_complete"}
ERRORS = {"bad_request", "unauthenticated", "unknown_channel", "subscription_limit", "rate_limited"}
STATUS = {b"101", b"400", b"403", b"404", b"405", b"414", b"426", b"431", b"503"}
CLOSES = {1000, 1002, 1007, 1009, 4008, 4029, 4500, 4504}


def check(wire: bytes) -> set[str]:
    """What was answered must be what the contract says; returns the kinds of it."""
    if not wire:
        return set()
    head, _, rest = wire.partition(b"\r\n\r\n")
    assert head[:9] == b"HTTP/1.1 ", head[:80]
    assert head[9:12] in STATUS, head[:80]
    if head[9:12] != b"101":
        return {head[9:12].decode()}
    found = set()
    for opcode, payload in frames_of(rest):
        assert opcode in (TEXT, CLOSE, PING, PONG)
        if opcode == TEXT:
            said = json.loads(payload)
            assert said["type"] in KINDS, said
            assert said["type"] != "error" or said["code"] in ERRORS, said
            found.add(said["type"])
        elif opcode == CLOSE and payload:
            code = int.from_bytes(payload[:2], "big")
            # A client's own close is answered with its code, whichever of those that may be sent it is.
            assert code in CLOSES or code in EXTERNAL_CLOSE_CODES or 3000 <= code < 5000, (code, payload)
            found.add(str(code))
    return found


async def talk(connection: Memory, pieces: list[bytes]) -> None:
    for piece in pieces:
        connection.feed(piece)
        await asyncio.sleep(0)


@pytest.mark.timeout(3_600 if LONG else 300)
async def test_no_stream_of_bytes_raises_or_leaves_anything_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with started(tmp_path, gateway={"port": 0, "connects_per_s": 0.0}) as running:
        await send_all(running)
        said = "".join(capsys.readouterr())
        assert "Traceback" not in said, f"seed {SEED}"
        assert running.key.split(".")[1] not in said


async def send_all(running: Running) -> None:
    hostile, port = Hostile(SEED, running.key), Port(running)
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: raised.append(context))
    await running.append("trade", *[trade(n) for n in range(1, 20)])
    await running.publish(*[trade(n) for n in range(1, 20)], book(1))
    sessions, hub = running.gateway.sessions, running.gateway.hub
    kinds: set[str] = set()
    for done in range(0, STREAMS, AT_ONCE):
        connections = [port.opened() for _ in range(AT_ONCE)]
        await asyncio.gather(*(talk(connection, hostile.stream()) for connection in connections))
        await until(lambda: sessions.unverified == 0)
        await running.publish(trade(20 + done))
        for connection in connections:
            kinds |= check(bytes(connection.written))
            connection.close()
        await until(lambda: not sessions.everyone() and not session_tasks())
        assert [hub.subscribers(channel) for channel in (BTC, ETH, MIDS)] == [0, 0, 0]
        assert not raised, (SEED, raised)
    assert kinds >= {"subscribed", "unsubscribed", "pong", "error", "event", "1002", "1007", "1009", "4500", "4504"}
