"""The consumer's loop: nothing lost, nothing stuck, nobody delayed by another's trouble."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from artery.bus.base import DEAD, Entry
from artery.bus.consume import Pace, consume
from artery.bus.sqlite import SqliteBus
from artery.errors import BadEvent, BadInput, Unavailable

G = "cg"
QUICK = Pace(page=4, wait_ms=50, retry_s=0.01, retry_max_s=0.05, idle_ms=3_600_000)


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[SqliteBus]:
    made = SqliteBus(str(tmp_path / "bus.db"))
    yield made
    await made.close()


async def appended(bus: SqliteBus, *names: object) -> list[str]:
    return await bus.append("trade", [{"n": str(name)} for name in names])


@asynccontextmanager
async def consuming(
    bus: SqliteBus, handle: Callable[[Entry], Awaitable[None]], *, name: str = "me", pace: Pace = QUICK
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(consume(bus, "trade", G, name, handle, pace=pace))
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + 30
    while not await condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.005)


async def is_done(bus: SqliteBus) -> bool:
    return [(state.lag, state.pending) for state in await bus.groups("trade")] == [(0, 0)]


class Handler:
    """Keeps what it is given, and raises what it is told to."""

    def __init__(self, raises: Callable[[str, int], Exception | None] = lambda _name, _tries: None) -> None:
        self.seen: list[str] = []
        self._raises = raises

    async def __call__(self, entry: Entry) -> None:
        self.seen.append(entry.fields["n"])
        error = self._raises(entry.fields["n"], entry.tries)
        if error is not None:
            raise error


async def test_every_entry_is_handled_in_order_and_acked(bus: SqliteBus) -> None:
    handler = Handler()
    await appended(bus, *range(10))
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
        await appended(bus, *range(10, 15))
        await until(lambda: _seen(handler, 15))
        await until(lambda: is_done(bus))
    assert handler.seen == [str(n) for n in range(15)]


async def _seen(handler: Handler, count: int) -> bool:
    return len(handler.seen) >= count


async def test_what_it_left_over_comes_first_page_by_page(bus: SqliteBus) -> None:
    await bus.ensure_group("trade", G)
    await appended(bus, *range(10))
    await bus.read_new("trade", G, "me", limit=9)
    handler = Handler()
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
    assert handler.seen == [str(n) for n in range(10)]


async def test_what_a_dead_consumer_left_is_taken_over(bus: SqliteBus) -> None:
    await bus.ensure_group("trade", G)
    await appended(bus, *range(10))
    await bus.read_new("trade", G, "dead", limit=6)
    handler = Handler()
    async with consuming(bus, handler, pace=Pace(page=4, wait_ms=10, idle_ms=30)):
        await until(lambda: is_done(bus))
    assert sorted(handler.seen, key=int) == [str(n) for n in range(10)]


async def test_a_failing_entry_is_given_up_after_five_tries_and_others_are_not_delayed(bus: SqliteBus) -> None:
    handler = Handler(lambda name, _tries: ValueError("no\nsuch luck") if name == "bad" else None)
    (_, bad, _) = await appended(bus, "a", "bad", "b")
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
    assert handler.seen.count("bad") == 5
    assert handler.seen[:3] == ["a", "bad", "b"]
    (letter,) = await bus.read(DEAD)
    assert (letter.fields["id"], letter.fields["tries"]) == (bad, "5")
    assert letter.fields["error"] == "ValueError: no such luck"


async def test_each_failing_entry_has_all_its_tries_whatever_others_need(bus: SqliteBus) -> None:
    handler = Handler(lambda name, _tries: ValueError("no") if name.startswith("bad") else None)
    await appended(bus, "bad0", "a")
    async with consuming(bus, handler, pace=Pace(page=4, wait_ms=10, retry_s=0.05, retry_max_s=0.4, idle_ms=3_600_000)):
        for number in range(1, 8):
            await asyncio.sleep(0.03)  # so that they are due at different times
            await appended(bus, f"bad{number}", number)
        await until(lambda: is_done(bus))
    assert {name: handler.seen.count(name) for name in set(handler.seen) if name.startswith("bad")} == {
        f"bad{number}": 5 for number in range(8)
    }
    assert {letter.fields["tries"] for letter in await bus.read(DEAD)} == {"5"}


async def test_deaths_of_its_consumers_cost_an_entry_none_of_its_tries(bus: SqliteBus) -> None:
    await bus.ensure_group("trade", G)
    await appended(bus, "slow")
    await bus.read_new("trade", G, "me")
    for _ in range(6):
        await bus.read_pending("trade", G, "me")
    handler = Handler(lambda _name, _tries: RuntimeError("not yet") if len(handler.seen) < 5 else None)
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
    assert handler.seen == ["slow"] * 5
    assert await bus.read(DEAD) == []


async def test_more_failing_entries_than_it_can_keep_are_given_up_too(
    bus: SqliteBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("artery.bus.consume.REFUSED_MAX", 2)
    handler = Handler(lambda name, _tries: ValueError("no") if name.startswith("bad") else None)
    await appended(bus, "bad0", "bad1", "bad2", "bad3", "a")
    async with consuming(bus, handler, pace=Pace(page=4, wait_ms=10, retry_s=0.01, retry_max_s=0.05, idle_ms=60)):
        await until(lambda: is_done(bus))
    assert len(await bus.read(DEAD)) == 4
    assert handler.seen.count("a") == 1


async def test_an_entry_that_fails_at_first_is_done_once_it_succeeds(bus: SqliteBus) -> None:
    handler = Handler(lambda name, tries: RuntimeError("not yet") if name == "slow" and tries < 4 else None)
    await appended(bus, "slow", "a")
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
    assert handler.seen.count("slow") == 4
    assert handler.seen.count("a") == 1
    assert await bus.read(DEAD) == []


async def test_an_undecodable_entry_is_given_up_at_once(bus: SqliteBus) -> None:
    handler = Handler(lambda name, _tries: BadEvent("version 9 is not known") if name == "bad" else None)
    await appended(bus, "a", "bad", "b")
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
    assert handler.seen == ["a", "bad", "b"]
    assert [letter.fields["error"] for letter in await bus.read(DEAD)] == ["version 9 is not known"]


async def test_what_is_away_for_a_while_costs_no_entry(bus: SqliteBus) -> None:
    answers = iter([True] * 12)
    handler = Handler(lambda name, _tries: Unavailable("away") if name == "b" and next(answers, False) else None)
    await appended(bus, "a", "b", "c")
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
    assert handler.seen == ["a", *["b"] * 13, "c"]
    assert await bus.read(DEAD) == []


async def test_an_entry_that_was_trimmed_while_it_was_pending_is_given_up(bus: SqliteBus) -> None:
    await bus.ensure_group("trade", G)
    await appended(bus, *range(5))
    await bus.read_new("trade", G, "me", limit=2)
    await bus.trim("trade", keep=1)
    handler = Handler()
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
    assert handler.seen == ["4"]
    assert [letter.fields["id"] for letter in await bus.read(DEAD)] == ["1", "2"]


async def test_an_entry_that_kills_its_consumers_is_given_up_in_the_end(bus: SqliteBus) -> None:
    await bus.ensure_group("trade", G)
    await appended(bus, "killer")
    await bus.read_new("trade", G, "me")
    for _ in range(20):
        await bus.read_pending("trade", G, "me")
    handler = Handler()
    async with consuming(bus, handler):
        await until(lambda: is_done(bus))
    assert handler.seen == []
    assert len(await bus.read(DEAD)) == 1


async def test_stopping_half_way_keeps_what_was_done(bus: SqliteBus) -> None:
    stuck = asyncio.Event()

    async def handle(entry: Entry) -> None:
        if entry.fields["n"] == "2":
            stuck.set()
            await asyncio.Event().wait()

    await appended(bus, *range(4))
    async with consuming(bus, handle):
        async with asyncio.timeout(30):
            await stuck.wait()
    assert [entry.fields["n"] for entry in await bus.read_pending("trade", G, "me")] == ["2", "3"]


async def test_two_consumers_share_the_work(bus: SqliteBus) -> None:
    handler = Handler()
    async with consuming(bus, handler, name="one"), consuming(bus, handler, name="two"):
        for n in range(0, 60, 3):
            await appended(bus, n, n + 1, n + 2)
        await until(lambda: _seen(handler, 60))
        await until(lambda: is_done(bus))
    assert sorted(handler.seen, key=int) == [str(n) for n in range(60)]


async def test_a_mistake_of_the_caller_ends_the_loop(bus: SqliteBus) -> None:
    with pytest.raises(BadInput):
        await consume(bus, "No Stream", G, "me", Handler())
