"""What was saved of a book is there again, however large it is and wherever a save was broken off."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from artery.bus.base import START
from artery.errors import Unavailable
from artery.model.fold import Bar
from artery.pipeline import shelf
from artery.pipeline.calls import Calls
from artery.pipeline.candles import CandleBook
from artery.pipeline.offsets import FAST
from artery.pipeline.parts import Batch, Partial, State
from artery.pipeline.shelf import Shelf
from artery.store.base import Store
from artery.store.open import open_store
from artery.store.redis import VALUE_MAX_BYTES
from tests.servers import RedisServer

BASE = 1_730_000_100_000
LOG = 7
AT = dict.fromkeys(FAST, START)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    made = RedisServer()
    yield made
    made.end()


@pytest.fixture(params=["sqlite", "redis"])
async def store(request: pytest.FixtureRequest, server: RedisServer, tmp_path: Path) -> AsyncIterator[Store]:
    made = open_store(f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else server.new_url())
    yield made
    await made.close()


def partials(markets: range, minute: int, n: int = 1) -> Batch:
    """A trade of each market in this minute."""
    return Batch([_partial(number, minute, n) for number in markets])


def _partial(number: int, minute: int, n: int) -> Partial:
    start = BASE + minute * 60_000
    place, px = (start, 1, number), Decimal(number * 7 + minute).scaleb(-3) + 1
    return Partial(("sim", f"M{number}", 60, start), Bar(place, place, px, px, px, px, px, n), str(number + 1))


def large() -> CandleBook:
    book = CandleBook(1)
    for minute in range(10):
        book.apply(partials(range(2_500), minute), BASE)
    return book


async def saved(kept: Shelf, book: CandleBook) -> int:
    """As the query does, from a thread of Spark's."""
    return await asyncio.to_thread(kept.save, Calls(asyncio.get_running_loop()), AT, START, book)


def known(state: State) -> tuple[Any, ...]:
    rest = (state.floor_ms, state.periods, state.taken, state.owed)
    return dict(state.held), dict(state.shown), state.clocks, state.dirty, state.minutes, *rest


async def found(store: Store) -> tuple[Any, ...]:
    read = await shelf.read(store, LOG)
    assert read is not None
    return known(read.state)


async def names(store: Store) -> set[str]:
    return {name for name, _ in await store.scan(shelf.KEY)}


async def test_a_book_larger_than_a_value_may_be_is_there_again_exactly(store: Store) -> None:
    book, kept = large(), Shelf(store, LOG, 1)
    assert await saved(kept, book) > VALUE_MAX_BYTES
    assert await found(store) == known(book.state())
    again = CandleBook(2)
    read = await shelf.read(store, LOG)
    assert read is not None
    assert (read.positions, read.candle) == (AT, START)
    again.restore(read.state, [])
    assert known(again.state()) == known(book.state())


async def test_a_later_save_writes_what_has_changed_and_no_more(store: Store) -> None:
    book, kept = large(), Shelf(store, LOG, 1)
    await saved(kept, book)
    before = await names(store)
    book.apply(partials(range(100), 10), BASE)
    book.apply(partials(range(100), 3, n=5), BASE)
    await saved(kept, book)
    assert await names(store) == before
    assert await found(store) == known(book.state())
    book.apply(partials(range(6_000), 11), BASE)
    await saved(kept, book)
    assert before < await names(store)
    assert await found(store) == known(book.state())


async def test_candles_that_were_forgotten_do_not_come_back(store: Store) -> None:
    book, kept = large(), Shelf(store, LOG, 1)
    await saved(kept, book)
    book.apply(Batch(clocks={"sim": BASE + 7_200_000}), BASE + 7_200_000)
    book.apply(Batch(clocks={"sim": BASE + 7_300_000}), BASE + 7_300_000)
    assert len(book) == 0
    await saved(kept, book)
    assert await found(store) == known(book.state())


async def test_parts_that_are_mostly_old_are_written_anew_and_removed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "INLINE_MAX", 1_000)
    monkeypatch.setattr(shelf, "SPARE", 100)
    book, kept, most = CandleBook(1), Shelf(store, LOG, 1), 0
    for minute in range(60):
        book.apply(partials(range(100), minute % 10, n=minute + 1), BASE)
        await saved(kept, book)
        most = max(most, len(await names(store)))
        assert await found(store) == known(book.state())
    assert 4 < most <= 22  # twice as many entries as are new, 100 to spare, and the head


async def test_a_save_that_is_broken_off_leaves_the_former_one_whole(store: Store) -> None:
    book, kept = large(), Shelf(store, LOG, 1)
    await saved(kept, book)
    before = await found(store)
    book.apply(partials(range(6_000), 12), BASE)
    draft = kept.draft(AT, START, book)
    assert len(draft.pieces) > 0
    for name, piece in draft.pieces.items():  # and then the process ends
        await store.put(name, piece)
    assert await found(store) == before
    later = CandleBook(2)
    read = await shelf.read(store, LOG)
    assert read is not None
    later.restore(read.state, [])
    await saved(Shelf(store, LOG, 2), later)
    assert await found(store) == before
    assert not set(draft.pieces) & await names(store)


async def test_a_save_that_failed_is_made_up_for_by_the_next(store: Store) -> None:
    book, kept = large(), Shelf(store, LOG, 1)
    await saved(kept, book)
    book.apply(partials(range(6_000), 12), BASE)

    away = Calls(asyncio.get_running_loop())
    away.stop()
    with pytest.raises(Unavailable):
        await asyncio.to_thread(kept.save, away, AT, START, book)
    await saved(kept, book)
    assert await found(store) == known(book.state())


async def test_a_state_of_which_a_part_is_gone_or_spoilt_is_none(store: Store) -> None:
    await saved(Shelf(store, LOG, 1), large())
    part = max(await names(store))
    body = await store.get(part)
    assert body is not None
    await store.put(part, body[:-100] + bytes(100))
    assert await shelf.read(store, LOG) is None
    await store.delete(part)
    assert await shelf.read(store, LOG) is None
    await store.put(f"{shelf.KEY}{LOG}", b"of another release")
    assert await shelf.read(store, LOG) is None


async def test_the_state_of_a_log_whose_id_begins_like_this_ones_stays(store: Store) -> None:
    book = large()
    await saved(Shelf(store, 71, 1), book)
    await saved(Shelf(store, LOG, 1), book)
    assert (await shelf.read(store, 71)) is not None
