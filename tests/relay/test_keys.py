"""A relay with keys: who comes in, at which door, and what they can read."""

import asyncio
import random
import stat
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import zmq
from google.protobuf.message import Message
from typer.testing import CliRunner

from artery.app.relaying import make_pair, revoke_pair
from artery.cli.main import app
from artery.client.relay import Relay
from artery.errors import BadInput, BadSetting, NotFound
from artery.ingest.summons import Summons
from artery.pipeline.publisher import run_publisher
from artery.relay import guarded as guarded_fan
from artery.relay import metrics, service
from artery.settings import Settings
from artery.wire import certificates, messages
from artery.wire.artery_pb2 import (
    DataRequest,
    HistoryReadyNotification,
    IngestorControl,
    StatusRequest,
    StatusResponse,
    SubmitResponse,
    Tick,
)
from artery.wire.sockets import check_public
from tests.relay.conftest import Peer, soon, until
from tests.relay.guests import Guarded, guarded
from tests.relay.test_fuzz import SEED, frames, refused
from tests.relay.test_requests import asked

TICK = Tick(ticker="SIM:BTC", price="1", size="2", side="B", epoch=1, seq=1)
OUTCOME = HistoryReadyNotification(request_id="r1", client_id="c1", status=HistoryReadyNotification.READY, rows=1)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarded(tmp_path) as made:
        yield made


async def wanted(processor: Peer, topic: str) -> None:
    """Until a processor has heard that someone wants this."""
    while (await processor.receive())[0] != b"\x01" + topic.encode():
        continue


async def nothing_for(peer: Peer) -> None:
    """What is sent on one connection arrives in order, so a little while is enough."""
    assert await peer.socket.poll(50) == 0


def test_without_keys_an_address_that_others_can_reach_is_refused_and_with_them_it_is_not(tmp_path: Path) -> None:
    open_to_all = Settings().with_(relay={"host": "0.0.0.0", "advertise": "relay.example.org", "keys": str(tmp_path)})
    with pytest.raises(BadSetting, match=r"there is no relay\.key_secret"):
        service.check(open_to_all)
    make_pair(open_to_all, "alice", "", ["client"])
    service.check(open_to_all)
    with pytest.raises(BadSetting, match="set ART_RELAY_KEY, or use 127"):
        check_public("tcp://0.0.0.0:5557", carries_key=False)


