"""The simulated venue speaks the venue's protocol, on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage

from artery.errors import CannotStart
from artery.providers.sim.listing import LISTINGS
from artery.providers.sim.service import run_sim
from artery.settings import Settings
from tests.providers.venue import DEADLINE_S, Place, parse_trades, place

MINUTE_MS = 60_000


@asynccontextmanager
async def socket(at: Place) -> AsyncIterator[ClientConnection]:
    """A connection that has been greeted."""
    async with connect(f"ws://127.0.0.1:{at.port}/ws", compression=None, proxy=None, max_size=None) as client:
        assert await client.recv() == "Websocket connection established."
        yield client


async def send(client: ClientConnection, **message: Any) -> None:
    await client.send(msgspec.json.encode(message).decode())


async def subscribe(client: ClientConnection, **subscription: Any) -> None:
    await send(client, method="subscribe", subscription=subscription)


async def receive(client: ClientConnection) -> str:
    async with asyncio.timeout(DEADLINE_S):
        text = await client.recv()
    assert isinstance(text, str)
    return text


async def until(client: ClientConnection, channel: str) -> str:
    """The next frame of this channel."""
    while not (text := await receive(client)).startswith(f'{{"channel":"{channel}"'):
        pass
    return text


async def test_an_acknowledgement_has_its_defaults_filled_in_and_comes_before_the_data() -> None:
    async with place() as at, socket(at) as client:
        await subscribe(client, type="l2Book", coin="BTC")
        assert await receive(client) == (
            '{"channel":"subscriptionResponse","data":{"method":"subscribe","subscription":'
            '{"type":"l2Book","coin":"BTC","nSigFigs":null,"mantissa":null,"fast":false}}}'
        )
        book = msgspec.json.decode(await receive(client))
        assert list(book["data"]) == ["coin", "time", "levels"]
        assert [len(side) for side in book["data"]["levels"]] == [20, 20]
        assert list(book["data"]["levels"][0][0]) == ["px", "sz", "n"]


async def test_a_fast_book_has_five_levels_and_says_so() -> None:
    async with place() as at, socket(at) as client:
        await subscribe(client, type="l2Book", coin="BTC", fast=True)
        book = msgspec.json.decode(await until(client, "l2Book"))["data"]
        assert [len(side) for side in book["levels"]] == [5, 5]
        assert book["fast"] is True


async def test_trades_open_with_past_ones_and_go_on_without_a_hole_or_a_repeat() -> None:
    async with place(rate=600) as at, socket(at) as client:
        await subscribe(client, type="trades", coin="BTC")
        rows: list[dict[str, Any]] = []
        opening = 0
        while len(rows) < 200:
            rows += msgspec.json.decode(await until(client, "trades"))["data"]
            opening = opening or len(rows)
        assert opening == 30
        assert list(rows[0]) == ["coin", "side", "px", "sz", "time", "hash", "tid", "users"]
        truth = await at.truth("BTC", rows[0]["time"], rows[-1]["time"] + 1)
        told = [str(row["tid"]) for row in rows]
        known = [trade.tid for trade in truth]
        assert told == known[known.index(told[0]) :]


async def test_no_trade_is_told_before_its_time() -> None:
    async with place(rate=600) as at, socket(at) as client:
        await subscribe(client, type="trades", coin="ETH")
        for _ in range(20):
            rows = msgspec.json.decode(await until(client, "trades"))["data"]
            assert all(row["time"] <= at.server.now_ms() for row in rows)


async def test_books_fit_the_trades_that_were_told_before_them() -> None:
    async with place(rate=600) as at, socket(at) as client:
        await subscribe(client, type="trades", coin="SOL")
        await subscribe(client, type="l2Book", coin="SOL")
        last: dict[str, Any] = {}
        checked = 0
        while checked < 10:
            message = msgspec.json.decode(await receive(client))
            if message["channel"] == "trades":
                last = message["data"][-1]
            elif message["channel"] == "l2Book" and last:
                bids, asks = message["data"]["levels"]
                assert (asks if last["side"] == "B" else bids)[0]["px"] == last["px"]
                checked += 1


async def test_mids_hold_every_market() -> None:
    async with place() as at, socket(at) as client:
        await subscribe(client, type="allMids")
        mids = msgspec.json.decode(await until(client, "allMids"))["data"]["mids"]
        assert list(mids) == [listing.coin for listing in LISTINGS]


async def test_a_candle_is_one_object_and_is_told_again_while_it_grows() -> None:
    async with place(rate=600) as at, socket(at) as client:
        await subscribe(client, type="candle", coin="BTC", interval="1m")
        first = msgspec.json.decode(await until(client, "candle"))["data"]
        again = msgspec.json.decode(await until(client, "candle"))["data"]
        assert list(first) == ["t", "T", "s", "i", "o", "c", "h", "l", "v", "n"]
        assert first["T"] == first["t"] + MINUTE_MS - 1
        assert (again["t"], again["n"]) > (first["t"], first["n"])


async def test_subscribing_twice_is_answered_with_an_error_and_the_socket_stays() -> None:
    async with place() as at, socket(at) as client:
        await subscribe(client, type="allMids")
        await subscribe(client, type="allMids")
        assert await until(client, "error") == (
            r'{"channel":"error","data":"Already subscribed: {\"type\":\"allMids\",\"dex\":null}"}'
        )
        await send(client, method="unsubscribe", subscription={"type": "allMids"})
        assert '"method":"unsubscribe"' in await until(client, "subscriptionResponse")
        await send(client, method="unsubscribe", subscription={"type": "allMids"})
        assert "Already unsubscribed: " in await until(client, "error")
        await send(client, method="ping")
        assert await receive(client) == '{"channel":"pong"}'


@pytest.mark.parametrize(
    "message",
    [
        "not JSON",
        "[]",
        '{"method":"dance"}',
        '{"method":"subscribe","subscription":{"type":"trades","coin":["BTC","ETH"]}}',
        '{"method":"subscribe","subscription":{"type":"candle","coin":"BTC","interval":"7m"}}',
    ],
)
async def test_what_cannot_be_read_is_answered_with_an_error(message: str) -> None:
    async with place() as at, socket(at) as client:
        await client.send(message)
        answer = await receive(client)
        assert answer.startswith('{"channel":"error","data":"Error parsing JSON into valid websocket request: ')


@pytest.mark.parametrize("coin", ["NOPE", "btc", "BTC-PERP"])
async def test_an_unknown_coin_closes_the_socket_without_a_word(coin: str) -> None:
    async with place() as at, socket(at) as client:
        await subscribe(client, type="trades", coin=coin)
        with pytest.raises(ConnectionClosed) as closed:
            await receive(client)
        assert closed.value.rcvd is None


async def test_a_request_over_the_socket_is_answered_as_over_http() -> None:
    async with place() as at, socket(at) as client:
        await send(client, method="post", id=4, request={"type": "info", "payload": {"type": "meta"}})
        answer = msgspec.json.decode(await receive(client))
        assert answer["data"]["id"] == 4
        assert answer["data"]["response"]["payload"]["data"]["universe"][0]["name"] == "BTC"


async def test_a_socket_that_nothing_is_sent_to_is_closed_without_a_word() -> None:
    async with place(idle_s=0.2) as at, socket(at) as client:
        with pytest.raises(ConnectionClosed) as closed:
            await receive(client)
        assert closed.value.rcvd is None


async def test_recent_trades_come_newest_first() -> None:
    async with place() as at:
        answer = await at.post("/info", {"type": "recentTrades", "coin": "BTC"})
        times = [trade.ts for trade in parse_trades(answer.text)]
        assert len(times) == 10
        assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/info", {"type": "weather"}, 422),
        ("/info", [1], 422),
        ("/info", {"type": "l2Book", "coin": "NOPE"}, 500),
        ("/info", {"type": "candleSnapshot", "req": {"coin": "BTC", "interval": "2m", "startTime": 0}}, 422),
        ("/faults", {"explode": True}, 400),
        ("/truth", {"coin": "BTC"}, 400),
        ("/truth", {"coin": "BTC", "start_ms": 0, "end_ms": 10**12}, 413),
        ("/elsewhere", {}, 404),
    ],
)
async def test_http_requests_that_are_no_good_are_refused(path: str, body: object, status: int) -> None:
    async with place() as at:
        assert (await at.post(path, body)).status_code == status


async def test_bytes_that_are_no_http_get_an_answer_and_the_venue_goes_on() -> None:
    async with place() as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
        await writer.wait_closed()
        assert (await at.post("/info", {"type": "allMids"})).status_code == 200


async def test_a_web_page_cannot_cause_faults() -> None:
    async with place() as at:
        request = (
            b"POST /faults HTTP/1.1\r\nhost: x\r\norigin: https://evil.example\r\ncontent-length: 13\r\n\r\n"
            b'{"drop":true}'
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        writer.write(request)
        assert (await reader.readline()).startswith(b"HTTP/1.1 403")
        writer.close()
        await writer.wait_closed()


async def test_while_it_refuses_nothing_gets_in() -> None:
    async with place() as at:
        await at.fault(refuse_s=600)
        with pytest.raises((InvalidMessage, ConnectionError)):
            async with connect(f"ws://127.0.0.1:{at.port}/ws", proxy=None):
                pass
        assert (await at.post("/info", {"type": "meta"})).status_code == 503
        await at.fault(refuse_s=0)
        assert (await at.post("/info", {"type": "meta"})).status_code == 200


async def test_the_service_says_its_port_and_serves_there() -> None:
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(run_sim(Settings().with_(sim={"port": 0}), ready=ready.set_result))
    try:
        port = await asyncio.wait_for(ready, DEADLINE_S)
        async with connect(f"ws://127.0.0.1:{port}/ws", proxy=None) as client:
            assert await client.recv() == "Websocket connection established."
        with pytest.raises(CannotStart, match="ART_SIM_PORT"):
            await run_sim(Settings().with_(sim={"port": port}), ready=lambda _: None)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
