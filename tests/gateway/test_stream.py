"""`/v1/stream` over a real socket keeps its word."""

import asyncio
import json
import socket as sockets
from base64 import b64encode
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from artery.gateway import keys
from artery.gateway.limits import LIMITS
from artery.gateway.session import State
from tests.gateway.made import BTC, ETH, MIDS, T0, book, candle, mark, mids, trade
from tests.gateway.running import Running, hear, say, started, subscribe, until

TRADES = {"channel": BTC, "types": ["TRADE"]}


async def closed(socket: ClientConnection) -> tuple[int, list[dict[str, str]]]:
    """The code it was closed with, and what was said before."""
    said = []
    try:
        async with asyncio.timeout(30):
            while True:
                said.append(json.loads(await socket.recv()))
    except ConnectionClosed as end:
        assert end.rcvd is not None
        return end.rcvd.code, said


async def test_a_client_subscribes_hears_and_leaves(running: Running) -> None:
    async with running.connect() as socket:
        await say(socket, type="subscribe", id="1", channels=[TRADES])
        assert (await hear(socket))["channels"] == [{"channel": BTC, "positions": {}}]
        await running.publish(trade(1), book(1), trade(1, coin="ETH"), trade(2))
        events = [await hear(socket), await hear(socket)]
        assert [(event["type"], event["series"], event["data"]["seq"]) for event in events] == [
            ("event", "TRADE", "1"),
            ("event", "TRADE", "2"),
        ]
        await say(socket, type="unsubscribe", id="2", channels=[BTC])
        assert await hear(socket) == {"type": "unsubscribed", "id": "2", "channels": [BTC]}
        await running.publish(trade(3))
        await say(socket, type="ping", id="3")
        assert (await hear(socket))["type"] == "pong"


async def test_candles_of_the_bus_reach_clients_and_garbage_does_not(running: Running) -> None:
    async with running.connect() as socket:
        await subscribe(socket, BTC)
        await running.bus.append("candle", [{"ver": "1", "t": "CANDLE", "coin": "BTC"}])
        await running.candles(candle(0, seq=1, closed=False), candle(0, seq=2))
        first, second = await hear(socket), await hear(socket)
        assert (first["series"], first["data"]["isClosed"]) == ("CANDLE:1m", "false")
        assert (second["position"], second["data"]["isClosed"]) == (str(candle(0, seq=2).position), "true")


async def test_who_comes_late_gets_the_newest_snapshots_first(running: Running) -> None:
    await running.publish(book(1), book(2), mids(T0))
    await running.candles(candle(1, seq=5, closed=False))
    await until(lambda: running.gateway.hub.newest(BTC, "CANDLE:1m") and running.gateway.hub.newest(MIDS, "MIDS"))
    async with running.connect() as socket:
        answer = await subscribe(socket, BTC, MIDS)
        assert answer["channels"][0]["positions"]["BOOK_TOPN"] == str(book(2).position)
        found = [await hear(socket) for _ in range(3)]
        assert [(item["series"], item["data"].get("seq")) for item in found] == [
            ("BOOK_TOPN", "2"),
            ("CANDLE:1m", "5"),
            ("MIDS", None),
        ]


async def test_the_newest_book_is_there_after_a_restart(running: Running, tmp_path: Path) -> None:
    await running.append("book", book(1), book(2))
    async with started(tmp_path) as again, again.connect() as socket:
        await subscribe(socket, {"channel": BTC, "types": ["BOOK_TOPN"]})
        assert (await hear(socket))["data"]["seq"] == "2"


async def test_every_session_gets_the_same_bytes(running: Running) -> None:
    heard = []
    async with running.connect() as one, running.connect() as two:
        for socket in (one, two):
            await subscribe(socket, BTC)
        await running.publish(trade(1), trade(2), book(1))
        for socket in (one, two):
            heard.append([await socket.recv(decode=False) for _ in range(3)])
    assert heard[0] == heard[1]


async def test_holes_and_marks_are_told_as_gaps(running: Running) -> None:
    async with running.connect() as socket:
        await subscribe(socket, TRADES)
        await running.publish(trade(1), trade(4))
        assert (await hear(socket))["type"] == "event"
        gap = await hear(socket)
        assert (gap["type"], gap["reason"], gap["from"]) == ("gap", "upstream", str(trade(1).position))
        await hear(socket)
        await running.append("feed", mark(1, T0, T0 + 100), mark(2, T0 + 200, T0 + 900))
        gaps = [await hear(socket), await hear(socket)]
        assert [(gap["reason"], gap["from_ms"], gap["to_ms"]) for gap in gaps] == [
            ("upstream", T0, T0 + 100),
            ("failover", T0 + 200, T0 + 900),
        ]


