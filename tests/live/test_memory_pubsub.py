"""What is published in turns reaches a reader together, so that it can be delivered together."""

import asyncio

from artery.live.base import Message
from artery.live.memory import ENOUGH, MemoryPubSub


async def published(sizes: list[int]) -> list[int]:
    """How many messages the reader is given at once, of so many that are published in turns."""
    pubsub = MemoryPubSub()
    got: list[int] = []
    async with pubsub.subscribe() as subscription:
        await subscription.add(["a"])

        async def read() -> None:
            async for batch in subscription:
                got.append(len(batch))
                if sum(got) == sum(sizes):
                    return

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        for size in sizes:
            await pubsub.publish([Message("a", "TRADE", "", b"{}")] * size)
            await asyncio.sleep(0)
        await reading
    return got


async def test_a_reader_waits_while_its_publisher_goes_on() -> None:
    assert await published([10, 20, 30]) == [60]


async def test_a_reader_that_has_enough_does_not_wait() -> None:
    assert (await published([ENOUGH] * 3))[0] <= 2 * ENOUGH
    assert await published([1]) == [1]
