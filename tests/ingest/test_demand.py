"""Markets that are followed because someone wants them: added and dropped while the feed runs, and said honestly."""

import msgspec
import pytest

from artery.ingest.demand import choose
from artery.ingest.marks import DROPPED
from artery.model.channels import Channel
from artery.providers.base import Up
from artery.store import demand
from tests.ingest.make import T0, batch, trade
from tests.ingest.scripted import Stage, until

DAY_START = T0 // 86_400_000 * 86_400_000
MINUTE = 60_000


async def want(stage: Stage, coin: str, holder: str = "g1", ttl_s: float | None = None) -> None:
    await stage.store.put(demand.key(holder, Channel("sim", coin)), b"1", ttl_s)


async def leave(stage: Stage, coin: str, holder: str = "g1") -> None:
    await stage.store.delete(demand.key(holder, Channel("sim", coin)))


async def follows(stage: Stage, *coins: str) -> None:
    async def so() -> bool:
        return stage.venue.followed == coins

    await until(so, f"{coins} are followed")


async def mark_of(stage: Stage, coin: str, cause: str) -> dict[str, str]:
    """The newest mark of a market with this cause, once there is one."""

    async def there() -> dict[str, str]:
        found = [entry.fields for entry in await stage.entries("feed", "MARK")]
        return next((one for one in reversed(found) if (one["coin"], one["cause"]) == (coin, cause)), {})

    found: dict[str, str] = await until(there, f"a mark of {coin}: {cause}")
    return found


@pytest.fixture
def sol(stage: Stage) -> Stage:
    """The venue has a market that the settings do not name."""
    stage.venue.coins = ("BTC", "ETH", "SOL")
    return stage


async def test_a_market_that_is_wanted_is_followed_and_its_first_word_is_a_mark_of_the_day_so_far(sol: Stage) -> None:
    async with sol.term(10):
        await sol.clock_beyond(T0)
        await want(sol, "SOL")
        await follows(sol, "BTC", "ETH", "SOL")
        marks = [entry.fields for entry in await sol.entries("feed", "MARK")]
        first = next(mark for mark in marks if mark["coin"] == "SOL")  # there before the venue is asked
        assert (int(first["from"]), first["cause"]) == (DAY_START, "start")
        sol.venue.say(Up(("SOL",), sol.now_ms), batch(trade(1, sol.now_ms, "SOL")))
        assert await sol.written(1) == ["1"]
        await sol.clock_beyond(sol.now_ms)
    entry = (await sol.entries("trade"))[0].fields
    assert (entry["coin"], entry["epoch"], entry["seq"]) == ("SOL", "10", "1")


async def test_what_nobody_wants_any_more_is_dropped_and_its_open_candles_are_not_vouched_for(sol: Stage) -> None:
    async with sol.term(10):
        await want(sol, "SOL")
        await want(sol, "SOL", "g2")
        await follows(sol, "BTC", "ETH", "SOL")
        sol.venue.say(Up(("SOL",), sol.now_ms), batch(trade(1, sol.now_ms, "SOL")))
        await sol.written(1)
        vouched = await sol.clock_beyond(sol.now_ms)
        await leave(sol, "SOL")
        await sol.advance(1_000)
        assert sol.venue.followed[-1] == "SOL", "another one still wants it"
        await leave(sol, "SOL", "g2")
        await follows(sol, "BTC", "ETH")
        last = await mark_of(sol, "SOL", DROPPED)
        assert int(last["from"]) <= vouched < int(last["to"]) <= sol.now_ms
        sol.venue.say(batch(trade(2, sol.now_ms, "SOL")), batch(trade(3, sol.now_ms)))
        assert await sol.written(2) == ["1", "3"], "what comes after the drop is nobody's"

        async def repaired() -> bool:
            return any(coin == "SOL" and period == "1m" for coin, period, _, _ in sol.venue.asked)

        await sol.advance_until(repaired, "the minute that was open is the venue's own")


async def test_a_market_that_comes_back_is_not_vouched_for_since_it_was_dropped_and_repeats_no_trade(
    sol: Stage,
) -> None:
    async with sol.term(10):
        await want(sol, "SOL")
        await follows(sol, "BTC", "ETH", "SOL")
        sol.venue.say(Up(("SOL",), sol.now_ms), batch(trade(1, sol.now_ms, "SOL")))
        await sol.written(1)
        left = await sol.clock_beyond(sol.now_ms)
        await leave(sol, "SOL")
        await follows(sol, "BTC", "ETH")
        await mark_of(sol, "SOL", DROPPED)

        async def remembered() -> bool:
            known = msgspec.json.decode(await sol.store.get("artery:watched:sim") or b"{}", type=dict[str, int])
            return known.get("SOL", 0) > T0

        await until(remembered, "what was watched is remembered")
    async with sol.term(11, "failover"):
        await sol.clock_beyond(sol.now_ms)
        await want(sol, "SOL")
        await follows(sol, "BTC", "ETH", "SOL")
        back = await mark_of(sol, "SOL", "demand")
        assert left - 1_000 <= int(back["from"]) < sol.now_ms
        sol.venue.say(Up(("SOL",), sol.now_ms), batch(trade(1, T0, "SOL"), trade(2, sol.now_ms, "SOL")))
        assert await sol.written(2) == ["1", "2"]


async def test_a_new_leader_follows_what_the_store_says_is_wanted(sol: Stage) -> None:
    await want(sol, "SOL")
    async with sol.term(10):
        await follows(sol, "BTC", "ETH", "SOL")


async def test_what_the_venue_does_not_have_is_not_followed_and_what_settings_want_stays(sol: Stage) -> None:
    async with sol.term(10):
        await want(sol, "NOPE")
        await want(sol, "BTC")
        await want(sol, "SOL")
        await follows(sol, "BTC", "ETH", "SOL")
        await leave(sol, "BTC")
        await leave(sol, "SOL")
        await follows(sol, "BTC", "ETH")


async def test_the_chart_of_a_new_market_gets_its_past(sol: Stage) -> None:
    sol.parts = sol.parts_with(sol.settings.with_(ingest={"history_days": 1.0}))
    async with sol.term(10):
        await want(sol, "SOL")

        async def fetched() -> bool:
            return {period for coin, period, _, _ in sol.venue.asked if coin == "SOL"} >= {"1m", "1d"}

        await until(fetched, "the past of SOL is asked for")


def test_no_more_are_followed_than_the_settings_and_the_venue_allow() -> None:
    always, wanted, listed = ("A", "B"), ["C", "D", "E", "F"], set("ABCDE")
    assert choose(always, wanted, listed, demand_max=10, markets_max=10) == (("A", "B", "C", "D", "E"), [])
    assert choose(always, wanted, listed, demand_max=1, markets_max=10) == (("A", "B", "C"), ["D", "E"])
    assert choose(always, wanted, listed, demand_max=10, markets_max=4) == (("A", "B", "C", "D"), ["E"])
    assert choose(always, wanted, listed, demand_max=10, markets_max=1) == (("A", "B"), ["C", "D", "E"])
    assert choose(always, wanted, None, demand_max=10, markets_max=10) == (always, [])
