"""The relay's life: ports that are taken, addresses that are open to all, and coming back."""

import asyncio
import socket
from pathlib import Path

import msgspec
import pytest
import zmq
import zmq.asyncio

from artery.app.relaying import make_pair, where
from artery.bus.open import open_bus
from artery.errors import BadSetting, Unavailable
from artery.relay import service
from artery.settings import Settings
from artery.store.open import open_store
from artery.wire import relays
from artery.wire.artery_pb2 import StatusRequest
from tests.relay.conftest import FREE, House, Peer, relay, until
from tests.relay.guests import guarded


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_address_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(BadSetting, match="open to all"):
        service.check(Settings().with_(relay={"host": host}))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loopback_needs_nothing(host: str) -> None:
    service.check(Settings().with_(relay={"host": host}))
    assert relays.PREFIX == "artery:relay:"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "*"])
def test_a_relay_on_every_address_has_to_say_by_which_it_is_reached(tmp_path: Path, host: str) -> None:
    everywhere = Settings().with_(relay={"host": host, "keys": str(tmp_path)})
    make_pair(everywhere, "alice", "", ["client"])
    with pytest.raises(BadSetting, match="set ART_RELAY_ADVERTISE"):
        service.check(everywhere)
    for good in ("relay.example.org", "192.0.2.1", "2001:db8::1"):
        service.check(everywhere.with_(relay={"advertise": good}))
    for bad in ("0.0.0.0", "::", "tcp://relay", "relay:5559", "a b"):
        with pytest.raises(BadSetting, match="not a name or address"):
            service.check(everywhere.with_(relay={"advertise": bad}))


async def test_a_relay_says_the_place_by_which_it_is_reached(tmp_path: Path) -> None:
    async with guarded(tmp_path, host="0.0.0.0", advertise="localhost") as house:
        assert house.where.clients.startswith("tcp://localhost:")
        assert (await house.client("alice").ask(StatusRequest(request_id="r1"))).request_id == "r1"

        async def known() -> list[relays.Relay]:
            return relays.decode(await house.store.scan(relays.PREFIX))

        assert await until(known, "the store knows the relay") == [house.where]
    assert relays.reached_by(house.where, "2001:db8::1").clients.startswith("tcp://[2001:db8::1]:")


async def test_a_taken_port_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "AGAIN_S", 0.05)
    monkeypatch.setattr(service, "AGAIN_MOST_S", 0.05)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        settings = Settings().with_(data={"dir": str(tmp_path)}, relay=FREE | {"client_port": port})
        settings.folder.mkdir()
        bus, store = open_bus(settings.bus_url()), open_store(settings.store_url())
        found: list[relays.Relay] = []
        task = asyncio.create_task(service.run_relay(settings, bus, store, found.append))
        await asyncio.sleep(0.2)
        assert not found
        assert not task.done()

    async def there() -> bool:
        return bool(found)

    await until(there, "the relay takes the port once it is free")
    assert found[0].clients.endswith(f":{port}")
    task.cancel()
    await asyncio.wait({task})
    await bus.close()
    await store.close()


async def test_a_relay_says_where_it_is_and_no_longer_once_it_stops(house: House) -> None:
    async def known() -> list[relays.Relay]:
        return relays.decode(await house.store.scan(relays.PREFIX))

    assert await until(known, "the store knows the relay") == [house.where]
    async with relay(house.settings, house.bus, house.store) as second:

        async def both() -> bool:
            return set(await known()) == {house.where, second}

        await until(both, "the store knows both")
    assert await known() == [house.where]


async def test_clients_find_a_relay_that_was_gone(house: House) -> None:
    ports = dict.fromkeys(FREE, 0)
    context = zmq.asyncio.Context()
    try:
        async with relay(house.settings.with_(relay=ports), house.bus, house.store) as first:
            urls = (first.requests, first.work, first.control, first.processors, first.clients)
            names = ("request_port", "work_port", "control_port", "processor_port", "client_port")
            same = {name: int(url.rpartition(":")[2]) for name, url in zip(names, urls, strict=True)}
            subscriber, client = Peer(context, zmq.SUB, first.clients), Peer(context, zmq.DEALER, first.requests)
            await subscriber.subscribe("RESPONSE:c1|")
            await client.ask(StatusRequest(request_id="r1"))
        async with relay(house.settings.with_(relay=same), house.bus, house.store):
            topic, message = await subscriber.hear()  # its subscription came back by itself, and is confirmed anew
            assert (topic, message.topic) == ("RESPONSE:c1|", "RESPONSE:c1|")
            assert (await client.ask(StatusRequest(request_id="r1"))).request_id == "r1"
    finally:
        context.destroy(linger=0)


async def test_a_relay_that_was_killed_or_asks_for_a_key_is_passed_over(house: House) -> None:
    with socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))  # and does not listen
        dead = f"tcp://127.0.0.1:{gone.getsockname()[1]}"
        await house.store.put(relays.key("0-dead"), relays.encode(msgspec.structs.replace(house.where, requests=dead)))
        closed = msgspec.structs.replace(house.where, keys=True, clients="tcp://127.0.0.1:1")
        await house.store.put(relays.key("0-keys"), relays.encode(closed))
        assert await where(house.settings) == house.where
        for name, _ in await house.store.scan(relays.PREFIX):
            if not name.startswith(relays.key("0-")):
                await house.store.delete(name)
        with pytest.raises(Unavailable, match="no relay runs"):
            await where(house.settings)
