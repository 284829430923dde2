"""A gateway without a shared pub/sub gets from the log what ingest would have published."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from artery.app.bus_live import follow_live, heads
from artery.bus.base import Bus
from artery.bus.open import open_bus
from artery.ingest.writer import message
from artery.live.base import Message
from artery.live.memory import MemoryPubSub
from artery.model import codec
from artery.model.events import Book, Trade
from tests.pipeline.test_bars import trade
from tests.servers import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made
    made.end()


@pytest.fixture(params=["sqlite", "redis"])
async def url(request: pytest.FixtureRequest, server: RedisServer, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/bus.db" if request.param == "sqlite" else server.new_url()


@pytest.fixture
async def bus(url: str) -> AsyncIterator[Bus]:
    made = open_bus(url)
    yield made
    await made.close()


def published(*events: Trade | Book) -> list[Message]:
    return [message(event, codec.encode(event)) for event in events]


async def test_what_another_process_appends_is_published_as_it_would_have_been(url: str, bus: Bus) -> None:
    pubsub, here = MemoryPubSub(), open_bus(url)
    old, first, second = (trade(seq, 1_000 + seq) for seq in (1, 2, 3))
    foreign = {name: text for name, text in codec.encode(first).items() if name not in ("epoch", "seq", "provider")}
    await bus.append("trade", [codec.encode(old)])
    following = asyncio.create_task(follow_live(here, pubsub, await heads(here)))
    try:
        async with asyncio.timeout(30), pubsub.subscribe() as subscription:
            await subscription.add([str(old.channel)])
            await bus.append("trade", [codec.encode(first), {"no": "event"}, foreign, codec.encode(second)])
            got: list[Message] = []
            async for batch in subscription:
                got += batch
                if len(got) >= 2:
                    break
        assert got == published(first, second)
    finally:
        following.cancel()
        await asyncio.wait({following})
        await here.close()
        await pubsub.close()
