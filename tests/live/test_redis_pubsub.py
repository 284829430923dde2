"""Pub/sub over a Redis server that goes away and comes back."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis

from artery.errors import BadSetting, Unavailable
from artery.live.base import Message, Subscription
from artery.live.open import open_pubsub
from artery.live.redis import RedisPubSub
from tests.servers import RedisServer, free_port, until


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made.start()
    made.end()


def message(number: int, channel: str = "a") -> Message:
    return Message(channel, "TRADE", "", str(number).encode())


class Heard:
    """A subscriber that keeps the numbers it gets."""

    def __init__(self, subscription: Subscription) -> None:
        self.numbers: list[int] = []
        self._task = asyncio.create_task(self._listen(subscription))

    async def _listen(self, subscription: Subscription) -> None:
        async for batch in subscription:
            self.numbers += [int(message.data) for message in batch]

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def say_until_heard(pubsub: RedisPubSub, heard: Heard, number: int) -> None:
    """Publish until it is heard: what is published while the connection is away is nobody's."""
    async with asyncio.timeout(30):
        while number not in heard.numbers:
            with suppress(Unavailable):
                await pubsub.publish([message(number)])
            await asyncio.sleep(0.02)


async def test_processes_hear_each_other(server: RedisServer) -> None:
    here, there = RedisPubSub(server.url), RedisPubSub(server.url)
    async with here.subscribe() as one, here.subscribe() as two:
        await asyncio.gather(one.add(["a", "b"]), two.add(["a"]), one.add(["c"]))
        first, second = Heard(one), Heard(two)
        await there.publish([message(n, "abc"[n % 3]) for n in range(30)])
        await until(lambda: len(first.numbers) == 30 and len(second.numbers) == 10)
        await first.stop()
        await second.stop()
    assert second.numbers == list(range(0, 30, 3))
    await here.close()
    await there.close()


async def test_a_subscriber_hears_again_by_itself_after_a_restart_and_a_freeze() -> None:
    server = RedisServer().start()
    pubsub, other = RedisPubSub(server.url), RedisPubSub(server.url)
    try:
        async with pubsub.subscribe() as subscription:
            await subscription.add(["a", "b"])
            heard = Heard(subscription)
            await other.publish([message(1)])
            await until(lambda: heard.numbers == [1])
            server.kill()
            with pytest.raises(Unavailable):
                await other.publish([message(2)])
            with pytest.raises(Unavailable):
                await subscription.add(["c"])
            server.start()
            await say_until_heard(other, heard, 3)
            with server.frozen():
                with pytest.raises(Unavailable):
                    await other.publish([message(4)])
            await say_until_heard(other, heard, 5)
            await subscription.add(["c"])
            before = len(heard.numbers)
            await other.publish([message(6, "c"), message(7, "b")])
            await until(lambda: len(heard.numbers) >= before + 2)
            assert heard.numbers[-2:] == [6, 7]
            await heard.stop()
    finally:
        await pubsub.close()
        await other.close()
        server.end()


async def test_what_is_no_message_is_skipped(server: RedisServer) -> None:
    pubsub = RedisPubSub(server.url)
    async with pubsub.subscribe() as subscription:
        await subscription.add(["a"])
        heard = Heard(subscription)
        with redis.Redis.from_url(server.url) as client:
            client.publish("a", b"\xff no message")
        await pubsub.publish([message(1)])
        await until(lambda: heard.numbers == [1])
        await heard.stop()
    await pubsub.close()


async def test_redis_is_asked_only_for_what_somebody_wants(server: RedisServer) -> None:
    pubsub = RedisPubSub(server.url)
    with redis.Redis.from_url(server.url) as client:

        def asked() -> set[bytes]:
            return set(client.pubsub_channels())

        async with pubsub.subscribe() as one, pubsub.subscribe() as two:
            await one.add(["a", "b"])
            await two.add(["b"])
            assert asked() == {b"a", b"b"}
            await one.remove(["a", "b"])
            await until(lambda: asked() == {b"b"})
        await until(lambda: asked() == set())
    await pubsub.close()


async def test_a_subscription_that_cannot_be_had_says_why() -> None:
    port = free_port()
    pubsub = open_pubsub(f"redis://127.0.0.1:{port}")
    async with pubsub.subscribe() as subscription:
        with pytest.raises(Unavailable, match="nothing listens there"):
            await subscription.add(["a"])
    await pubsub.close()
    with pytest.raises(Unavailable):
        await pubsub.publish([message(1)])
    with pytest.raises(BadSetting, match="ART_LIVE_URL"):
        open_pubsub("redis://")
