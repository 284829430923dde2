"""The venue's metadata on the log: a version for every change, none twice, none left out."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from artery.model import symbols
from artery.model.symbols import DELISTED, OPEN, Symbol
from tests.ingest.make import T0
from tests.ingest.scripted import Stage, until


class Listed(Stage):
    """A feed whose venue's metadata a test can change."""

    async def symbols(self, count: int) -> list[Symbol]:
        """The versions on the log, once there are so many."""

        async def enough() -> bool:
            return len(await self.entries("symbol")) >= count

        await until(enough, f"{count} versions")
        return [symbols.decode(entry.fields) for entry in await self.entries("symbol")]

    async def stored(self, coin: str, version: int) -> Symbol:
        async def there() -> Symbol | None:
            found = symbols.read(await self.store.get(symbols.key("sim", coin)))
            return found if found is not None and found.version >= version else None

        found: Symbol = await until(there, f"version {version} of {coin} in the store")
        return found

    def change(self, coin: str, tick_size: str) -> None:
        self.venue.ticks[coin] = Decimal(tick_size)


@pytest.fixture
async def listed(tmp_path: Path) -> AsyncIterator[Listed]:
    one = Listed(tmp_path, history_days=0.0, symbols_s=0.01)
    yield one
    await one.close()


async def test_every_market_of_the_venue_is_a_first_version_whether_it_is_followed_or_not(listed: Listed) -> None:
    listed.venue.coins = ("BTC", "ETH", "SOL")
    async with listed.term(10):
        found = await listed.symbols(3)
        await listed.stored("SOL", 1)
    assert [(one.ticker, one.version, one.status, one.valid_from) for one in found] == [
        (f"SIM:{coin}", 1, OPEN, T0) for coin in ("BTC", "ETH", "SOL")
    ]


async def test_a_change_is_a_new_version_and_what_stays_the_same_is_none(listed: Listed) -> None:
    async with listed.term(10):
        await listed.symbols(2)
        listed.venue.now_ms += 5_000
        listed.change("BTC", "0.5")
        changed = (await listed.symbols(3))[2]
        listed.change("ETH", "0.2")
        await listed.symbols(4)
        stored = await listed.stored("BTC", 2)
    assert (changed.coin, changed.version, changed.tick_size, changed.valid_from) == (
        "BTC",
        2,
        Decimal("0.5"),
        T0 + 5_000,
    )
    assert stored == changed
    assert len(await listed.entries("symbol")) == 4


async def test_a_market_that_the_venue_no_longer_names_is_delisted_and_never_vanishes(listed: Listed) -> None:
    listed.venue.coins = ("BTC", "ETH", "SOL")
    async with listed.term(10):
        await listed.symbols(3)
        listed.venue.coins = ("BTC", "ETH")
        gone = (await listed.symbols(4))[3]
        listed.venue.coins = ("BTC", "ETH", "SOL")
        back = (await listed.symbols(5))[4]
    assert [(one.coin, one.version, one.status) for one in (gone, back)] == [("SOL", 2, DELISTED), ("SOL", 3, OPEN)]


async def test_the_next_leader_goes_on_counting_and_repeats_nothing(listed: Listed) -> None:
    async with listed.term(10):
        await listed.symbols(2)
        await listed.stored("ETH", 1)
    await listed.store.delete(symbols.key("sim", "BTC"))  # a leader that died between the log and the store
    listed.change("ETH", "0.2")
    async with listed.term(11):
        await listed.stored("BTC", 1)
        await listed.stored("ETH", 2)
    found = [symbols.decode(entry.fields) for entry in await listed.entries("symbol")]
    assert [(one.coin, one.version) for one in found] == [("BTC", 1), ("ETH", 1), ("ETH", 2)]


async def test_a_trimmed_log_does_not_begin_again_at_version_one(listed: Listed) -> None:
    async with listed.term(10):
        await listed.stored("ETH", 1)
        listed.change("ETH", "0.2")
        await listed.stored("ETH", 2)
    await listed.bus.trim("symbol", keep=0)
    listed.change("ETH", "0.3")
    async with listed.term(11):
        assert (await listed.stored("ETH", 3)).tick_size == Decimal("0.3")


async def test_an_append_whose_answer_was_lost_leaves_no_second_version(listed: Listed) -> None:
    async with listed.term(10):
        await listed.symbols(2)
        listed.bus.fail_after_writing = 1
        listed.change("BTC", "0.5")
        await listed.stored("BTC", 2)
        listed.change("BTC", "0.7")
        await listed.stored("BTC", 3)
    found = [symbols.decode(entry.fields) for entry in await listed.entries("symbol")]
    assert [one.version for one in found if one.coin == "BTC"] == [1, 2, 3]


def test_a_symbol_is_read_as_it_was_written() -> None:
    one = Symbol("sim", "BTC", "BTC", "USDC", Decimal("0.10"), Decimal("0.001"), OPEN, 7, T0)
    assert symbols.read(symbols.write(one)) == one
    assert symbols.read(b"{}") is None
