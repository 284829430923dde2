"""What every leader lock owes."""

import asyncio

from artery.live.base import Term
from tests.contracts.conftest import LockKit

KEY = "artery:lock:stream:sim"
TTL = 0.6


async def test_one_holds_the_lock_and_others_do_not(lock_kit: LockKit) -> None:
    one, two = lock_kit.contender(), lock_kit.contender()
    term = await one.acquire(KEY, TTL)
    assert term is not None
    assert await two.acquire(KEY, TTL) is None
    assert await one.acquire(KEY, TTL) is None
    assert await two.acquire("another key", TTL) is not None


async def test_of_many_at_once_exactly_one_wins(lock_kit: LockKit) -> None:
    contenders = [lock_kit.contender() for _ in range(5)]
    for number in range(5):
        terms = await asyncio.gather(*(contender.acquire(f"{KEY}:{number}", TTL) for contender in contenders))
        assert sum(term is not None for term in terms) == 1


async def test_a_term_lapses_after_its_ttl(lock_kit: LockKit) -> None:
    one, two = lock_kit.contender(), lock_kit.contender()
    first = await one.acquire(KEY, TTL)
    await lock_kit.advance(TTL * 1.1)
    second = await two.acquire(KEY, TTL)
    assert first is not None
    assert second is not None
    assert second.epoch > first.epoch
    assert second.token != first.token
    assert await one.renew(first, TTL) is None


async def test_renewing_keeps_the_lock_and_moves_the_deadline(lock_kit: LockKit) -> None:
    one, two = lock_kit.contender(), lock_kit.contender()
    term = await one.acquire(KEY, TTL)
    for _ in range(4):
        assert term is not None
        old = term
        await lock_kit.advance(TTL * 0.5)
        term = await one.renew(old, TTL)
        assert term is not None
        assert (term.key, term.token, term.epoch) == (old.key, old.token, old.epoch)
        assert term.deadline > old.deadline
        assert await two.acquire(KEY, TTL) is None


async def test_the_deadline_is_eight_tenths_of_the_ttl_from_before_the_call(lock_kit: LockKit) -> None:
    lock = lock_kit.contender()
    before = lock_kit.monotonic()
    term = await lock.acquire(KEY, 1_000)
    after = lock_kit.monotonic()
    assert term is not None
    assert before + 800 <= term.deadline <= after + 800
    before = lock_kit.monotonic()
    renewed = await lock.renew(term, 1_000)
    assert renewed is not None
    assert before + 800 <= renewed.deadline <= lock_kit.monotonic() + 800


async def test_releasing_frees_the_lock_at_once(lock_kit: LockKit) -> None:
    one, two = lock_kit.contender(), lock_kit.contender()
    first = await one.acquire(KEY, 1_000)
    assert first is not None
    await one.release(first)
    second = await two.acquire(KEY, 1_000)
    assert second is not None
    assert second.epoch > first.epoch
    assert await one.renew(first, 1_000) is None


async def test_who_lost_the_lock_cannot_release_it_for_another(lock_kit: LockKit) -> None:
    one, two, three = (lock_kit.contender() for _ in range(3))
    first = await one.acquire(KEY, TTL)
    await lock_kit.advance(TTL * 1.1)
    second = await two.acquire(KEY, 1_000)
    assert first is not None
    assert second is not None
    await one.release(first)
    assert await three.acquire(KEY, TTL) is None
    assert await two.renew(second, 1_000) is not None


async def test_a_made_up_token_renews_nothing(lock_kit: LockKit) -> None:
    one, two = lock_kit.contender(), lock_kit.contender()
    term = await one.acquire(KEY, 1_000)
    assert term is not None
    assert await two.renew(Term(KEY, "guess", term.epoch + 1, term.deadline), 1_000) is None
    assert await one.renew(term, 1_000) is not None


async def test_epochs_rise_through_releases_and_lapses(lock_kit: LockKit) -> None:
    epochs = []
    for number in range(6):
        lock = lock_kit.contender()
        term = await lock.acquire(KEY, TTL)
        assert term is not None
        epochs.append(term.epoch)
        if number % 2:
            await lock.release(term)
        else:
            await lock_kit.advance(TTL * 1.1)
    assert epochs == sorted(set(epochs))
