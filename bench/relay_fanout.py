"""From one processor to many subscribers: through a relay, and through libzmq's bare proxy with the same sockets."""

import asyncio
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq

from artery.bus.open import open_bus
from artery.relay.service import run_relay
from artery.settings import RELAY_PORTS, Settings
from artery.store.open import open_store
from artery.wire.sockets import bind, prepare

SUBSCRIBERS = 20
BURST = 2_000
"""Messages on their way at once: well below the queue of 10,000 for each subscriber, at which some would be dropped."""
STARTS, BURSTS = 3, 20
TOPIC = b"SIM:BTC|tick|"
FRAMES = (TOPIC, b"\1", bytes(60))
WAIT_S = 30.0
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16) + b"\x00" + bytes(31)
_SUBSCRIBE = b"\x09SUBSCRIBE" + TOPIC
_READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"


class Subscriber:
    """ZeroMQ's protocol by hand, so that counting what arrives costs next to nothing."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("tcp://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), WAIT_S)
        self.socket.sendall(_GREETING)
        self._read(len(_GREETING))
        self.socket.sendall(b"\x04" + bytes([len(_READY)]) + _READY)
        self._read(self._read(2)[1])  # the other side is ready
        self.socket.sendall(b"\x04" + bytes([len(_SUBSCRIBE)]) + _SUBSCRIBE)
        self.received = 0
        self._room = bytearray(1 << 20)

    def _read(self, count: int) -> bytes:
        return self.socket.recv(count, socket.MSG_WAITALL)

    def take(self) -> None:
        found = self.socket.recv_into(self._room)
        if not found:
            raise SystemExit("the fan-out closed a connection")
        self.received += found


def size() -> int:
    """The bytes of one message on the wire."""
    return sum(2 + len(frame) for frame in FRAMES)


class Line:
    """A publisher and subscribers at the two ends of a relay or a proxy."""

    def __init__(self, processors: str, clients: str) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self._publisher: Any = prepare(self._context.socket(zmq.XPUB))
        self._publisher.connect(processors)
        self._subscribers = [Subscriber(clients) for _ in range(SUBSCRIBERS)]
        self._selector = selectors.DefaultSelector()
        for each in self._subscribers:
            self._selector.register(each.socket, selectors.EVENT_READ, each)

    def settle(self) -> None:
        """Until every subscription holds: then a message reaches them all."""
        if not self._publisher.poll(WAIT_S * 1_000):
            raise SystemExit("no subscription has reached the publisher")
        deadline = time.monotonic() + WAIT_S
        while True:
            for each in self._subscribers:
                each.received = 0
            self._publisher.send_multipart(FRAMES)
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                for key, _ in self._selector.select(0.1):
                    key.data.take()
            if all(each.received == size() for each in self._subscribers):
                return
            if time.monotonic() > deadline:
                raise SystemExit("not every subscription holds")

    def deliveries_per_s(self) -> float:
        """Messages of one burst that arrive a second, over all subscribers."""
        wanted = {each: each.received + BURST * size() for each in self._subscribers}
        started = time.perf_counter()
        for _ in range(BURST):
            self._publisher.send_multipart(FRAMES)
        deadline = time.monotonic() + WAIT_S
        while any(each.received < goal for each, goal in wanted.items()):
            for key, _ in self._selector.select(1.0):
                key.data.take()
            if time.monotonic() > deadline:
                raise SystemExit("messages were lost on the way")
        return BURST * SUBSCRIBERS / (time.perf_counter() - started)

    def close(self) -> None:
        for each in self._subscribers:
            each.socket.close()
        self._selector.close()
        self._publisher.close(linger=0)
        self._context.term()


async def serve(kind: str) -> None:
    """In a process of its own: one of the two, which says where it is."""
    if kind == "proxy":
        context: zmq.Context[Any] = zmq.Context()
        clients, processors = prepare(context.socket(zmq.XPUB)), prepare(context.socket(zmq.XSUB))
        clients.setsockopt(zmq.XPUB_VERBOSER, 1)
        free = "tcp://127.0.0.1:*"
        print(bind(processors, free, ""), bind(clients, free, ""), flush=True)
        zmq.proxy(clients, processors)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings().with_(data={"dir": folder}, relay=dict.fromkeys(RELAY_PORTS, 0))
        settings.folder.mkdir()
        bus, store = open_bus(settings.bus_url()), open_store(settings.store_url())
        await run_relay(
            settings, bus, store, lambda at: print(at.processors, at.clients, at.requests, at.work, flush=True)
        )


@contextmanager
def started(kind: str) -> Iterator[list[str]]:
    """The addresses of one of the two."""
    command = [sys.executable, "-m", "bench.relay_fanout", kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("tcp://"):
                yield line.split()
                break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def settled(kind: str) -> Iterator[Line]:
    """One of the two, with everyone connected to it."""
    with started(kind) as urls:
        line = Line(urls[0], urls[1])
        try:
            line.settle()
            yield line
        finally:
            line.close()


def measure() -> tuple[float, float]:
    """(through the relay, through the bare proxy): the median of many short bursts, now through one, now through the
    other, so that whatever else the machine does meets both; some times anew, as no two starts are alike."""
    found: dict[str, list[float]] = {"relay": [], "proxy": []}
    for _ in range(STARTS):
        with settled("relay") as relay, settled("proxy") as proxy:
            for turn in range(BURSTS):
                pair = [("relay", relay), ("proxy", proxy)]
                for kind, line in pair if turn % 2 else reversed(pair):
                    found[kind].append(line.deliveries_per_s())
    return statistics.median(found["relay"]), statistics.median(found["proxy"])


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
