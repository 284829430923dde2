"""Live data on demand: by subscribing, and by a request; the ingestors are told, and it ends when nobody wants it."""

import asyncio
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest
import zmq

from artery.ingest.parts import Parts
from artery.ingest.requests import Requests
from artery.ingest.summons import Summons
from artery.live.lock import StoreLock
from artery.live.memory import MemoryPubSub
from artery.model import symbols
from artery.model.channels import Channel
from artery.model.symbols import Symbol
from artery.relay import realtime
from artery.relay.demand import JUDGED_MAX, UNKNOWN_S, Demand, live_tickers
from artery.settings import Settings
from artery.store import demand
from artery.store.base import Store
from artery.wire.artery_pb2 import DataRequest, IngestorControl, StatusRequest, StatusResponse, SubmitResponse
from artery.wire.listeners import Listeners
from tests.ingest.scripted import ScriptedVenue
from tests.relay.conftest import House, Peer, relay, soon, until

AVAX, LINK = Channel("sim", "AVAX"), Channel("sim", "LINK")
Action = IngestorControl


async def listed(house: House, *markets: Channel) -> None:
    for market in markets:
        symbol = Symbol(market.provider, market.market, market.market, "USDC", Decimal(1), Decimal(1))
        await house.store.put(symbols.key(market.provider, market.market), symbols.write(symbol))


async def wants(house: House, *markets: Channel) -> None:
    async def so() -> bool:
        return set(await demand.demanded(house.store)) == set(markets)

    await until(so, f"{markets} are wanted")


def request(ticker: str = "SIM:AVAX", request_id: str = "live-1", **fields: object) -> DataRequest:
    return DataRequest(
        request_id=request_id, client_id="c1", type=DataRequest.REALTIME_TICKS, ticker=ticker,
        realtime=DataRequest.Realtime(include_ticks=True), **fields,  # type: ignore[arg-type]
    )  # fmt: skip


async def ordered(peer: Peer, action: int, contains: str = "") -> IngestorControl:
    """The next order of this kind."""
    while True:
        _, order = await peer.hear()
        assert isinstance(order, IngestorControl)
        if order.action == action and contains in order.config:
            return order


def control(house: House) -> Peer:
    peer = house.peer(zmq.SUB, house.where.control)
    peer.socket.setsockopt(zmq.SUBSCRIBE, b"")
    return peer


async def test_the_first_subscriber_makes_a_market_wanted_and_metadata_alone_does_not(house: House) -> None:
    await listed(house, AVAX, LINK)
    subscriber = house.subscriber()
    for topic in ("SIM:AVAX|tick|", "SIM:LINK|market|", "RESPONSE:me|", "SIM:NOPE|tick|"):
        await subscriber.subscribe(topic)
    await wants(house, AVAX)


async def test_who_subscribes_twice_and_goes_wants_nothing_any_more(house: House) -> None:
    await listed(house, AVAX, LINK)
    soon_left = house.settings.with_(ingest={"demand_leave_s": 0.1})
    async with relay(soon_left, house.bus, house.store) as where:
        here = replace(house, where=where)
        processor, twice, other = here.processor(), here.subscriber(), here.subscriber()
        for peer in (twice, twice, other):
            await peer.subscribe("SIM:AVAX|tick|")
        await other.subscribe("SIM:LINK|tick|")
        await wants(here, AVAX, LINK)
        for topic in (b"SIM:AVAX|tick|", b"SIM:LINK|tick|"):
            other.socket.setsockopt(zmq.UNSUBSCRIBE, topic)
        assert await left(processor) == b"SIM:LINK|tick|"
        await wants(here, AVAX)
        twice.socket.close(linger=0)
        assert await left(processor) == b"SIM:AVAX|tick|"
        await wants(here)
        again = here.subscriber()
        await again.subscribe("SIM:AVAX|tick|")
        await wants(here, AVAX)
        again.socket.close(linger=0)
        assert await left(processor) == b"SIM:AVAX|tick|", "the count is right after it too"


