"""Subscribers that do what no library would, and harm nobody by it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import zmq
import zmq.asyncio

from artery.pipeline.publisher import run_publisher
from artery.relay import metrics
from artery.wire import listeners as listeners_module
from artery.wire.artery_pb2 import IngestorControl, SubmitResponse
from artery.wire.listeners import TOPIC_MAX, Listeners
from artery.wire.relays import Relay
from artery.wire.sockets import BURST
from tests.relay.conftest import WAIT_S, House, Peer, soon, until
from tests.relay.guests import guarded
from tests.relay.raw import RawSubscriber
from tests.relay.test_demand import AVAX, left, listed, wants
from tests.relay.test_fanout import TICK, send
from tests.relay.test_keys import shut_out
from tests.relay.test_requests import asked
from tests.servers import free_port

LONG = b"x" * 200_000
"""libzmq would need more stack than there is to take it out of its tree."""
MANY = 20_000


@asynccontextmanager
async def alone(folder: Path) -> AsyncIterator[tuple[Relay, asyncio.subprocess.Process]]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.relay.alone", str(folder), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        yield msgspec.json.decode(await soon(child.stdout.readline()), type=Relay), child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def is_well(where: Relay, context: zmq.asyncio.Context) -> None:
    """Whether all three places where others subscribe serve someone new."""
    client, ingestor, control = (Peer(context, zmq.SUB, url) for url in (where.clients, where.work, where.control))
    await client.subscribe("SIM:BTC|tick|")
    ingestor.socket.setsockopt(zmq.SUBSCRIBE, b"SIM:")
    requests = Peer(context, zmq.DEALER, where.requests)
    assert (await requests.ask(asked("r1"))).status in (SubmitResponse.ACCEPTED, SubmitResponse.DUPLICATE)
    control.socket.setsockopt(zmq.SUBSCRIBE, b"")
    for _ in range(3):
        while (await control.hear())[1].action != IngestorControl.HEARTBEAT:
            continue
    for peer in (client, ingestor, control, requests):
        peer.socket.close(linger=0)


@pytest.mark.parametrize("where", ["clients", "work", "control"])
async def test_who_subscribes_to_a_topic_without_end_and_leaves_harms_no_one(tmp_path: Path, where: str) -> None:
    context = zmq.asyncio.Context()
    try:
        async with alone(tmp_path) as (relay, child):
            for way in ("message", "frames", "command"):
                rude = await asyncio.to_thread(RawSubscriber, getattr(relay, where))
                if way == "command":
                    await asyncio.to_thread(rude.command, LONG)
                else:
                    await asyncio.to_thread(rude.send, [b"\1a", b"\1" + LONG] if way == "frames" else [b"\1" + LONG])
                await asyncio.to_thread(rude.leave)
                await is_well(relay, context)
                assert child.returncode is None
    finally:
        context.destroy(linger=0)


async def test_with_keys_a_topic_without_end_ends_the_connection(tmp_path: Path) -> None:
    async with guarded(tmp_path) as house:
        rude = house.peer(zmq.XSUB, house.where.clients, house.file("bob"))
        await rude.send(b"\1SIM:BTC|tick|")
        assert (await rude.hear())[0] == "SIM:BTC|tick|"
        await ends(rude, b"\1" + b"x" * 5_000)
        await house.subscriber("alice").subscribe("SIM:BTC|tick|")


async def test_a_topic_without_end_ends_the_connection_to_the_pipeline_too(house: House) -> None:
    url = f"tcp://127.0.0.1:{free_port()}"
    task = asyncio.create_task(
        run_publisher(house.bus, house.store, house.settings.with_(pipeline={"publish_url": url}))
    )
    try:
        await ends(house.peer(zmq.XSUB, url), b"\1" + b"x" * 5_000)
    finally:
        task.cancel()
        await asyncio.wait({task})


async def ends(peer: Peer, frame: bytes) -> None:
    """Until the other side has ended the connection for this."""
    doings = peer.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    await peer.send(frame)
    await soon(doings.recv_multipart())
    peer.socket.disable_monitor()
    doings.close(linger=0)


@pytest.mark.parametrize("frames", [[b"odd", b"\0SIM:BTC|tick|"], [b"\1a", b"odd", b"\0SIM:BTC|tick|"]])
async def test_a_message_whose_last_frame_libzmq_withholds_takes_nothing_from_others(
    house: House, frames: list[bytes]
) -> None:
    """A leaving that leaves others on its topic is not handed over: the frames before it are left without an end."""
    first = house.subscriber()
    await first.subscribe("SIM:BTC|tick|")
    rude, confirmed = await asyncio.to_thread(RawSubscriber, house.where.clients), count(metrics.CONFIRMED)
    before = shut_out()
    await asyncio.to_thread(rude.send, [b"\1SIM:BTC|tick|"], frames)

    async def heard() -> bool:
        return count(metrics.CONFIRMED) > confirmed

    await until(heard, "its subscription is confirmed")
    for topic in ("SIM:ETH|tick|", "SIM:SOL|tick|"):
        await first.subscribe(topic)
        await house.subscriber().subscribe(topic)
    await asyncio.to_thread(rude.leave)
    assert shut_out() == before


@pytest.mark.parametrize("times", [1, 100])
async def test_who_leaves_what_they_never_had_takes_it_from_no_one(house: House, times: int) -> None:
    """libzmq tells of it as if the last one had left: processors, who are told so too, are told better."""
    await listed(house, AVAX)
    processor, first = house.processor(), house.subscriber()
    await first.subscribe("SIM:AVAX|tick|")
    assert (await processor.receive())[0] == b"\1SIM:AVAX|tick|"
    rude = await asyncio.to_thread(RawSubscriber, house.where.clients)
    await asyncio.to_thread(rude.send, *([b"\0SIM:AVAX|tick|"] for _ in range(times)))
    assert (await processor.receive())[0] == b"\0SIM:AVAX|tick|"
    await send(processor, "SIM:AVAX|tick|")
    while (await first.hear())[1] != TICK:
        continue
    await wants(house, AVAX)
    first.socket.close(linger=0)
    assert await left(processor) == b"SIM:AVAX|tick|", "and that the last one has left is still seen"
    await asyncio.to_thread(rude.leave)


async def test_who_leaves_what_others_have_says_nothing_to_processors(house: House) -> None:
    processor, first, second = house.processor(), house.subscriber(), house.subscriber()
    for peer in (first, second):
        await peer.subscribe("SIM:BTC|tick|")
    rude = await asyncio.to_thread(RawSubscriber, house.where.clients)
    twice = await asyncio.to_thread(RawSubscriber, house.where.clients)
    await asyncio.to_thread(rude.send, [b"\0SIM:BTC|tick|"], [b"\1SIM:ETH|tick|"])
    while (await processor.receive())[0] != b"\1SIM:ETH|tick|":
        continue
    await asyncio.to_thread(rude.leave)
    assert await left(processor) == b"SIM:ETH|tick|"
    await asyncio.to_thread(twice.send, [b"\1SIM:SOL|tick|"], [b"\1SIM:SOL|tick|"])
    await asyncio.to_thread(twice.leave)
    assert await left(processor) == b"SIM:SOL|tick|", "the first leaving has been looked at by then"


async def test_others_on_the_loop_have_their_turn_while_thousands_subscribe(house: House) -> None:
    confirmed = count(metrics.CONFIRMED)
    assert await most_in_a_turn(house.where.clients, lambda: count(metrics.CONFIRMED) - confirmed) <= BURST
    metrics.INGESTORS.set(0)  # what a relay before this one has said
    assert await most_in_a_turn(house.where.work, lambda: count(metrics.INGESTORS)) <= BURST


async def most_in_a_turn(url: str, taken: Callable[[], float]) -> float:
    """How many subscriptions of a burst were taken up, at most, while nothing else could be done."""
    rude = RawSubscriber(url)
    rude.send(*([b"\1SIM:%d|tick|" % number] for number in range(MANY)))
    most, before, deadline = 0.0, 0.0, asyncio.get_running_loop().time() + WAIT_S
    while before < MANY:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0)
        most, before = max(most, taken() - before), taken()
    await asyncio.to_thread(rude.leave)
    return most


def count(of: object) -> float:
    return float(of._value.get())  # type: ignore[attr-defined]


def test_the_number_of_subscriptions_is_what_came_less_what_left() -> None:
    listeners = Listeners()
    for topic in (b"a", b"a", b"b", b"c"):
        listeners.take([b"\1" + topic])
    listeners.take([b"\0b"])
    listeners.take([b"\0nobody"])
    assert (len(listeners), listeners.topics()) == (3, 2)
    listeners.gone(b"a")
    assert (len(listeners), listeners.count(b"a")) == (1, 0)
    assert listeners.take([b"\1" + b"x" * (TOPIC_MAX + 1)]) is None
    assert len(listeners) == 1


def test_a_message_is_wanted_by_whoever_subscribed_to_its_beginning() -> None:
    listeners = Listeners()
    assert not listeners.wants(b"SIM:BTC|tick|")
    listeners.take([b"\1SIM:BTC|tick|ETH"])
    listeners.take([b"\1SIM:B|"])
    assert not listeners.wants(b"SIM:BTC|tick|")
    listeners.take([b"\1SIM:B"])
    assert listeners.wants(b"SIM:BTC|tick|")
    listeners.take([b"\0SIM:B"])
    listeners.take([b"\1"])
    assert listeners.wants(b"SIM:BTC|tick|")


def test_who_leaves_is_known_to_have_left_where_no_more_topics_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners_module, "TOPICS_MAX", 1)
    listeners = Listeners()
    for came in (b"\1", b"\1", b"\0"):
        listeners.take([came + b"topic"])
    assert listeners.take([b"\1another"]) == (True, b"another")
    assert (listeners.count(b"topic"), listeners.count(b"another")) == (1, 0)
    listeners.take([b"\0topic"])
    assert listeners.topics() == 0
