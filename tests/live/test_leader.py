"""Leading: one at a time, stopped before the deadline, followed soon. On a virtual clock, so exact."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from artery.errors import BadSetting, Fenced, Unavailable
from artery.live.base import Term
from artery.live.leader import PAUSE_S, lead
from artery.live.lock import StoreLock
from tests.live.virtual import DictStore, now, run

KEY = "artery:lock:stream:sim"
TTL = 30.0


class Site:
    """One store, and a record of who worked when."""

    def __init__(self) -> None:
        self.store = DictStore()
        self.began: list[tuple[str, float, Term]] = []
        self.ended: list[tuple[str, float]] = []
        self.working: set[str] = set()

    def start(
        self,
        who: str,
        body: Callable[[Term], Awaitable[None]] | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> "asyncio.Task[None]":
        """A contender whose work runs for ever, unless told otherwise."""

        async def work(term: Term) -> None:
            assert not self.working, "two lead at once"
            self.working.add(who)
            self.began.append((who, now(), term))
            try:
                await (body(term) if body else asyncio.sleep(1e9))
            finally:
                self.working.discard(who)
                self.ended.append((who, now()))

        lock = StoreLock(self.store, clock=lambda: 1_700_000_000 + now(), monotonic=now)
        return asyncio.create_task(lead(lock, KEY, work, TTL, monotonic=now, uniform=uniform))


async def stop(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_the_work_goes_on_for_as_long_as_the_lock_is_renewed() -> None:
    async def scene() -> None:
        site = Site()
        task = site.start("one")
        await asyncio.sleep(10 * TTL)
        assert site.working == {"one"}
        assert len(site.began) == 1
        await stop(task)
        assert site.working == set()

    run(scene())


def test_a_clean_stop_is_followed_within_five_seconds_with_a_higher_epoch() -> None:
    async def scene() -> None:
        site = Site()
        one = site.start("one")
        await asyncio.sleep(1)
        two = site.start("two", uniform=max)
        await asyncio.sleep(20 * PAUSE_S[1])  # it has asked just now, and rests for as long as any contender may
        assert site.working == {"one"}
        stopped = now()
        await stop(one)
        await asyncio.sleep(6)
        await stop(two)
        (_, _, first), (who, at, second) = site.began
        assert who == "two"
        assert at - stopped <= 4.5, "what is left of 5 s is for the stop and the lock"
        assert second.epoch > first.epoch

    run(scene())


def test_the_lock_is_released_only_after_the_work_has_stopped() -> None:
    async def slow_to_stop(_term: Term) -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            await asyncio.sleep(40)

    async def scene() -> None:
        site = Site()
        one, two = site.start("one", slow_to_stop), site.start("two")
        await asyncio.sleep(10)
        first = "one" if "one" in site.working else "two"
        if first == "two":
            await stop(two)
            await asyncio.sleep(6)
            two = site.start("two")
        await stop(one)
        assert site.ended[-1][0] == "one"
        await asyncio.sleep(6)
        assert site.working == {"two"}
        await stop(two)

    run(scene())


@pytest.mark.parametrize("trouble", ["hangs", "error"])
def test_the_work_stops_before_the_deadline_when_the_lock_cannot_be_renewed(trouble: str) -> None:
    async def scene() -> None:
        site = Site()
        one = site.start("one")
        await asyncio.sleep(25)  # renewed at 10 and 20 s
        setattr(site.store, trouble, True if trouble == "hangs" else Unavailable("away"))
        await asyncio.sleep(40)
        ((_, ended),) = site.ended
        deadline = 20 + 0.8 * TTL
        assert deadline - 2 <= ended < deadline
        site.store.hangs, site.store.error = False, None
        await asyncio.sleep(25)
        assert site.working == {"one"}
        assert site.began[1][2].epoch > site.began[0][2].epoch
        await stop(one)

    run(scene())


def test_a_short_trouble_is_outlived() -> None:
    async def scene() -> None:
        site = Site()
        one = site.start("one")
        await asyncio.sleep(9)
        site.store.error = Unavailable("away")
        await asyncio.sleep(8)
        site.store.error = None
        await asyncio.sleep(100)
        assert len(site.began) == 1
        assert site.working == {"one"}
        await stop(one)

    run(scene())


def test_a_leader_that_is_cut_off_is_followed_after_the_ttl_and_never_works_beside_the_next() -> None:
    async def scene() -> None:
        site, far = Site(), Site()
        far.store.items = site.store.items  # the same lock, seen over a line of its own
        far.working = site.working
        one, two = far.start("one"), None
        await asyncio.sleep(5)
        two = site.start("two")
        await asyncio.sleep(6)
        far.store.hangs = True
        cut = now()
        await asyncio.sleep(TTL + 6)
        assert site.working == {"two"}
        assert far.ended[0][1] < site.began[0][1] <= cut + TTL + 5
        await stop(one, two)

    run(scene())


def test_a_lock_taken_by_another_stops_the_work_at_the_next_renewal() -> None:
    async def scene() -> None:
        site = Site()
        one = site.start("one")
        await asyncio.sleep(1)
        other = StoreLock(site.store, clock=lambda: 1_700_000_000 + now(), monotonic=now)
        del site.store.items[KEY]
        term = await other.acquire(KEY, TTL)
        assert term is not None
        await asyncio.sleep(12)
        assert site.working == set()
        await other.release(term)
        await asyncio.sleep(6)
        assert site.working == {"one"}
        await stop(one)

    run(scene())


@pytest.mark.parametrize("error", [Fenced("a newer leader writes"), Unavailable("the venue is away")])
def test_work_that_is_fenced_or_meets_temporary_trouble_is_contended_for_again(error: Exception) -> None:
    async def scene() -> None:
        site = Site()

        async def fail_twice(_term: Term) -> None:
            await asyncio.sleep(3)
            if len(site.began) < 3:
                raise error
            await asyncio.sleep(1e9)

        one = site.start("one", fail_twice)
        await asyncio.sleep(100)
        assert len(site.began) == 3
        assert site.working == {"one"}
        epochs = [term.epoch for _, _, term in site.began]
        assert epochs == sorted(set(epochs))
        pauses = [begin - end for (_, begin, _), (_, end) in zip(site.began[1:], site.ended, strict=True)]
        assert all(2 <= pause <= 5 for pause in pauses)
        await stop(one)

    run(scene())


@pytest.mark.parametrize("error", [BadSetting("no such market"), ZeroDivisionError("a mistake")])
def test_any_other_error_is_the_callers_and_frees_the_lock(error: Exception) -> None:
    async def fail(_term: Term) -> None:
        raise error

    async def scene() -> None:
        site = Site()
        one = site.start("one", fail)
        with pytest.raises(type(error)):
            await one
        two = site.start("two")
        await asyncio.sleep(1)
        assert site.working == {"two"}
        await stop(two)

    run(scene())


def test_work_that_comes_to_its_end_ends_the_leading() -> None:
    async def short(_term: Term) -> None:
        await asyncio.sleep(3)

    async def scene() -> None:
        site = Site()
        await site.start("one", short)
        assert len(site.ended) == 1

    run(scene())


def test_a_store_that_is_away_at_first_only_delays() -> None:
    async def scene() -> None:
        site = Site()
        site.store.error = Unavailable("away")
        one = site.start("one")
        await asyncio.sleep(20)
        site.store.error, site.store.hangs = None, True
        await asyncio.sleep(40)
        assert site.began == []
        site.store.hangs = False
        await asyncio.sleep(25)
        assert site.working == {"one"}
        await stop(one)

    run(scene())


def test_many_contenders_that_come_and_go_never_work_together() -> None:
    async def scene() -> None:
        site = Site()
        tasks = [site.start(str(n)) for n in range(4)]
        for round_number in range(12):
            await asyncio.sleep(37)
            leader = next(iter(site.working))
            await stop(tasks[int(leader)])
            tasks[int(leader)] = site.start(leader)
            assert len(site.began) >= round_number
        epochs = [term.epoch for _, _, term in site.began]
        assert epochs == sorted(set(epochs))
        with suppress(asyncio.CancelledError):
            await stop(*tasks)

    run(scene())