async def left(processor: Peer) -> bytes:
    """The next topic that nobody wants any more."""
    while True:
        (frame,) = await processor.receive()
        if frame[:1] == b"\0":
            return frame[1:]


async def test_ingestors_are_told_the_desired_state_again_and_again(house: House) -> None:
    await listed(house, AVAX, LINK)
    ingestor, subscriber = control(house), house.subscriber()
    await subscriber.subscribe("SIM:AVAX|ohlc:60|")
    first = await ordered(ingestor, Action.CONFIG_UPDATE, "AVAX")
    assert msgspec.json.decode(first.config) == {"markets": {"sim": ["AVAX"]}}
    again = await ordered(ingestor, Action.CONFIG_UPDATE, "AVAX")
    assert again == first
    await subscriber.subscribe("SIM:LINK|tick|")
    assert (await ordered(ingestor, Action.CONFIG_UPDATE, "LINK")).generation > first.generation
    assert (await ordered(ingestor, Action.HEARTBEAT)).generation > first.generation


async def test_a_request_for_live_data_is_held_renewed_and_cancelled(house: House) -> None:
    await listed(house, AVAX)
    ingestor, client = await house.ingestor(), house.client()
    accepted = await client.ask(request(), [b""])
    assert (accepted.status, accepted.notification_topic) == (SubmitResponse.ACCEPTED, "SIM:AVAX|tick|")
    topic, woken = await ingestor.hear()
    assert (topic, woken) == ("SIM:", request())
    await wants(house, AVAX)
    assert (await client.ask(request(), [b""])).status == SubmitResponse.DUPLICATE
    other = await client.ask(request("SIM:BTC"), [b""])
    assert (other.status, "was used for another market" in other.error) == (SubmitResponse.INVALID, True)
    asked = StatusRequest(request_id="live-1")
    assert (await client.ask(asked, [b""])).state == StatusResponse.FETCHING
    cancel = IngestorControl(action=Action.CANCEL, request_id="live-1")
    assert (await client.ask(cancel, [b""])).state == StatusResponse.DONE
    await wants(house)
    assert (await client.ask(asked, [b""])).state == StatusResponse.UNKNOWN


async def test_a_request_that_is_not_renewed_lapses(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realtime, "TTL_S", 0.3)
    await listed(house, AVAX)
    await house.ingestor()
    assert (await house.client().ask(request(), [b""])).status == SubmitResponse.ACCEPTED
    await wants(house)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request("SIM:NOPE"), "nobody here knows 'SIM:NOPE'"),
        (request("nonsense"), "is not a ticker"),
        (request(request_id=""), "request_id must be"),
        (
            DataRequest(
                request_id="x", type=DataRequest.REALTIME_TICKS, ticker="SIM:AVAX",
                realtime=DataRequest.Realtime(include_ohlc=True, ohlc_period_s=[7]),
            ),
            "no live candles of 7 s",
        ),
    ],
)  # fmt: skip
async def test_a_bad_request_for_live_data_gets_a_sentence(house: House, asked: DataRequest, words: str) -> None:
    await listed(house, AVAX)
    await house.ingestor()
    answer = await house.client().ask(asked, [b""])
    assert answer.status == SubmitResponse.INVALID
    assert words in answer.error
    assert await demand.demanded(house.store) == []


async def test_without_an_ingestor_nothing_is_kept(house: House) -> None:
    await listed(house, AVAX)
    answer = await house.client().ask(request(), [b""])
    assert answer.status == SubmitResponse.NO_INGESTOR
    assert await demand.demanded(house.store) == []