@pytest.mark.parametrize("how", ["header", "subprotocol", "token", "cookie"])
async def test_a_key_may_be_shown_in_four_ways(running: Running, how: str) -> None:
    options: dict[str, object] = {"additional_headers": {}}
    if how == "header":
        options = {}
    elif how == "subprotocol":
        options |= {"subprotocols": ["artery.v1", f"bearer.{running.key}"]}
    elif how == "token":
        options |= {"uri": f"{running.ws}?token={running.key}"}
    else:
        async with running.http({}) as http:
            answer = await http.post("/v1/session", json={"start": await keys.make_start_code(running.store)})
        cookie = answer.headers["set-cookie"].split(";")[0]
        options = {"additional_headers": {"Cookie": cookie, "Origin": running.url}, "subprotocols": ["artery.v1"]}
    async with running.connect(**options) as socket:
        assert socket.subprotocol == ("artery.v1" if how in ("subprotocol", "cookie") else None)
        assert (await subscribe(socket, BTC))["type"] == "subscribed"


@pytest.mark.parametrize("key", ["", "nonsense", "art_live_000000000000." + "a" * 43])
async def test_a_missing_or_wrong_key_is_said_and_closed_for_good(running: Running, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with running.connect(additional_headers=headers) as socket:
        with suppress(ConnectionClosed):
            await say(socket, type="subscribe", id="1", channels=[BTC])
        code, said = await closed(socket)
    assert code == 4500
    assert [frame["code"] for frame in said] == ["unauthenticated"]
    await until(lambda: running.gateway.sessions.unverified == 0)


async def test_a_key_without_the_scope_is_closed_for_good(running: Running) -> None:
    _, text = await keys.make_key(running.store, "ann", ["read"])
    async with running.connect(additional_headers=running.bearer(text)) as socket:
        code, said = await closed(socket)
    assert (code, said[0]["code"]) == (4503, "forbidden_scope")


async def test_a_revoked_key_is_cut(running: Running) -> None:
    key, text = await keys.make_key(running.store, "ann", ["stream"])
    async with running.connect(additional_headers=running.bearer(text)) as socket, running.connect() as other:
        await subscribe(socket, BTC)
        await subscribe(other, BTC)
        await keys.revoke(running.store, key.id)
        assert (await closed(socket))[0] == 4501
        await running.publish(trade(1))
        assert (await hear(other))["type"] == "event"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
    ],
)
async def test_a_foreign_page_or_name_is_refused_at_the_handshake(running: Running, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with running.connect(additional_headers=running.bearer() | headers):
            pass
    assert refused.value.response.status_code == 403
    assert json.loads(refused.value.response.body or b"")["error"]["code"] == "forbidden"


async def test_other_paths_are_no_websocket(running: Running) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with running.connect(uri=running.ws.replace("/v1/stream", "/v1/other")):
            pass
    assert refused.value.response.status_code == 404


async def test_frames_that_come_with_the_handshake_are_not_lost(running: Running) -> None:
    """A client that does not wait for the answer: its frames lie behind the request, in one segment."""
    payload = json.dumps({"type": "subscribe", "id": "early", "channels": [BTC]}).encode()
    masked = bytes((0x81, 0x80 | 126)) + len(payload).to_bytes(2, "big") + bytes(4) + payload
    if len(payload) < 126:
        masked = bytes((0x81, 0x80 | len(payload))) + bytes(4) + payload
    head = (
        f"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {b64encode(bytes(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {running.key}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(head.encode() + masked)
    answer = b""
    async with asyncio.timeout(30):
        while b'"id":"early"' not in answer:
            part = await reader.read(4096)
            assert part, answer
            answer += part
    assert answer.startswith(b"HTTP/1.1 101")
    assert b'"type":"subscribed"' in answer
    writer.close()
    await writer.wait_closed()


async def test_frames_sent_before_the_key_was_verified_are_handled_in_order(running: Running) -> None:
    async with running.connect() as socket:
        for n in range(50):
            await say(socket, type="ping", id=str(n))
        assert [(await hear(socket))["id"] for _ in range(50)] == [str(n) for n in range(50)]


async def test_bad_input_is_answered_and_hurts_nobody_else(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running.connect() as good:
        await subscribe(good, BTC)
        async with running.connect() as bad:
            for frame in ("not json", "[]", '{"type":5}', '{"type":"subscribe","channels":[7]}', "{" * 9_000):
                await bad.send(frame)
                assert (await hear(bad))["code"] == "bad_request"
            await say(bad, type="subscribe", id="x", channels=["artery:stream:sim:NOPE"])
            assert (await hear(bad))["code"] == "unknown_channel"
            await bad.send(b"binary")
            assert (await closed(bad))[0] == 4504
        async with running.connect() as huge:
            with suppress(ConnectionClosed):
                await huge.send("x" * 10_000_000)
            code, said = await closed(huge)
            assert (code, said) == (1009, [])
        async with running.connect() as pieces:
            with suppress(ConnectionClosed):
                await pieces.send(["x" * 30_000, "y" * 30_000, "z" * 30_000])
            assert (await closed(pieces))[0] == 1009
        async with running.connect() as noisy:
            with suppress(ConnectionClosed):
                for n in range(5_000):
                    await say(noisy, type="ping", id=str(n))
            code, said = await closed(noisy)
            assert code == 4029
            assert "rate_limited" in {frame.get("code") for frame in said}
        await running.publish(trade(1))
        assert (await hear(good))["type"] == "event"
    assert "Traceback" not in "".join(capsys.readouterr())


async def test_text_that_is_not_utf8_is_refused(running: Running) -> None:
    async with running.connect() as socket:
        await socket.send(b'{"type":"\xff"}', text=True)
        assert (await closed(socket))[0] == 1007


async def test_text_in_pieces_is_one_request(running: Running) -> None:
    async with running.connect() as socket:
        await socket.send(['{"type":"pi', 'ng","i', 'd":"é"}'])
        assert (await hear(socket))["id"] == "é"


async def test_a_client_that_goes_leaves_nothing_behind(running: Running) -> None:
    sessions, hub = running.gateway.sessions, running.gateway.hub
    async with running.connect() as socket:
        await subscribe(socket, BTC, ETH)
        assert hub.subscribers(BTC) == 1
    await until(lambda: sessions.live == 0 and sessions.unverified == 0)
    assert hub.subscribers(BTC) == hub.subscribers(ETH) == 0
    broken = sockets.create_connection(("127.0.0.1", running.port))
    broken.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n")
    broken.close()
    async with running.connect() as socket:
        await subscribe(socket, BTC)
        socket.transport.abort()
    await until(lambda: hub.subscribers(BTC) == 0)


async def test_subscribing_twice_delivers_once(running: Running) -> None:
    async with running.connect() as socket:
        await subscribe(socket, TRADES)
        await subscribe(socket, TRADES, TRADES)
        await running.publish(trade(1))
        assert (await hear(socket))["type"] == "event"
        await say(socket, type="ping", id="p")
        assert (await hear(socket))["type"] == "pong"


async def test_a_restart_sends_everyone_away_to_come_back(tmp_path: Path) -> None:
    async with started(tmp_path) as running:
        opened = [await running.connect() for _ in range(20)]
        for socket in opened:
            await subscribe(socket, BTC)
        codes = [asyncio.create_task(closed(socket)) for socket in opened]
    assert {code for code, _ in await asyncio.gather(*codes)} == {4000}
    assert all(
        connection.session is None or connection.session.state is State.CLOSED
        for connection in running.gateway.sessions.everyone()
    )


async def test_a_restart_spreads_those_who_come_back_over_seconds(running: Running) -> None:
    sessions, clock = running.gateway.sessions, 0.0
    left: list[tuple[float, int]] = []

    async def pass_time(seconds: float) -> None:
        nonlocal clock
        left.append((clock, sessions.live))
        clock += seconds

    opened = [await running.connect() for _ in range(50)]
    await until(lambda: sessions.live == 50)
    await sessions.send_away(LIMITS.restart_spread_s, pass_time)
    counts = [50, *(count for _, count in left), 0]
    gone = [before - after for before, after in pairwise(counts)]
    assert max(gone) <= 3, "small groups"
    assert left[-1][0] >= 0.8 * LIMITS.restart_spread_s, "over the whole time"
    for socket in opened:
        await socket.wait_closed()
        assert socket.close_code == 4000
