"""Processors behind a name: whoever DNS names is heard, also when that changes; and when DNS fails, nobody is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest
import zmq
import zmq.asyncio
from prometheus_client import REGISTRY

from artery.errors import BadSetting
from artery.model import symbols
from artery.model.symbols import Symbol
from artery.pipeline import publisher
from artery.relay import discovery, service
from artery.relay.crew import DRAIN_S, Crew
from artery.relay.discovery import Discovery, place_of
from artery.relay.fanout import Fanout
from artery.settings import Settings
from artery.store.open import open_store
from artery.wire import messages, relays
from artery.wire.artery_pb2 import Tick
from artery.wire.sockets import Context
from tests.relay.conftest import FREE, Peer, relay, until
from tests.relay.guests import guarded
from tests.relay.nameserver import NameServer, name_server
from tests.servers import free_port

NAME, TOPIC = "spark.artery.test", "SIM:BTC|tick|"


class Processor:
    """One that listens, on an address of its own in 127/8, at the port that all of them share."""

    def __init__(self, context: zmq.asyncio.Context, address: str, port: int = 0) -> None:
        self.peer = Peer(context, zmq.XPUB)
        self.peer.socket.bind(f"tcp://{address}:{port or '*'}")
        self.url = self.peer.socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        self.address, self.port = address, int(self.url.rpartition(":")[2])
        self._sent = 0

    async def reaches(self, subscriber: Peer) -> None:
        """Wait until the relay has come and subscribed, then say something and see it arrive."""
        while (await self.peer.receive())[0] != b"\x01" + TOPIC.encode():
            continue
        await self.says(subscriber)

    async def says(self, subscriber: Peer) -> None:
        self._sent += 1
        tick = Tick(ticker="SIM:BTC", trade_id=self.address, seq=self._sent)
        await self.peer.send(*messages.publish(TOPIC, tick))
        while (await subscriber.hear())[1] != tick:
            continue


def lookups(outcome: str) -> float:
    return REGISTRY.get_sample_value("artery_relay_processor_lookups_total", {"outcome": outcome}) or 0.0


async def looked(outcome: str) -> None:
    """Until the relay has looked twice more, with this outcome."""
    before = lookups(outcome)

    async def twice() -> bool:
        return lookups(outcome) >= before + 2

    await until(twice, f"two looks that {outcome}")


@pytest.fixture
async def dns() -> AsyncIterator[tuple[NameServer, str]]:
    async with name_server() as found:
        yield found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LOOK_S", 0.05)
    monkeypatch.setattr(discovery, "ANSWER_S", 0.3)
    monkeypatch.setattr(relays, "SAY_S", 0.05)
    monkeypatch.setattr(publisher, "LOOK_FIRST_S", 0.05)


async def test_the_relay_follows_a_name_and_keeps_whom_it_knows_while_the_name_server_fails(
    tmp_path: Path, dns: tuple[NameServer, str]
) -> None:
    server, nameserver = dns
    context = zmq.asyncio.Context()
    one = Processor(context, "127.0.0.1")
    two = Processor(context, "127.0.0.2", one.port)
    server.records[NAME] = [one.address]
    made = {"processors": (f"{NAME}:{one.port}",), "nameserver": nameserver}
    settings = Settings().with_(data={"dir": str(tmp_path)}, relay=FREE | made)
    settings.folder.mkdir()
    store = open_store(settings.store_url())

    def connected(*wanted: Processor) -> Callable[[], object]:
        async def are() -> bool:
            (found,) = relays.decode(await store.scan(relays.PREFIX)) or [None]
            return found is not None and set(found.connected) == {each.url for each in wanted}

        return are

    try:
        async with relay(settings, None, store) as where:  # type: ignore[arg-type]  # nobody asks for history
            assert where.processors == "", "nobody can connect to this one"
            subscriber = Peer(context, zmq.SUB, where.clients)
            await subscriber.subscribe(TOPIC)
            await one.reaches(subscriber)
            server.records[NAME] = [one.address, two.address]
            await two.reaches(subscriber)
            await until(connected(one, two), "it says that it is connected to both")  # type: ignore[arg-type]
            for mood in ("failing", "silent"):
                server.mood = mood  # type: ignore[assignment]
                await looked("failed")
                await one.says(subscriber)
                await two.says(subscriber)
            server.mood, server.records[NAME] = "well", [two.address]
            await looked("answered")
            await one.says(subscriber)  # no longer named, and still heard until it ends
            one.peer.socket.close(linger=0)
            await until(connected(two), "it has left the one")  # type: ignore[arg-type]
            await two.says(subscriber)
            again = Processor(context, one.address, one.port)
            await looked("answered")
            assert await again.peer.socket.poll(0) == 0, "it does not come back to one that is not named"
    finally:
        context.destroy(linger=0)
        await store.close()


@asynccontextmanager
async def following(nameserver: str, port: int) -> AsyncIterator[Discovery]:
    """The name is followed, without the rest of a relay."""
    context = Context()
    fan = Fanout(context, lambda: 0)
    found = Discovery((f"{NAME}:{port}",), nameserver, fan)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait({task})
        fan.discard()
        await context.close()


@pytest.mark.parametrize("others", ["notimp", "servfail", "refused", "silence"])
async def test_a_name_server_that_knows_only_a_is_enough(dns: tuple[NameServer, str], others: str) -> None:
    server, nameserver = dns
    context = zmq.asyncio.Context()
    one = Processor(context, "127.0.0.1")
    two = Processor(context, "127.0.0.2", one.port)
    server.records[NAME], server.others = [one.address], others  # type: ignore[assignment]
    try:
        async with following(nameserver, one.port) as found:

            async def both() -> bool:
                return set(found.connected()) == {one.url, two.url}

            async def first() -> bool:
                return found.connected() == (one.url,)

            await until(first, "it is connected to the one")
            server.records[NAME] = [one.address, two.address]
            await until(both, "a change is seen")
    finally:
        context.destroy(linger=0)


async def test_a_name_without_an_address_is_said_once(
    dns: tuple[NameServer, str], capsys: pytest.CaptureFixture[str]
) -> None:
    server, nameserver = dns
    server.records[NAME] = []
    async with following(nameserver, 5557):
        await looked("answered")
    assert "".join(capsys.readouterr()).count("the name of processors has no address now") == 1


async def test_with_keys_a_processor_that_listens_lets_only_the_relay_in(
    tmp_path: Path, dns: tuple[NameServer, str]
) -> None:
    server, nameserver = dns
    server.records[NAME] = ["127.0.0.1"]
    port = free_port()
    async with guarded(tmp_path, processors=(f"{NAME}:{port}",), nameserver=nameserver) as house:
        mine = {"key": str(house.file("processor"))}
        settings = house.settings.with_(relay=mine, pipeline={"publish_url": f"tcp://127.0.0.1:{port}"})
        task = asyncio.create_task(publisher.run_publisher(house.bus, house.store, settings))
        try:
            symbol = Symbol("sim", "BTC", "BTC", "USDC", Decimal(1), Decimal(1))
            await house.store.put(symbols.key("sim", "BTC"), symbols.write(symbol))
            subscriber = house.subscriber("alice")
            await subscriber.subscribe("SIM:BTC|market|")
            topic, market = await subscriber.hear()
            assert (topic, market.market) == ("SIM:BTC|market|", "BTC")
            spy = house.peer(zmq.SUB, f"tcp://127.0.0.1:{port}", house.file("bob"))
            spy.socket.setsockopt(zmq.SUBSCRIBE, b"")
            assert await spy.socket.poll(200) == 0
        finally:
            task.cancel()
            await asyncio.wait({task})


def test_one_that_is_no_longer_named_is_left_when_it_ends_or_after_a_while() -> None:
    crew = Crew()
    crew.name({"a", "b", "c"}, 0.0)
    for url in ("a", "b", "c"):
        crew.came(url)
    crew.name({"a"}, 10.0)
    assert crew.urls(10.0) == {"a", "b", "c"}
    crew.went("b")
    assert crew.urls(11.0) == {"a", "c"}
    assert crew.connected() == ("a", "c")
    crew.name({"a", "c"}, 12.0)
    assert crew.urls(10.0 + DRAIN_S) == {"a", "c"}, "named again, it stays"
    crew.name({"a"}, 20.0)
    assert crew.urls(20.0 + DRAIN_S) == {"a"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tcp://10.0.0.1:5557", ("tcp://10.0.0.1:5557", 0)),
        ("10.0.0.1:5557", ("tcp://10.0.0.1:5557", 0)),
        ("[::1]:5557", ("tcp://[::1]:5557", 0)),
        ("spark.artery.svc:5557", ("spark.artery.svc", 5557)),
    ],
)
def test_a_place_is_an_address_or_a_name(text: str, place: tuple[str, int]) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize("text", ["spark", "spark:", ":5557", "spark:99999", "spark:x"])
def test_what_is_no_place_is_refused_at_start(text: str) -> None:
    with pytest.raises(BadSetting, match="ART_RELAY_PROCESSORS takes"):
        service.check(Settings().with_(relay={"processors": (text,)}))


@pytest.mark.parametrize("text", ["127.0.0.1", "dns.example:53", "127.0.0.1:", "[::1]:x"])
def test_what_is_no_name_server_is_refused_at_start(text: str) -> None:
    with pytest.raises(BadSetting, match="ART_RELAY_NAMESERVER takes"):
        service.check(Settings().with_(relay={"nameserver": text}))