async def test_no_more_requests_are_held_than_the_setting_says(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await listed(house, AVAX)
    await house.ingestor()
    client = house.client()
    most = Settings().relay.demand_max
    for number in range(most):
        await house.store.put(demand.key(realtime.holder(f"r{number}"), AVAX), b"{}", 60.0)
    answer = await client.ask(request(request_id="one-more"), [b""])
    assert answer.status == SubmitResponse.INVALID
    assert f"{most} requests for live data are held already" in answer.error


async def test_more_markets_than_a_relay_may_want_are_refused_and_the_rest_stays(house: House) -> None:
    await listed(house, AVAX, LINK)
    listeners = Listeners()
    made = Demand(house.settings.with_(relay={"demand_max": 1}), house.store, listeners)
    listeners.take([b"\x01SIM:AVAX|tick|"])
    await made.look(0.0)
    listeners.take([b"\x01SIM:LINK|tick|"])
    await made.look(1.0)
    assert list(made.wanted()) == [AVAX]
    listeners.take([b"\x00SIM:AVAX|tick|"])
    listeners.take([b"\x01SIM:BTC|tick|"])
    await made.look(2.0)
    assert list(made.wanted()) == [LINK], "there is room now; no venue was found to have the other yet"
    await listed(house, Channel("sim", "BTC"))
    await made.look(7.5)
    assert list(made.wanted()) == [LINK, Channel("sim", "BTC")], "a market of the settings has always room"


class Counting:
    """A real store, and how often it is read."""

    def __init__(self, store: Store) -> None:
        self._store, self.reads = store, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: str) -> bytes | None:
        self.reads[key] += 1
        return await self._store.get(key)


async def test_thousands_of_tickers_that_nobody_knows_hold_nobody_up(house: House) -> None:
    listeners, store = Listeners(), Counting(house.store)
    made = Demand(house.settings, store, listeners)  # type: ignore[arg-type]
    count = 4 * JUDGED_MAX
    for number in range(count):
        listeners.take([b"\x01SIM:NOPE%d|tick|" % number])
    for look in range(1, 5):
        await made.look(0.0)
        assert store.reads.total() == look * JUDGED_MAX, "so many reads at one look"
    assert len(store.reads) == count, "and each ticker has its turn"
    await made.look(1.0)
    assert store.reads.total() == count, "not again for a while"
    await listed(house, AVAX)
    listeners.take([b"\x01SIM:AVAX|tick|"])
    await made.look(UNKNOWN_S + 1.0)
    assert list(made.wanted()) == [AVAX], "who is new comes first"
    for _ in range(4):
        await made.look(UNKNOWN_S + 1.0)
    assert set(store.reads.values()) == {1, 2}
    assert store.reads.total() == 2 * count + 1, "each is looked up again once"


def test_only_topics_with_live_data_name_a_market() -> None:
    found = [
        b"SIM:A|tick|",
        b"SIM:B|ohlc:60|",
        b"SIM:C|tick",
        b"SIM:D",
        b"SIM:E|market|",
        b"RESPONSE:x|",
        b"\xff|tick|",
    ]
    assert list(live_tickers(found)) == ["SIM:A", "SIM:B", "SIM:C"]


async def test_an_ingestor_looks_at_once_when_a_relay_says_that_other_markets_are_wanted(house: House) -> None:
    await listed(house, AVAX, LINK)
    parts = Parts(house.settings, house.bus, MemoryPubSub(), house.store, ScriptedVenue(("BTC",)))
    lock = StoreLock(house.store)
    task = asyncio.create_task(Summons(parts, Requests(parts, lock)).run())
    try:
        await house.subscriber().subscribe("SIM:AVAX|tick|")
        await soon(parts.stirred.wait())  # told on the control channel
        parts.stirred.clear()
        client = house.client()

        async def accepted() -> bool:
            return bool((await client.ask(request("SIM:LINK"), [b""])).status == SubmitResponse.ACCEPTED)

        await until(accepted, "the ingestor listens for work")
        await soon(parts.stirred.wait())  # woken on the work queue
    finally:
        task.cancel()
        await asyncio.wait({task})
        await lock.close()
