"""Standing by, leading, stopping; and what the store is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from artery.errors import BadSetting
from artery.ingest.feed import lock_key
from artery.ingest.service import Service, run_ingest
from artery.ingest.status import FeedStatus, keep_passive, state_of
from artery.live.lock import StoreLock
from artery.providers.base import Down, Up
from tests.ingest.make import T0, batch, book, trade
from tests.ingest.scripted import Stage, until


async def status(stage: Stage) -> FeedStatus | None:
    value = await stage.store.get("artery:feed:sim")
    return None if value is None else msgspec.json.decode(value, type=FeedStatus)


async def reaches(stage: Stage, state: str) -> FeedStatus:
    async def there() -> FeedStatus | None:
        found = await status(stage)
        return found if found is not None and found.state == state else None

    found: FeedStatus = await until(there, f"the feed is {state}")
    return found


@asynccontextmanager
async def serving(stage: Stage) -> AsyncIterator[asyncio.Task[None]]:
    """One process's ingest, contending for the lock."""
    task = asyncio.create_task(Service(stage.parts, StoreLock(stage.store), pause_s=(0.01, 0.02)).run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_the_status_follows_the_feed(stage: Stage) -> None:
    async with serving(stage):
        first = await reaches(stage, "connecting")
        assert first.epoch > 0
        assert first.cause == "start"
        await until(lambda: listening(stage, 1), "the feed listens")
        stage.venue.say(Up(("BTC", "ETH"), T0), batch(trade(1, T0 + 5), book(1, T0 + 7)))

        async def told() -> bool:
            found = await status(stage)
            return found is not None and found.markets["BTC"] == {"trade_ms": T0 + 5, "book_ms": T0 + 7}

        await until(told, "the status has the newest times")
        live = await reaches(stage, "live")
        assert (live.provider, live.cause, live.updated_ms) == ("sim", "", stage.now_ms)
        stage.venue.now_ms += 16_000
        await reaches(stage, "stale")
        stage.venue.say(Down(cause="closed", from_ms=stage.now_ms))
        assert (await reaches(stage, "connecting")).cause == "closed"
    assert (await reaches(stage, "standby")).cause == "stopped"


async def listening(stage: Stage, count: int) -> bool:
    return stage.venue.listening >= count


async def test_the_markets_metadata_is_in_the_store(stage: Stage) -> None:
    async with serving(stage):
        value = await until(lambda: stage.store.get("artery:market:sim:BTC"), "the market is in the store")
    assert msgspec.json.decode(value) == {
        "ver": "1",
        "t": "SYMBOL",
        "provider": "sim",
        "coin": "BTC",
        "ticker": "SIM:BTC",
        "base": "BTC",
        "quote": "USDC",
        "tick_size": "0.1",
        "size_step": "0.001",
        "status": "open",
        "version": "1",
        "valid_from": str(T0),
        "eventTs": str(T0),
    }


async def test_a_clean_stop_frees_the_lock_and_the_next_one_leads_at_once(stage: Stage) -> None:
    async with serving(stage):
        await until(lambda: listening(stage, 1), "the first leads")
        stage.venue.say(Up(("BTC", "ETH"), T0), batch(trade(1)))
        await stage.written(1)
        first = await reaches(stage, "live")
    term = await StoreLock(stage.store).acquire(lock_key("sim"))
    assert term is not None
    assert term.epoch > first.epoch


async def test_one_leads_the_other_stands_by_and_takes_over_with_a_higher_epoch(stage: Stage) -> None:
    async with serving(stage) as first:
        await until(lambda: listening(stage, 1), "the first leads")
        stage.venue.say(Up(("BTC", "ETH"), T0), batch(trade(1)))
        await stage.written(1)
        old = await reaches(stage, "live")
        async with serving(stage):
            await asyncio.sleep(0.1)
            assert stage.venue.listening == 1
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
            await until(lambda: listening(stage, 1), "the second leads")
            stage.venue.say(Up(("BTC", "ETH"), stage.now_ms), batch(trade(1), trade(2)))
            await stage.written(2)
            new = await reaches(stage, "live")
    assert new.epoch > old.epoch
    trades = await stage.entries("trade")
    assert [(entry.fields["tid"], int(entry.fields["epoch"])) for entry in trades] == [
        ("1", old.epoch),
        ("2", new.epoch),
    ]


async def test_with_workers_off_nothing_is_led_and_the_status_says_so(stage: Stage) -> None:
    off = stage.settings.with_(stream={"workers": False})
    task = asyncio.create_task(
        run_ingest(off, stage.bus, stage.pubsub, stage.store, StoreLock(stage.store), stage.venue)
    )
    found = await reaches(stage, "off")
    assert (found.epoch, found.cause) == (0, "ART_STREAM_WORKERS is off")
    assert stage.venue.listening == 0
    assert await stage.entries("feed") == []
    task.cancel()
    await asyncio.wait({task})


async def test_a_process_without_workers_does_not_speak_over_a_leader(stage: Stage) -> None:
    async with serving(stage):
        await until(lambda: listening(stage, 1), "the feed listens")
        stage.venue.say(Up(("BTC", "ETH"), T0))
        await reaches(stage, "live")
        task = asyncio.create_task(keep_passive(stage.parts, "off", "workers are off here"))
        for _ in range(20):
            await asyncio.sleep(0.01)
            found = await status(stage)
            assert found is not None
            assert found.state == "live"
        task.cancel()
        await asyncio.wait({task})


async def test_a_venue_that_the_settings_do_not_name_is_refused(stage: Stage) -> None:
    other = stage.settings.with_(ingest={"provider": "hyperliquid_perp"})
    with pytest.raises(BadSetting, match="ART_INGEST_PROVIDER"):
        await run_ingest(other, stage.bus, stage.pubsub, stage.store, StoreLock(stage.store), stage.venue)


def test_the_feed_of_every_hyperliquid_provider_has_one_lock() -> None:
    assert lock_key("hyperliquid_perp") == "artery:lock:stream:hyperliquid"
    assert lock_key("sim") == "artery:lock:stream:sim"


@pytest.mark.parametrize(
    ("up", "trouble", "heard_ms", "state"),
    [
        (False, "", T0, "connecting"),
        (True, "", T0, "live"),
        (True, "", T0 - 16_000, "stale"),
        (True, "the bus is away", T0, "stale"),
    ],
)
def test_the_word_for_a_feed(up: bool, trouble: str, heard_ms: int, state: str) -> None:
    assert state_of(up=up, trouble=trouble, heard_ms=heard_ms, now_ms=T0) == state
