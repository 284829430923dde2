"""Random frames and random bytes on every socket: nobody else notices, and what could not be read is counted."""

import asyncio
import random
import socket

import pytest
import zmq
from prometheus_client import REGISTRY

from artery.wire import messages
from artery.wire.artery_pb2 import StatusRequest, StatusResponse, SubmitHistoricalRequest, Tick
from tests.relay.conftest import House, Peer
from tests.wire.samples import SAMPLES

SEED = 20_261_116
MESSAGES = 1_500


def frames(chance: random.Random) -> list[bytes]:
    """Anything from noise to nearly right."""
    kind = chance.randrange(5)
    if kind == 0:
        return [chance.randbytes(chance.randrange(40)) for _ in range(chance.randrange(1, 12))]
    if kind == 1:
        return [b"\x01", bytes([chance.randrange(256)]) + chance.randbytes(chance.randrange(60))]
    version, body = messages.write(chance.choice(SAMPLES))
    if kind == 2:
        return [version, body[: chance.randrange(len(body) + 1)]]
    if kind == 3:
        spoiled = bytearray(body)
        spoiled[chance.randrange(len(body))] = chance.randrange(256)
        return [version, bytes(spoiled)]
    return [b""] * chance.randrange(4) + [version, body] + [b"x"] * chance.randrange(3)


def refused(where: str) -> float:
    """How many messages this socket has refused so far."""
    found = 0.0
    for family in REGISTRY.collect():
        for sample in family.samples:
            if sample.name == "artery_relay_messages_refused_total" and sample.labels["socket"] == where:
                found += sample.value
    return found


async def well(house: House, client: Peer, subscriber: Peer, processor: Peer) -> None:
    """Peers that were there before are served as before."""
    assert (await client.ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN
    assert (await house.client().ask(StatusRequest(request_id="r1"))).state == StatusResponse.UNKNOWN
    tick = Tick(ticker="SIM:BTC", seq=random.randrange(1 << 40))
    await processor.send(*messages.publish("SIM:BTC|tick|", tick))
    while (await subscriber.hear())[1] != tick:
        continue


async def bystanders(house: House) -> tuple[Peer, Peer, Peer]:
    subscriber, processor = house.subscriber(), house.processor()
    await subscriber.subscribe("SIM:BTC|tick|")
    while (await processor.receive())[0] != b"\x01SIM:BTC|tick|":
        continue
    return house.client(), subscriber, processor


async def test_requests_bear_anything(house: House) -> None:
    chance, before = random.Random(SEED), refused("requests")
    peers = await bystanders(house)
    dealer = house.peer(zmq.DEALER, house.where.requests)
    for _ in range(MESSAGES):
        await dealer.send(*frames(chance))
        while await dealer.socket.poll(0):
            await dealer.receive()
    await well(house, *peers)
    assert refused("requests") - before > MESSAGES / 4
    assert await house.bus.head("request") == "0"


async def test_every_frame_that_a_req_sends_is_answered(house: House) -> None:
    chance = random.Random(SEED + 1)
    peer = house.peer(zmq.REQ, house.where.requests)
    for _ in range(200):
        version, body = [*frames(chance), b""][:2]
        await peer.send(version, body)
        answer = await peer.receive()
        assert len(answer) == 2
        messages.read(answer)


@pytest.mark.parametrize("where", ["clients", "work", "processors", "control"])
async def test_publishing_sockets_bear_anything(house: House, where: str) -> None:
    chance = random.Random(SEED + 2)
    before, peers = refused(where), await bystanders(house)
    kind = zmq.XPUB if where == "processors" else zmq.XSUB
    hostile = house.peer(kind, getattr(house.where, where))
    for _ in range(MESSAGES):
        await hostile.send(*frames(chance))
        await hostile.send(bytes([chance.randrange(3)]) + chance.randbytes(chance.randrange(700)))
    await well(house, *peers)
    if where in (
        "clients",
        "work",
    ):  # at the others libzmq itself drops it: to no topic, or to a socket that never reads
        deadline = asyncio.get_running_loop().time() + 30
        while refused(where) == before:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.01)


async def test_sockets_bear_bytes_that_are_no_zeromq_at_all(house: House) -> None:
    chance, peers = random.Random(SEED + 3), await bystanders(house)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
    for url in (
        house.where.requests,
        house.where.work,
        house.where.control,
        house.where.processors,
        house.where.clients,
    ):
        host, _, port = url.removeprefix("tcp://").rpartition(":")
        for number in range(40):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write((greeting if number % 2 else b"") + chance.randbytes(chance.randrange(1, 400)))
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.close()
    await well(house, *peers)


async def test_a_peer_that_never_reads_its_answers_harms_no_one(house: House) -> None:
    peers = await bystanders(house)
    deaf = house.peer(zmq.DEALER, house.where.requests, RCVHWM=1, RCVBUF=1_024)
    asked = SubmitHistoricalRequest(request_id="x" * 100, ticker="SIM:NOBODY" + "y" * 100)
    for _ in range(3_000):
        await deaf.send(*messages.write(asked))
    await well(house, *peers)
