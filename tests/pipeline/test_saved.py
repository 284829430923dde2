"""Where the queries read on, whatever has become of the log meanwhile."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from artery.bus.base import START, Bus
from artery.bus.log_id import log_id, name_log
from artery.bus.open import open_bus
from artery.bus.reader import open_reader
from artery.pipeline import shelf
from artery.pipeline.candles import CandleBook
from artery.pipeline.offsets import FAST
from artery.pipeline.saved import restore, resumed
from artery.pipeline.shelf import Saved
from artery.store.open import open_store
from tests.servers import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made
    made.end()


@pytest.fixture
def url(server: RedisServer) -> str:
    return server.new_url()


@pytest.fixture
async def bus(url: str) -> AsyncIterator[Bus]:
    made = open_bus(url)
    yield made
    await made.close()


async def test_a_log_that_lost_its_newest_entries_is_read_on_after_those_that_are_left(url: str, bus: Bus) -> None:
    reader = open_reader(url)
    ids = [(await bus.append("trade", [{"n": str(n)}]))[0] for n in range(5)]
    assert await resumed(bus, reader, "trade", ids[4]) == ids[4]
    with redis.Redis.from_url(url) as plain:  # as a server that comes back without its last second
        kept = plain.xrange("md_stream:trade")[:3]
        plain.delete("md_stream:trade")
        for id_, fields in kept:
            plain.xadd("md_stream:trade", fields, id=id_)
    assert await resumed(bus, reader, "trade", ids[4]) == ids[2]
    later = await bus.append("trade", [{"n": "later"}])
    assert await resumed(bus, reader, "trade", ids[4]) == ids[2]
    assert [at for at, _ in reader.read_raw("trade", ids[2], 10)] == later
    reader.close()


async def test_a_trimmed_log_is_read_on_from_where_it_begins(url: str, bus: Bus) -> None:
    reader = open_reader(url)
    ids = await bus.append("trade", [{"n": str(n)} for n in range(9)])
    await bus.trim("trade", keep=4)
    assert await resumed(bus, reader, "trade", ids[1]) == ids[4]
    assert await resumed(bus, reader, "trade", ids[6]) == ids[6]
    reader.close()


async def test_a_book_of_another_log_is_not_taken_for_one_of_this(url: str, bus: Bus, tmp_path: Path) -> None:
    store, reader, book = open_store(f"sqlite:///{tmp_path}/store.db"), open_reader(url), CandleBook(1)
    ids = await bus.append("trade", [{"n": "1"}])
    assert await log_id(bus) == 0
    here = await name_log(bus, 1_000)
    assert (here, await name_log(bus, 900), await log_id(bus)) == (1_000, 1_000, 1_000)
    known = dict.fromkeys(FAST, START) | {"trade": ids[0]}
    await shelf.write(store, 999, Saved(known, START, book.state()))
    assert (await restore(book, store, bus, reader, here))[0] == dict.fromkeys(FAST, START)
    await shelf.write(store, here, Saved(known, START, book.state()))
    assert (await restore(book, store, bus, reader, here))[0] == known
    reader.close()
    await store.close()
