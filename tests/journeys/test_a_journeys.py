"""A venue's trades reach a client, the chart's history and the lake, through all of Artery."""

import asyncio

import httpx
import pyarrow as pa
import pytest
from websockets.asyncio.client import connect

from artery.client import Artery, Gap, history
from artery.errors import BadInput, NotAllowed, Unavailable, UnknownChannel
from artery.lake.reads import Lake
from artery.model.events import Book, Candle, Trade
from bench.running import Running
from tests.journeys.waiting import until


async def test_trades_books_and_candles_reach_a_client_in_order(artery: Running) -> None:
    seen: dict[type, int] = {}
    gaps: list[str] = []
    last = 0
    async with asyncio.timeout(120), Artery(artery.url, artery.key) as client:
        async for event in client.stream("SIM:BTC"):
            seen[type(event)] = seen.get(type(event), 0) + 1
            if isinstance(event, Gap):
                gaps.append(event.reason)
            if isinstance(event, Trade):
                assert last == 0 or event.seq == last + 1
                last = event.seq
            if seen.get(Trade, 0) > 5 and seen.get(Book) and seen.get(Candle, 0) > 2:
                break
    assert set(gaps) <= {"upstream", "failover"}, "only the feed's own start may be said to be unwatched"


async def test_the_chart_has_a_past(artery: Running) -> None:
    async with Artery(artery.url, artery.key) as client:
        for period, since, rows in (("1m", "1d", 1_400), ("1h", "2d", 40)):
            starts = await until(f"the past of {period}", lambda: past(client, period, since, rows), within_s=60)  # noqa: B023
            assert starts == sorted(set(starts))


async def past(client: Artery, period: str, since: str, rows: int) -> list[int]:
    """The starts of a market's candles, once there are enough."""
    starts: list[int] = (await client.history("SIM:ETH", period, since)).column("start").to_pylist()
    return starts if len(starts) >= rows else []


async def test_history_reads_the_same_from_plain_code(artery: Running) -> None:
    async def six_hours() -> pa.Table | None:
        table = await asyncio.to_thread(history, artery.url, artery.key, "SIM:BTC", "5m", "6h")
        return table if table.num_rows >= 60 else None

    table = await until("six hours of candles", six_hours)
    frame = table.to_pandas()
    assert list(frame["start"]) == sorted(frame["start"])


async def test_trades_and_candles_are_in_the_lake(artery: Running) -> None:
    lake = Lake(artery.folder / "sim")

    async def rows() -> int:
        trades = await asyncio.to_thread(lake.trades, "SIM:BTC", 0, 2**42, 1_000)
        candles = await asyncio.to_thread(lake.candles, "SIM:BTC", 60, 0, 2**42, 1_000)
        return min(trades.num_rows, candles.num_rows)

    assert await until("rows in the lake", rows)


async def test_a_client_without_the_right_key_is_told_so(artery: Running) -> None:
    for key in ("", " ", "ключ"):
        with pytest.raises(NotAllowed, match="artery keys"):
            Artery(artery.url, key)
    for key in ("art_live_nobody.secret", "nonsense"):
        async with Artery(artery.url, key) as client:
            with pytest.raises(NotAllowed):
                await anext(client.stream("SIM:BTC"))
            with pytest.raises(NotAllowed):
                await client.history("SIM:BTC")


async def test_wrong_names_and_places_are_said_in_one_sentence(artery: Running) -> None:
    async with Artery(artery.url, artery.key) as client:
        with pytest.raises(UnknownChannel):
            await anext(client.stream("SIM:NOPE"))
        with pytest.raises(BadInput):
            await client.history("SIM:BTC", "1w")
    async with Artery("http://127.0.0.1:9", artery.key) as client:
        with pytest.raises(Unavailable, match="artery up"):
            await anext(client.stream("SIM:BTC"))
    with pytest.raises(BadInput):
        Artery("127.0.0.1:8080", artery.key)


async def test_bad_input_on_the_socket_hurts_nobody_else(artery: Running) -> None:
    headers = {"Authorization": f"Bearer {artery.key}"}
    url = artery.url.replace("http", "ws") + "/v1/stream"
    bad = ["not json", "[]", '{"type":"dance"}', '{"type":"subscribe","id":1}', '{"type":"subscribe","channels":"x"}']
    async with asyncio.timeout(120), Artery(artery.url, artery.key) as client:
        stream = client.stream("SIM:BTC", types=["TRADE"])
        assert await anext(stream)
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            for frame in bad:
                await socket.send(frame)
                answer = await socket.recv()
                assert '"error"' in str(answer), frame
        assert await _close_code(artery, b"x" * 10_000_000) == 1009
        for _ in range(5):
            assert isinstance(await anext(stream), Trade)
        await stream.aclose()


async def _close_code(artery: Running, payload: bytes) -> int:
    """The code with which the gateway answers one frame of this payload, byte by byte on a plain socket."""
    host, port = artery.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"GET /v1/stream HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Authorization: Bearer {artery.key}\r\n\r\n".encode()
    )
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\x81\xff" + len(payload).to_bytes(8) + bytes(4) + payload)
    head = await reader.readexactly(4)
    writer.transport.abort()
    assert head[0] == 0x88, "the first frame is not a close frame"
    return int.from_bytes(head[2:4])


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/history?provider=sim&market=BTC&interval=1m", {}, 401),
        ("/v1/history?provider=sim&market=BTC&interval=1w", None, 400),
        ("/v1/history?provider=sim&market=BTC&interval=1m&limit=x", None, 400),
        ("/v1/nothing", None, 404),
        ("/v1/markets", {"Host": "evil.example"}, 403),
    ],
)
async def test_bad_requests_get_an_error_body(
    artery: Running, path: str, headers: dict[str, str] | None, status: int
) -> None:
    key = {"Authorization": f"Bearer {artery.key}"}
    sent = headers if headers == {} else key | (headers or {})
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(artery.url + path, headers=sent)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message", "requestId"}
