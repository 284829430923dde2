"""Pub/sub inside one process and one event loop."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from artery.errors import Unavailable
from artery.live.base import Message, Subscription

QUEUE_MAX = 10_000
ENOUGH = 128
"""Messages that are handed on without a look for more."""


class MemorySubscription:
    """A bounded queue: when it is full, the oldest message makes room for the newest."""

    def __init__(self, channels: "dict[str, dict[MemorySubscription, None]]", queue_max: int) -> None:
        self._channels = channels
        self._own: set[str] = set()
        self._queue: deque[Message] = deque(maxlen=queue_max)
        self._queue_max = queue_max
        self._waiter: asyncio.Future[None] | None = None
        self._dropped = 0
        self._closed = False

    @property
    def dropped(self) -> int:
        return self._dropped

    async def add(self, channels: Sequence[str]) -> None:
        if self._closed:
            raise Unavailable("this subscription has ended: subscribe again")
        self._own.update(channels)
        for channel in channels:
            self._channels.setdefault(channel, {})[self] = None  # a dict, because it keeps the order

    async def remove(self, channels: Sequence[str]) -> None:
        for channel in self._own.intersection(channels):
            self._own.discard(channel)
            subscribers = self._channels[channel]
            del subscribers[self]
            if not subscribers:
                del self._channels[channel]

    def __aiter__(self) -> AsyncIterator[list[Message]]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[list[Message]]:
        while True:
            while not self._queue:
                if self._closed:
                    return
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            await self._gathered()
            batch = list(self._queue)
            self._queue.clear()
            yield batch

    async def _gathered(self) -> None:
        """Give whoever is publishing just now its turn, as long as that brings more: together is cheaper to deliver."""
        had = 0
        while had < len(self._queue) < ENOUGH:
            had = len(self._queue)
            await asyncio.sleep(0)

    def put(self, message: Message) -> None:
        if len(self._queue) == self._queue_max:
            self._dropped += 1
        self._queue.append(message)
        self.wake()

    def wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    async def end(self) -> None:
        await self.remove(tuple(self._own))
        self._closed = True
        self.wake()


class MemoryPubSub:
    """A publish costs as much as the channel has subscribers, and waits for none of them."""

    def __init__(self, queue_max: int = QUEUE_MAX) -> None:
        self._queue_max = queue_max
        self._channels: dict[str, dict[MemorySubscription, None]] = {}
        self._subscriptions: set[MemorySubscription] = set()
        self._closed = False

    async def publish(self, messages: Sequence[Message]) -> None:
        if self._closed:
            raise Unavailable("pub/sub has been closed here: open it again")
        channels = self._channels
        for message in messages:
            for subscriber in channels.get(message.channel, ()):
                subscriber.put(message)

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[Subscription]:
        if self._closed:
            raise Unavailable("pub/sub has been closed here: open it again")
        subscription = MemorySubscription(self._channels, self._queue_max)
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
