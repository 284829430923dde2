"""What every pub/sub owes."""

import asyncio

from artery.live.base import Message, PubSub, Subscription
from tests.contracts.conftest import until


def message(channel: str, number: int) -> Message:
    return Message(channel, "TRADE", f"1.{number}.0", str(number).encode())


class Listener:
    """A subscriber that keeps what it gets."""

    def __init__(self, subscription: Subscription) -> None:
        self.got: list[Message] = []
        self.batches = 0
        self._subscription = subscription
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for batch in self._subscription:
            assert batch
            self.batches += 1
            self.got += batch

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_messages_arrive_in_order_and_only_on_channels_asked_for(pubsub: PubSub) -> None:
    async with pubsub.subscribe() as one, pubsub.subscribe() as two:
        await one.add(["a", "b"])
        await two.add(["b"])
        first, second = Listener(one), Listener(two)
        sent = [message("abc"[n % 3], n) for n in range(60)]
        for at in range(0, 60, 7):
            await pubsub.publish(sent[at : at + 7])
        await until(lambda: len(first.got) >= 40 and len(second.got) >= 20)
        await first.stop()
        await second.stop()
    assert first.got == [m for m in sent if m.channel in "ab"]
    assert second.got == [m for m in sent if m.channel == "b"]


async def test_a_star_is_a_channel_like_any_other(pubsub: PubSub) -> None:
    async with pubsub.subscribe() as subscription:
        await subscription.add(["artery:stream:sim:*"])
        listener = Listener(subscription)
        await pubsub.publish([message("artery:stream:sim:BTC", 1), message("artery:stream:sim:*", 2)])
        await until(lambda: bool(listener.got))
        await listener.stop()
    assert listener.got == [message("artery:stream:sim:*", 2)]


async def test_nothing_comes_after_a_channel_was_removed(pubsub: PubSub) -> None:
    async with pubsub.subscribe() as subscription:
        await subscription.add(["a", "b"])
        await subscription.remove(["a", "never added"])
        listener = Listener(subscription)
        await pubsub.publish([message("a", 1), message("b", 2)])
        await until(lambda: bool(listener.got))
        await subscription.add(["a"])
        await pubsub.publish([message("a", 3)])
        await until(lambda: len(listener.got) >= 2)
        await listener.stop()
    assert listener.got == [message("b", 2), message("a", 3)]


async def test_subscribing_twice_gives_each_message_once(pubsub: PubSub) -> None:
    async with pubsub.subscribe() as subscription:
        await subscription.add(["a", "a"])
        await subscription.add(["a"])
        listener = Listener(subscription)
        await pubsub.publish([message("a", 1), message("a", 2)])
        await until(lambda: len(listener.got) >= 2)
        await listener.stop()
    assert listener.got == [message("a", 1), message("a", 2)]


async def test_who_falls_behind_loses_the_oldest_and_is_told_how_many(pubsub: PubSub) -> None:
    async with pubsub.subscribe() as slow, pubsub.subscribe() as quick:
        await slow.add(["a"])
        await quick.add(["a"])
        listener = Listener(quick)
        for at in range(0, 250, 50):
            await pubsub.publish([message("a", n) for n in range(at, at + 50)])
            await until(lambda: len(listener.got) == at + 50)  # noqa: B023
        assert quick.dropped == 0
        late = Listener(slow)
        await until(lambda: len(late.got) + slow.dropped == 250)
        await listener.stop()
        await late.stop()
    assert len(late.got) <= 100
    assert late.got == [message("a", n) for n in range(slow.dropped, 250)]


async def test_publishing_to_nobody_is_fine(pubsub: PubSub) -> None:
    await pubsub.publish([message("a", 1)])
    await pubsub.publish([])
    async with pubsub.subscribe() as subscription:
        await subscription.add(["a"])
        listener = Listener(subscription)
        await pubsub.publish([message("a", 2)])
        await until(lambda: bool(listener.got))
        await listener.stop()
    assert listener.got == [message("a", 2)]


async def test_closing_ends_every_subscription(pubsub: PubSub) -> None:
    async with pubsub.subscribe() as subscription:
        await subscription.add(["a"])
        ended = asyncio.Event()

        async def listen() -> None:
            async for _ in subscription:
                pass
            ended.set()

        task = asyncio.create_task(listen())
        await asyncio.sleep(0)
        await pubsub.close()
        async with asyncio.timeout(30):
            await ended.wait()
        await task
