"""Processors to clients, in C: XSUB and XPUB joined by a proxy in a thread of its own.

Who subscribes is seen by a publisher that is joined to the proxy like any processor: XSUB passes every subscription on
to all of them, so that a message sent then on that very topic finds its way back. That is the confirmation.

Who is left is counted from what the proxy captures, as XSUB counts it. XPUB tells of every coming and every leaving:
also of a second coming of one peer, who leaves only once, and of the leaving of someone who never came. So the count
may be wrong both ways: whenever someone has left a topic, XPUB is asked whether anyone is there, and XSUB is put right.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import islice
from typing import Any

import zmq
from google.protobuf.message import Message

from artery.errors import Unavailable
from artery.relay import metrics
from artery.relay.left import Left
from artery.telemetry import logger
from artery.wire import messages
from artery.wire.artery_pb2 import SubscriptionConfirmed
from artery.wire.listeners import TOPIC_MAX, Listeners
from artery.wire.sockets import SUBSCRIPTION_MAX, Context, Kind, Socket, bind, prepare, watch

SUBSCRIPTIONS_QUEUE = 200_000
"""Subscriptions on their way to processors: one that did not fit would be lost."""
SETTLE_S = 0.05
"""Topics that someone has left are gathered for so long, as the proxy stands still while XPUB is asked about them."""
ASKED_MAX = 500
"""Topics that are asked about in one go."""
_INSIDE, _STEER, _SEEN = "inproc://processors", "inproc://steer", "inproc://seen"

_log = logger("relay")


class Fanout:
    """The proxy, for a relay without keys. A socket is its thread's alone, so whoever wants it connected to others has
    the proxy stop between two messages, and its thread does it."""

    def __init__(self, context: Context, now_ms: Callable[[], int]) -> None:
        self._context: zmq.Context[Any] = zmq.Context.shadow(context.driver.underlying)
        self._clients: Any = prepare(self._context.socket(zmq.XPUB), frame_max=SUBSCRIPTION_MAX)
        self._left = Left(self._context, self._clients)
        self._processors: Any = prepare(self._context.socket(zmq.XSUB))
        self._processors.sndhwm = SUBSCRIPTIONS_QUEUE
        self._processors.bind(_INSIDE)
        self.doings = watch(context, self._processors)
        self._seen: Any = prepare(self._context.socket(zmq.PUB), queue_max=SUBSCRIPTIONS_QUEUE)
        self._seen.bind(_SEEN)
        self._steered: Any = self._context.socket(zmq.PAIR)
        self._steered.bind(_STEER)
        self._steer = context.socket(Kind.PAIR)
        self._steer.connect([_STEER])
        self._wanted: set[str] = set()
        self._connected: set[str] = set()
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._proxy, name="relay-fanout", daemon=True)
        self._confirmations = Confirmations(context, now_ms)
        self._audience = Audience(context, self._doubt)
        self.listeners = self._audience.listeners
        self._doubted: dict[bytes, None] = {}
        self._asked: deque[tuple[bytes, int]] = deque()
        self._settling = False

    def bind_clients(self, url: str) -> str:
        return bind(self._clients, url, "ART_RELAY_CLIENT_PORT")

    def bind_processors(self, url: str) -> str:
        return bind(self._processors, url, "ART_RELAY_PROCESSOR_PORT")

    def connect(self, urls: Collection[str]) -> None:
        if set(urls) == self._wanted:
            return
        self._wanted = set(urls)
        if self._thread.ident:
            self._steer.send([b"TERMINATE"])
        else:
            self._connect()

    async def run(self) -> None:
        """Start the proxy, which does not end by itself, and confirm subscriptions."""
        self._thread.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._confirmations.run())
            group.create_task(self._audience.run())
            await self._ended.wait()
            raise Unavailable("the fan-out's thread has ended")

    def publish(self, topic: str, message: Message) -> None:
        self._confirmations.publish(topic.encode(), message)

    def discard(self) -> None:
        if not self._thread.ident:
            self._close()

    def join(self, wait_s: float = 5.0) -> None:
        if self._thread.ident:
            self._thread.join(wait_s)

    def _proxy(self) -> None:
        try:
            while True:
                zmq.proxy_steerable(self._clients, self._processors, self._seen, self._steered)
                self._connect()
                self._review()
        except zmq.ContextTerminated:
            pass
        except zmq.ZMQError as error:
            _log.error("the fan-out has ended", error=str(error))
        finally:
            self._close()
            with suppress(RuntimeError):  # the loop may be gone
                self._loop.call_soon_threadsafe(self._ended.set)

    def _connect(self) -> None:
        wanted = self._wanted
        for url in self._connected - wanted:
            self._processors.disconnect(url)
        for url in wanted - self._connected:
            self._processors.connect(url)
        self._connected = wanted

    def _doubt(self, topic: bytes) -> None:
        """Have XPUB asked about this topic, soon."""
        self._doubted[topic] = None
        if not self._settling:
            self._settling = True
            self._loop.call_later(SETTLE_S, self._settle)

    def _settle(self) -> None:
        for topic in list(islice(self._doubted, ASKED_MAX)):
            del self._doubted[topic]
            self._asked.append((topic, self.listeners.count(topic)))
        self._settling = bool(self._doubted)
        if self._settling:
            self._loop.call_later(SETTLE_S, self._settle)
        with suppress(Unavailable):  # closed meanwhile
            self._steer.send([b"TERMINATE"])

    def _review(self) -> None:
        """Have XSUB count nobody where nobody is left, and someone where someone is: then it has told processors that
        nobody was, for someone who left what they never had."""
        counted: dict[bytes, int] = {}
        while self._asked:
            topic, count = self._asked.popleft()
            counted[topic] = count
        held = set(counted)
        for frame, nobody in self._left.ask(counted) if counted else ():
            self._pass_on(frame, counted[frame[1:]] if nobody else 1)
            if nobody:
                held.discard(frame[1:])
        for topic in held:
            if not counted[topic]:
                metrics.REFUSED.labels("clients", "not_held").inc()
                self._pass_on(b"\1" + topic)

    def _pass_on(self, frame: bytes, times: int = 1) -> None:
        """As the proxy does, so that XSUB and the account of it stay the same."""
        for _ in range(times):
            self._processors.send(frame)
            self._seen.send(frame)

    def _close(self) -> None:
        self._left.close()
        for socket in (self._clients, self._processors, self._seen, self._steered):
            socket.close(linger=0)


class Confirmations:
    """Says on each topic that was subscribed to that the subscription holds; publishes what the relay itself says."""

    def __init__(self, context: Context, now_ms: Callable[[], int]) -> None:
        self._socket: Socket = context.socket(Kind.XPUB, queue_max=SUBSCRIPTIONS_QUEUE)
        self._socket.option(zmq.XPUB_VERBOSE, 1)
        self._socket.connect([_INSIDE])
        self._now_ms = now_ms

    async def run(self) -> None:
        """Confirm for ever."""
        while True:
            for frame in await self._socket.receive():  # each may be a subscription to libzmq, wherever it stands
                self._confirm(frame)

    def _confirm(self, frame: bytes) -> None:
        if not is_subscription([frame]) or len(frame) > TOPIC_MAX + 1:
            refused([frame])
            return
        topic = frame[1:]
        if frame[:1] == b"\1" and (text := text_of(topic)) is not None:
            self.publish(topic, SubscriptionConfirmed(topic=text, at_ms=self._now_ms()))
            metrics.CONFIRMED.inc()

    def publish(self, topic: bytes, message: Any) -> None:
        self._socket.send([topic, *messages.write(message)])


class Audience:
    """Counts who listens to what as XSUB does, from what the proxy captures."""

    def __init__(self, context: Context, doubt: Callable[[bytes], None]) -> None:
        """`doubt` is told of a topic that someone says to have left."""
        self._socket: Socket = context.socket(Kind.SUB, queue_max=SUBSCRIPTIONS_QUEUE)
        self._socket.connect([_SEEN])
        for sign in ("\0", "\1"):
            self._socket.subscribe(sign)
        self._doubt = doubt
        self.listeners = Listeners()

    async def run(self) -> None:
        """Keep account for ever."""
        while True:
            self.take(await self._socket.receive())
            metrics.TOPICS.set(self.listeners.topics())

    def take(self, frames: list[bytes]) -> None:
        was_counted = self.listeners.count(frames[0][1:]) > 0
        found = self.listeners.take(frames)
        if was_counted and found is not None and not found[0]:
            self._doubt(found[1])


def is_subscription(frames: list[bytes]) -> bool:
    """Whether someone came or left, as libzmq sees it, whatever the topic."""
    return len(frames) == 1 and frames[0][:1] in (b"\0", b"\1")


def refused(frames: list[bytes]) -> None:
    """Count what came from a client and is no subscription, or to no topic."""
    reason = "too_long" if is_subscription(frames) else "no_subscription"
    metrics.REFUSED.labels("clients", reason).inc()


def text_of(topic: bytes) -> str | None:
    """The topic as text; one that is none is nobody's and is not confirmed."""
    try:
        return topic.decode()
    except UnicodeDecodeError:
        return None
