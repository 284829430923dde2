"""Processors to clients, in C: XSUB and XPUB joined by a proxy in a thread of its own.

Who subscribes is seen by a publisher that is joined to the proxy like any processor: XSUB passes every subscription on
to all of them, so that a message sent then on that very topic finds its way back. That is the confirmation.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import zmq

from artery.relay import metrics
from artery.telemetry import logger
from artery.wire import messages
from artery.wire.artery_pb2 import SubscriptionConfirmed
from artery.wire.listeners import Listeners
from artery.wire.sockets import Context, Socket, bind, prepare

SUBSCRIPTIONS_QUEUE = 200_000
"""Subscriptions on their way to processors: one that did not fit would be lost."""
_INSIDE = "inproc://processors"

_log = logger("relay")


class Fanout:
    """The proxy. Made and bound at once; `run` starts it; closing the context ends it."""

    def __init__(self, context: Context) -> None:
        self._context: zmq.Context[Any] = zmq.Context.shadow(context.driver.underlying)
        self._clients: Any = prepare(self._context.socket(zmq.XPUB))
        self._clients.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._processors: Any = prepare(self._context.socket(zmq.XSUB))
        self._processors.sndhwm = SUBSCRIPTIONS_QUEUE
        self._processors.bind(_INSIDE)
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="relay-fanout", daemon=True)

    def bind_clients(self, url: str) -> str:
        return bind(self._clients, url, "ART_RELAY_CLIENT_PORT")

    def bind_processors(self, url: str) -> str:
        return bind(self._processors, url, "ART_RELAY_PROCESSOR_PORT")

    def connect_processors(self, urls: Sequence[str]) -> None:
        for url in urls:
            self._processors.connect(url)

    def start(self) -> None:
        self._thread.start()

    async def ended(self) -> None:
        """Wait until the proxy has ended, which it does not do by itself."""
        await self._ended.wait()

    def discard(self) -> None:
        """Close what was never started."""
        if not self._thread.ident:
            self._close()

    def join(self, wait_s: float = 5.0) -> None:
        """Wait for the proxy to end, once its context is being closed."""
        if self._thread.ident:
            self._thread.join(wait_s)

    def _run(self) -> None:
        try:
            zmq.proxy(self._clients, self._processors)
        except zmq.ContextTerminated:
            pass
        except zmq.ZMQError as error:
            _log.error("the fan-out has ended", error=str(error))
        finally:
            self._close()
            with suppress(RuntimeError):  # the loop may be gone
                self._loop.call_soon_threadsafe(self._ended.set)

    def _close(self) -> None:
        self._clients.close(linger=0)
        self._processors.close(linger=0)


class Confirmations:
    """Says on each topic that was subscribed to that the subscription holds; publishes what the relay itself says."""

    def __init__(self, context: Context) -> None:
        self._socket: Socket = context.socket(zmq.SocketType.XPUB, queue_max=SUBSCRIPTIONS_QUEUE)
        self._socket.option(zmq.XPUB_VERBOSE, 1)
        self._socket.connect([_INSIDE])
        self._listeners = Listeners()

    async def run(self, now_ms: Any) -> None:
        """Confirm for ever."""
        while True:
            found = self._listeners.take(frames := await self._socket.receive())
            if found is None:
                reason = "no_subscription" if not frames or frames[0][:1] not in (b"\0", b"\1") else "too_long"
                metrics.REFUSED.labels("clients", reason).inc()
                continue
            came, topic = found
            if not came:
                self._listeners.gone(topic)  # XSUB passes on only the last one's leaving
            elif (text := _text(topic)) is not None:
                self.publish(topic, SubscriptionConfirmed(topic=text, at_ms=now_ms()))
                metrics.CONFIRMED.inc()
            metrics.TOPICS.set(self._listeners.topics())

    def publish(self, topic: bytes, message: Any) -> None:
        self._socket.send([topic, *messages.write(message)])


def _text(topic: bytes) -> str | None:
    """The topic as text; one that is none is nobody's and is not confirmed."""
    try:
        return topic.decode()
    except UnicodeDecodeError:
        return None
