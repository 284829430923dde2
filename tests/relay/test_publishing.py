"""From the log to clients: ticks, candles, markets and outcomes, through a real relay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import msgspec
import pytest

from artery.model import codec, symbols
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.model.symbols import Symbol
from artery.pipeline import publisher
from artery.pipeline.publisher import GROUP, run_publisher
from artery.wire import metadata, requests
from artery.wire.artery_pb2 import OHLC, HistoryReadyNotification, Market, SymbolMetadataUpdated, Tick
from tests.relay.conftest import House, Peer, until

TRADE = Trade(
    provider="sim", coin="BTC", event_ts=2, epoch=5, seq=1, ts=1, tid="t1", px=Decimal("1.5"), sz=Decimal(2), side="B"
)
CANDLE = Candle(
    provider="sim", coin="BTC", period=Period(60), start_ts=60_000, o=Decimal(1), h=Decimal(4), l=Decimal("0.5"),
    c=Decimal(2), v=Decimal(10), n=3, closed=True, rev=1, event_ts=2, epoch=5, seq=7,
)  # fmt: skip
OUTCOME = HistoryReadyNotification(request_id="r1", client_id="c1", status=HistoryReadyNotification.READY, rows=3)


@asynccontextmanager
async def processor(house: House) -> AsyncIterator[None]:
    task = asyncio.create_task(run_publisher(house.bus, house.store, house.settings))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def heard(subscriber: Peer, kind: type, append: object = None) -> tuple[str, object]:
    """The next message of a type; what is appended again and again meanwhile is what a market is: lively."""
    while True:
        if append is not None:
            await append()  # type: ignore[operator]
        if await subscriber.socket.poll(50) or append is None:
            topic, message = await subscriber.hear()
            if isinstance(message, kind):
                return topic, message


async def test_trades_and_candles_on_the_log_reach_who_subscribed(house: House) -> None:
    ticks, candles = house.subscriber(), house.subscriber()
    await ticks.subscribe("SIM:BTC|tick|")
    await candles.subscribe("SIM:BTC|ohlc:60|")
    async with processor(house):

        async def trade() -> None:
            await house.bus.append("trade", [codec.encode(TRADE)])

        async def candle() -> None:
            await house.bus.append("candle", [codec.encode(CANDLE)])

        assert await heard(ticks, Tick, trade) == (
            "SIM:BTC|tick|",
            Tick(ticker="SIM:BTC", ts_ms=1, trade_id="t1", price="1.5", size="2", side="B", epoch=5, seq=1),
        )
        assert await heard(candles, OHLC, candle) == (
            "SIM:BTC|ohlc:60|",
            OHLC(
                ticker="SIM:BTC", period_s=60, start_ms=60_000, open="1", high="4", low="0.5", close="2", volume="10",
                trades=3, closed=True, rev=1, epoch=5, seq=7,
            ),
        )  # fmt: skip


async def test_once_connected_no_tick_is_missing_and_a_bad_entry_harms_none(house: House) -> None:
    ticks = house.subscriber()
    await ticks.subscribe("SIM:BTC|tick|")
    async with processor(house):
        seq = 0

        async def trade() -> None:
            nonlocal seq
            seq += 1
            good = codec.encode(msgspec.structs.replace(TRADE, seq=seq, tid=str(seq)))
            other = good | {"coin": "ETH"}
            await house.bus.append("trade", [{"ver": "9", "t": "TRADE", "coin": "BTC"}, other, {"t": "x"}, good])

        _, first = await heard(ticks, Tick, trade)
        assert isinstance(first, Tick)
        for _ in range(200):
            await trade()
        seqs = [message.seq for _, message in [await heard(ticks, Tick) for _ in range(200)]]  # type: ignore[attr-defined]
        assert seqs == list(range(first.seq + 1, first.seq + 201))


async def test_who_subscribes_to_a_market_gets_its_metadata_at_once(house: House) -> None:
    symbol = Symbol("sim", "BTC", "BTC", "USDC", Decimal("0.5"), Decimal("0.001"), version=3)
    await house.store.put(symbols.key("sim", "BTC"), symbols.write(symbol))
    async with processor(house):
        for _ in range(2):  # the second one too, though the relay knew the topic
            subscriber = house.subscriber()
            await subscriber.subscribe("SIM:BTC|market|")
            topic, market = await heard(subscriber, Market)
            assert topic == "SIM:BTC|market|"
            assert isinstance(market, Market)
            assert (market.ticker, market.market, market.tick_size, market.version) == ("SIM:BTC", "BTC", "0.5", 3)
        newer = msgspec.structs.replace(symbol, tick_size=Decimal("0.25"), version=4)
        await house.bus.append("symbol", [symbols.encode(newer)])
        _, market = await heard(subscriber, Market)
        assert isinstance(market, Market)
        assert (market.tick_size, market.version) == ("0.25", 4)


async def test_changed_metadata_is_told_of_on_its_topic(house: House) -> None:
    subscriber = house.subscriber()
    await subscriber.subscribe("METADATA_UPDATE|")
    said = SymbolMetadataUpdated(snapshot_id=7, provider="sim", count=2, version=9)
    await house.bus.append("notify", [metadata.encode(said, event_ts=1)])
    async with processor(house):
        assert await heard(subscriber, SymbolMetadataUpdated) == ("METADATA_UPDATE|", said)


async def test_an_outcome_is_said_on_both_topics_several_times_and_then_acked(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_client, by_request = house.subscriber(), house.subscriber()
    await by_client.subscribe("RESPONSE:c1|")
    await by_request.subscribe("HISTORY_READY:r1|")
    await house.bus.append("notify", [{"ver": "1", "t": "NOTIFY", "kind": "other"}])
    await house.bus.append("notify", [requests.encode_outcome(OUTCOME, event_ts=1)])
    monkeypatch.setattr(publisher, "SAY_AGAIN_S", tuple(number / 10 for number in range(30)))
    async with processor(house):
        for _ in range(2):
            assert await heard(by_client, HistoryReadyNotification) == ("RESPONSE:c1|", OUTCOME)
        assert await heard(by_request, HistoryReadyNotification) == ("HISTORY_READY:r1|", OUTCOME)

        async def acked() -> bool:
            state = await house.bus.group("notify", GROUP)
            return state.lag == state.pending == 0

        await until(acked, "the outcome is acked")


async def test_an_outcome_that_a_dead_publisher_had_taken_is_said_by_the_next(house: House) -> None:
    subscriber = house.subscriber()
    await subscriber.subscribe("RESPONSE:c1|")
    await house.bus.append("notify", [requests.encode_outcome(OUTCOME, event_ts=1)])
    await house.bus.ensure_group("notify", GROUP)
    assert len(await house.bus.read_new("notify", GROUP, publisher.ME)) == 1
    async with processor(house):
        assert await heard(subscriber, HistoryReadyNotification) == ("RESPONSE:c1|", OUTCOME)
