"""Pub/sub through Redis, for any number of processes."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from artery.errors import Unavailable
from artery.live.base import Message, Subscription
from artery.live.memory import QUEUE_MAX, MemorySubscription
from artery.live.redis_listener import Listener
from artery.store.redis_link import Link
from artery.telemetry import counter

PUBLISH_MAX = 1_000

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode
_bad = counter("live_redis_bad_messages", "Messages from Redis that could not be read")

Channels = dict[str, dict[MemorySubscription, None]]


class RedisSubscription(MemorySubscription):
    """A bounded queue, as in memory; what it asks for, the process asks Redis for once."""

    def __init__(self, channels: Channels, queue_max: int, listener: Listener) -> None:
        super().__init__(channels, queue_max)
        self._listener = listener

    async def add(self, channels: Sequence[str]) -> None:
        new = [channel for channel in dict.fromkeys(channels) if channel not in self._own]
        await super().add(channels)
        try:
            await self._listener.want(new)
        except BaseException:
            await self.remove(new)
            raise

    async def remove(self, channels: Sequence[str]) -> None:
        own = self._own.intersection(channels)
        await super().remove(channels)
        await self._listener.leave([channel for channel in own if channel not in self._channels])


class RedisPubSub:
    """A channel is a Redis channel of the same name, never a pattern; a message is packed into one value.

    Redis cuts a process that reads too slowly, and what is published while the connection is away is not heard.
    """

    def __init__(self, url: str, queue_max: int = QUEUE_MAX) -> None:
        self._link = Link(url, "ART_LIVE_URL")
        self._queue_max = queue_max
        self._channels: Channels = {}
        self._listener = Listener(self._link, self._hear)
        self._subscriptions: set[MemorySubscription] = set()
        self._closed = False

    async def publish(self, messages: Sequence[Message]) -> None:
        """Return when Redis has taken them all."""
        for at in range(0, len(messages), PUBLISH_MAX):
            part = messages[at : at + PUBLISH_MAX]
            for reply in await self._link.calls([("PUBLISH", message.channel, _encode(message)) for message in part]):
                self._link.answer(reply)

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[Subscription]:
        if self._closed:
            raise Unavailable("pub/sub has been closed here: open it again")
        subscription = RedisSubscription(self._channels, self._queue_max, self._listener)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            await subscription.end()

    async def close(self) -> None:
        """End every subscription: each still gets what it has not read yet."""
        self._closed = True
        for subscription in list(self._subscriptions):
            await subscription.end()
        await self._listener.close()
        await self._link.close()

    def _hear(self, channel: str, data: bytes) -> None:
        subscribers = self._channels.get(channel)
        if not subscribers:
            return
        try:
            message = _decode(data)
        except msgspec.DecodeError:
            _bad.inc()
            return
        for subscriber in subscribers:
            subscriber.put(message)