def test_secrets_are_in_files_that_only_their_owner_can_read_and_in_no_text(tmp_path: Path) -> None:
    file = make_pair(Settings().with_(relay={"keys": str(tmp_path)}), "alice", "", ["client"])
    for path in (file, tmp_path / "relay.key_secret"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = certificates.carried(file)
    assert found is not None
    assert found.secret not in repr(found)
    assert found.secret not in (tmp_path / "allowed" / "alice.key").read_text()
    file.chmod(0o640)
    with pytest.raises(BadSetting, match="chmod 600"):
        certificates.carried(file)


def test_a_key_is_made_and_revoked_at_the_command_line(tmp_path: Path) -> None:
    run = CliRunner(env={"ART_RELAY_KEYS": str(tmp_path), "ART_DATA_DIR": str(tmp_path / "data")}).invoke
    assert (
        run(app, ["keys", "curve", "alice", "--roles", "client,ingestor"]).stdout.strip().endswith("alice.key_secret")
    )
    assert certificates.read(tmp_path / "allowed" / "alice.key").roles == ("client", "ingestor")
    assert run(app, ["keys", "curve", "alice"]).exit_code
    assert run(app, ["keys", "curve", "bob", "--roles", "king"]).exit_code
    assert run(app, ["keys", "curve", "alice", "--revoke"]).exit_code == 0
    assert list((tmp_path / "allowed").iterdir()) == []
    with pytest.raises(NotFound):
        revoke_pair(Settings().with_(relay={"keys": str(tmp_path)}), "../relay")


@pytest.mark.parametrize(
    "text", ["", "curve\n", 'public-key = "short"', "x" * 5_000, '\n public-key = "' + "é" * 40 + '"']
)
def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.key").write_text(text)
    with pytest.raises(BadSetting, match="holds no CURVE key"):
        certificates.read(tmp_path / "bad.key")


async def test_whoever_has_a_key_that_is_allowed_is_served(house: Guarded) -> None:
    assert (await house.client("alice").ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN
    subscriber, processor = house.subscriber("bob"), house.processor()
    await subscriber.subscribe("SIM:BTC|tick|")
    await wanted(processor, "SIM:BTC|tick|")
    await processor.send(*messages.publish("SIM:BTC|tick|", TICK))
    assert await subscriber.hear() == ("SIM:BTC|tick|", TICK)
    subscriber.socket.close(linger=0)
    while (await processor.receive())[0] != b"\x00SIM:BTC|tick|":
        continue


async def test_strangers_and_keys_for_another_door_are_not_let_in(house: Guarded) -> None:
    before = refused("keys")
    stranger = certificates.make("stranger", server=certificates.read(house.file("alice")).server)
    forged = house.peer(zmq.XPUB, house.where.processors, house.file("bob"))
    outside = [
        house.peer(zmq.DEALER, house.where.requests, stranger),
        house.peer(zmq.DEALER, house.where.requests, None),
        house.peer(zmq.DEALER, house.where.requests, house.file("ingestor")),
    ]
    for peer in outside:
        peer.socket.send_multipart(messages.write(StatusRequest(request_id="r1")), zmq.NOBLOCK)
    spies = [house.peer(zmq.SUB, url, house.file("bob")) for url in (house.where.work, house.where.control)]
    for spy in spies:
        spy.socket.setsockopt(zmq.SUBSCRIBE, b"")
    subscriber = house.subscriber("alice")
    await subscriber.subscribe("SIM:BTC|tick|")

    async def all_refused() -> bool:
        return refused("keys") >= before + 5

    await until(all_refused, "two wrong keys and three wrong doors are counted")
    await house.client("alice").ask(StatusRequest(request_id="r1"))
    assert await forged.socket.poll(50, zmq.POLLIN) == 0, "it hears of no subscription"
    for peer in (*outside, *spies):
        await nothing_for(peer)


async def test_what_is_said_to_one_user_no_other_can_read(house: Guarded) -> None:
    house.ingestor()
    alice, processor = house.subscriber("alice"), house.processor()
    await alice.subscribe("RESPONSE:c1|")
    await alice.subscribe("HISTORY_READY:r1|")
    spy = house.subscriber("bob")
    for topic in ("RESPONSE:c1|", "HISTORY_READY:r1|", "RESPONSE:", "R", "RESPONSE:c", "USER:alice|", ""):
        spy.socket.setsockopt(zmq.SUBSCRIBE, topic.encode())
    await spy.subscribe("RESPONSE:bobs|")
    await wanted(processor, "RESPONSE:")
    for topic in ("RESPONSE:c1|", "HISTORY_READY:r1|"):
        await processor.send(*messages.publish(topic, OUTCOME))
        assert await alice.hear() == (topic, OUTCOME)
    await processor.send(*messages.publish("SIM:BTC|tick|", TICK))
    assert await spy.hear() == ("SIM:BTC|tick|", TICK), "of everything, it gets what is for everyone"
    await nothing_for(spy)
    phone = house.subscriber("alice-phone")
    await phone.subscribe("RESPONSE:c1|")  # another key of the same user


async def test_a_request_belongs_to_who_made_it(house: Guarded) -> None:
    house.ingestor()
    alice, bob = house.client("alice"), house.client("bob")
    assert (await alice.ask(asked())).status == SubmitResponse.ACCEPTED
    for request_id, client_id in (("r1", "c2"), ("r2", "c1")):
        answer = await bob.ask(asked(request_id, client_id=client_id))
        assert answer.status == SubmitResponse.INVALID
        assert "belongs to another user" in answer.error
    assert (await bob.ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN
    cancel = IngestorControl(action=IngestorControl.CANCEL, request_id="r1")
    assert (await bob.ask(cancel)).state == StatusResponse.UNKNOWN
    assert (await alice.ask(StatusRequest(request_id="r1"))).state == StatusResponse.QUEUED


async def owned(house: Guarded) -> set[str]:
    return {name.removeprefix("artery:owner:") for name, _ in await house.store.scan("artery:owner:")}


async def test_asking_takes_nothing_and_only_what_is_kept_becomes_someones(house: Guarded) -> None:
    alice, bob = house.client("alice"), house.client("bob")
    assert (await bob.ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN
    cancel = IngestorControl(action=IngestorControl.CANCEL, request_id="r1")
    assert (await bob.ask(cancel)).state == StatusResponse.UNKNOWN
    live = DataRequest(request_id="r1", type=DataRequest.REALTIME_TICKS, ticker="SIM:BTC")
    for request in (asked(), live):
        assert (await bob.ask(request)).status == SubmitResponse.NO_INGESTOR
    assert await owned(house) == set()
    house.ingestor()

    async def accepted() -> bool:
        answer = await alice.ask(asked())
        assert answer.status != SubmitResponse.INVALID
        return bool(answer.status == SubmitResponse.ACCEPTED)

    await until(accepted, "the ingestor has come")
    assert await owned(house) == {"RESPONSE:c1", "HISTORY_READY:r1"}
    assert (await bob.ask(asked(client_id="c2"))).status == SubmitResponse.INVALID
    assert (await bob.ask(live)).status == SubmitResponse.INVALID
    assert await owned(house) == {"RESPONSE:c1", "HISTORY_READY:r1"}, "refused, it takes none of its topics"


async def test_a_revoked_key_is_cut_and_others_come_back_by_themselves(house: Guarded) -> None:
    alice, bob = house.subscriber("alice"), house.subscriber("bob")
    await alice.subscribe("SIM:BTC|tick|")
    await bob.subscribe("SIM:BTC|tick|")
    processor = house.processor()
    await wanted(processor, "SIM:BTC|tick|")
    revoke_pair(house.settings, "bob")
    await wanted(processor, "SIM:BTC|tick|")
    await processor.send(*messages.publish("SIM:BTC|tick|", TICK))
    while (await alice.hear())[1] != TICK:  # what was confirmed, and is now confirmed anew
        continue
    while await bob.socket.poll(0):
        assert (await bob.hear())[1] != TICK
    await nothing_for(bob)


async def test_someone_with_a_key_who_sends_anything_harms_no_one(house: Guarded) -> None:
    chance, before, before_out = random.Random(SEED), refused("clients"), shut_out()
    alice, processor = house.subscriber("alice"), house.processor()
    await alice.subscribe("SIM:BTC|tick|")
    await alice.subscribe("RESPONSE:c1|")
    hostile = house.peer(zmq.XSUB, house.where.clients, house.file("bob"))
    for _ in range(500):
        await hostile.send(*frames(chance))
        await hostile.send(bytes([chance.randrange(3)]) + chance.randbytes(chance.randrange(700)))
        await hostile.send(bytes([chance.randrange(2)]) + chance.choice((b"RESPONSE:", b"RESPONSE:c1|", b"", b"HIST")))
    await until(partial(outside, before_out), "it is shut out")
    for topic, said in (("SIM:BTC|tick|", TICK), ("RESPONSE:c1|", OUTCOME)):
        await until(partial(reaches, processor, alice, topic, said), "alice is back and hears what is hers")
    while await hostile.socket.poll(50):
        assert not (await hostile.receive())[0].startswith(b"RESPONSE:c1|")
    assert refused("clients") > before


async def test_a_private_topic_stays_private_behind_what_is_no_subscription(house: Guarded) -> None:
    """libzmq would give the victim's topic to the attacker: its list of senders lacks the one of the odd message."""
    odd, bob = (house.peer(zmq.XSUB, house.where.clients, house.file("bob")) for _ in range(2))
    for peer in (odd, bob):
        await peer.send(b"\x01SIM:BTC|tick|")
        await peer.hear()
    alice, processor, before = house.subscriber("alice"), house.processor(), shut_out()
    await alice.subscribe("SIM:BTC|tick|")
    together(odd, alice, bob)
    await until(partial(outside, before), "who sent it is shut out")
    await until(partial(reaches, processor, alice, "RESPONSE:c1|", OUTCOME), "alice is back and hears what is hers")
    while await bob.socket.poll(50):
        assert not (await bob.receive())[0].startswith(b"RESPONSE:")


async def test_what_is_no_subscription_and_holds_nobody_up_is_only_counted(house: Guarded) -> None:
    odd, alice = house.peer(zmq.XSUB, house.where.clients, house.file("bob")), house.subscriber("alice")
    before = refused("clients")
    await alice.subscribe("SIM:BTC|tick|")
    await odd.send(b"\x01SIM:BTC|tick|")
    await odd.hear()
    out = shut_out()
    await odd.send(b"odd")

    async def counted() -> bool:
        return refused("clients") == before + 1

    await until(counted, "it is counted")
    await odd.send(b"\x01SIM:ETH|tick|")
    assert (await odd.hear())[0] in ("SIM:BTC|tick|", "SIM:ETH|tick|")
    assert shut_out() == out


def together(odd: Peer, victim: Peer, attacker: Peer) -> None:
    """Have these wait at the relay in this order: its loop is this one, which is held up meanwhile."""
    zmq.Socket.shadow(odd.socket.underlying).send(b"odd", zmq.NOBLOCK)
    time.sleep(0.1)
    victim.socket.setsockopt(zmq.SUBSCRIBE, b"RESPONSE:c1|")
    time.sleep(0.1)
    zmq.Socket.shadow(attacker.socket.underlying).send(b"\x01SIM:ETH|tick|", zmq.NOBLOCK)
    time.sleep(0.1)


def shut_out() -> float:
    return float(metrics.REFUSED.labels("keys", "shut_out")._value.get())


async def outside(before: float) -> bool:
    return shut_out() > before


async def reaches(processor: Peer, subscriber: Peer, topic: str, said: Message) -> bool:
    """Whether what is published arrives, beside whatever else does."""
    await processor.send(*messages.publish(topic, said))
    while await subscriber.socket.poll(50):
        if await subscriber.hear() == (topic, said):
            return True
    return False


async def test_a_user_may_hold_only_so_many_private_topics_at_once(
    house: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_fan, "PRIVATE_MAX", 1)
    before, first, second = refused("clients"), house.subscriber("alice"), house.subscriber("alice-phone")
    await first.subscribe("RESPONSE:c1|")
    await second.subscribe("RESPONSE:c1|")  # the same one counts once
    second.socket.setsockopt(zmq.SUBSCRIBE, b"RESPONSE:c2|")

    async def one_more() -> bool:
        return refused("clients") == before + 1

    await until(one_more, "a second topic is refused")
    first.socket.close(linger=0)

    async def heard() -> bool:
        third = house.subscriber("alice")
        third.socket.setsockopt(zmq.SUBSCRIBE, b"RESPONSE:c2|")
        return bool(await third.socket.poll(500))

    await until(heard, "a topic that was left makes room for another")


async def test_a_new_key_is_let_in_while_the_relay_runs(house: Guarded) -> None:
    carol = house.peer(zmq.DEALER, house.where.requests, house.make("carol"))
    assert (await carol.ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN


async def test_the_sdk_ingest_and_the_pipeline_show_their_keys(house: Guarded) -> None:
    from artery.ingest.parts import Parts
    from artery.live.memory import MemoryPubSub
    from tests.ingest.scripted import ScriptedVenue

    def with_key(name: str) -> Settings:
        return house.settings.with_(relay={"key": str(house.file(name))})

    class Nobody:
        def cancel(self, request_id: str) -> None:
            raise AssertionError(request_id)

    parts = Parts(with_key("ingestor"), house.bus, MemoryPubSub(), house.store, ScriptedVenue(("BTC",)))
    tasks = [
        asyncio.create_task(Summons(parts, Nobody()).run()),  # type: ignore[arg-type]
        asyncio.create_task(run_publisher(house.bus, house.store, with_key("processor"))),
    ]
    try:
        async with Relay(house.where.requests, house.where.clients, house.file("alice")) as relay:
            fetching = asyncio.create_task(relay.fetch("SIM:BTC", "1m", since="1h", request_id="r1"))
            await until(lambda: house.bus.read("request"), "the request is on the bus")
            await house.bus.ensure_group("notify", "cg_publish_notify")
            from artery.wire import requests

            (entry,) = await house.bus.read("request")
            outcome = HistoryReadyNotification(
                request_id="r1",
                client_id=requests.decode(entry.fields).client_id,
                status=HistoryReadyNotification.READY,
            )
            await house.bus.append("notify", [requests.encode_outcome(outcome, event_ts=1)])
            assert await soon(fetching) == outcome
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def test_a_name_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="name is 1 to 64"):
        make_pair(Settings().with_(relay={"keys": str(tmp_path)}), "../x", "", ["client"])
