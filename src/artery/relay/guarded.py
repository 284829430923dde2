"""Processors to clients where keys say who someone is: every subscription is judged before it holds."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection

from google.protobuf.message import Message

from artery.errors import ArteryError
from artery.relay import metrics
from artery.relay.allowed import Allowed
from artery.relay.fanout import is_subscription, refused, text_of
from artery.relay.owners import PRIVATE, Owners, is_private, public_parts, whole
from artery.telemetry import logger
from artery.wire import messages
from artery.wire.artery_pb2 import SubscriptionConfirmed
from artery.wire.listeners import Listeners
from artery.wire.sockets import SUBSCRIPTION_MAX, XPUB_MANUAL, Context, Kind, watch

PRIVATE_MAX = 10_000
"""Private topics that one user may be subscribed to at a relay: each is a line in the store."""
BURST = 200
"""Messages that are passed on before others on this loop have their turn."""
BACKLOG_MAX = 1_000
"""Messages that are no subscriptions and are dropped in one go; whoever sends more is shut out."""

_log = logger("relay")


class Guarded:
    """A proxy on the event loop. Of what a client subscribes to, the socket takes up only what is allowed."""

    def __init__(self, context: Context, allowed: Allowed, owners: Owners, now_ms: Callable[[], int]) -> None:
        self._clients = context.socket(Kind.XPUB, frame_max=SUBSCRIPTION_MAX, door="clients")
        self._clients.option(XPUB_MANUAL, 1)
        self._processors = context.socket(Kind.XSUB, door="processors")
        self.doings = watch(context, self._processors.driver)
        self._allowed = allowed
        self._owners = owners
        self._now_ms = now_ms
        self.listeners = Listeners()
        self._held: dict[str, str] = {}
        self._holds: Counter[str] = Counter()

    def bind_clients(self, url: str) -> str:
        return self._clients.bind(url, "ART_RELAY_CLIENT_PORT")

    def bind_processors(self, url: str) -> str:
        return self._processors.bind(url, "ART_RELAY_PROCESSOR_PORT")

    def connect(self, urls: Collection[str]) -> None:
        self._processors.connect(urls)

    async def run(self) -> None:
        for prefix in PRIVATE:  # judged here, at the last step, so asked for once and for all
            self._processors.send([b"\1" + prefix.encode()])
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass_on())
            group.create_task(self._listen())

    def publish(self, topic: str, message: Message) -> None:
        self._clients.send(messages.publish(topic, message))

    def discard(self) -> None:
        """The context closes its sockets."""

    def join(self) -> None:
        """Nothing runs in a thread."""

    async def _pass_on(self) -> None:
        while True:
            frames: list[bytes] | None = await self._processors.receive()
            for _ in range(BURST):
                if frames is None:
                    break
                self._clients.send(frames)
                frames = self._processors.receive_now()
            if frames is not None:
                self._clients.send(frames)
            await asyncio.sleep(0)

    async def _listen(self) -> None:
        """The socket gives to the peer whose message was received last: so one message after the other."""
        while True:
            key, frames = await self._clients.receive_from()
            if not is_subscription(frames):
                refused(frames)
                self._realign(key)
            elif (topic := text_of(frames[0][1:])) is None:
                refused(frames)
            elif is_private(topic):
                await self._private(key, topic, came=frames[0][:1] == b"\1")
            elif (found := self.listeners.take(frames)) is None:
                refused(frames)
            else:
                await self._public(topic, came=found[0])
            metrics.TOPICS.set(self.listeners.topics())

    def _realign(self, key: str) -> None:
        """Have the socket know again whom it heard last: its list of senders leaves out what is no subscription, so
        that a grant to anyone behind it would go to someone else. Once nothing waits, it is right; if a subscription
        does, whose it is cannot be told any more."""
        for _ in range(BACKLOG_MAX):
            if (frames := self._clients.receive_now()) is None:
                return
            if is_subscription(frames):
                break
            refused(frames)
        self._allowed.shut_out(key)

    async def _private(self, key: str, topic: str, *, came: bool) -> None:
        """A topic that belongs to one user. Who left says no name, and takes nothing from anyone."""
        only = whole(topic)
        if not came:
            self._clients.refuse(only)
            self._holds[self._held.pop(only, "")] -= 1
            return
        user = self._allowed.user(key)
        try:
            mine = bool(user) and await self._may_use(user, only)
        except ArteryError as error:  # not confirmed, so that the client asks again
            _log.warning("a subscription cannot be judged for the moment", reason=str(error))
            return
        if not mine:
            metrics.REFUSED.labels("clients", "not_theirs").inc()
            _log.warning("a subscription to a topic of someone else was refused", user=user, topic=only)
            return
        self._clients.grant(only)
        self._confirm(only)

    async def _may_use(self, user: str, topic: str) -> bool:
        if topic not in self._held and self._holds[user] >= PRIVATE_MAX:
            return False
        if not await self._owners.may_use(user, topic):
            return False
        if topic not in self._held:
            self._held[topic] = user
            self._holds[user] += 1
        return True

    async def _public(self, topic: str, *, came: bool) -> None:
        """What everyone may hear. Processors are told of the first who comes and of the last who leaves."""
        parts = list(public_parts(topic))
        for part in parts:
            self._clients.grant(part) if came else self._clients.refuse(part)
        count = self.listeners.count(topic.encode())
        if came:
            if count == 1:
                self._processors.send([b"\1" + topic.encode()])
            if parts == [topic]:
                self._confirm(topic)
        elif count == 0:
            self._processors.send([b"\0" + topic.encode()])
        if len(parts) > 1:  # some two thousand calls: now others
            await asyncio.sleep(0)

    def _confirm(self, topic: str) -> None:
        self.publish(topic, SubscriptionConfirmed(topic=topic, at_ms=self._now_ms()))
        metrics.CONFIRMED.inc()
