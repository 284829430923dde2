"""What a gateway's clients want is in the store while they want it, and no more than they may want."""

from decimal import Decimal
from pathlib import Path
from typing import Any

from artery.gateway.demand import Demand
from artery.model import symbols
from artery.model.channels import Channel
from artery.model.symbols import Symbol
from artery.settings import Settings
from artery.store import demand
from artery.store.demand import Share
from artery.store.open import open_store
from tests.gateway.made import BTC, MIDS
from tests.gateway.running import Running, hear, started, subscribe, until
from tests.ingest.venue_and_feed import COINS, play

SOL, DOGE, XRP = (Channel("sim", coin) for coin in ("SOL", "DOGE", "XRP"))


async def listed(running: Running, *markets: Channel) -> None:
    """The venue has these, and the gateway knows it."""
    for market in markets:
        symbol = Symbol(market.provider, market.market, market.market, "USDC", Decimal(1), Decimal(1))
        await running.store.put(symbols.key(market.provider, market.market), symbols.write(symbol))
    await until(lambda: all(running.gateway._catalog.known(str(market)) for market in markets))


async def wanted(running: Running) -> set[Channel]:
    return set(await demand.demanded(running.store))


async def test_who_subscribes_to_a_market_that_the_venue_has_makes_it_wanted(tmp_path: Path) -> None:
    async with started(tmp_path) as running, running.connect() as socket:
        answer = await subscribe(socket, str(SOL))
        assert (answer["code"], "nothing serves" in answer["message"]) == ("unknown_channel", True)
        await listed(running, SOL)
        assert (await subscribe(socket, str(SOL), MIDS))["type"] == "subscribed"

        async def alone() -> bool:
            return await wanted(running) == {SOL}

        await until(alone)


async def test_more_markets_than_a_key_may_have_followed_are_refused_with_a_sentence(tmp_path: Path) -> None:
    gateway: dict[str, Any] = {"port": 0, "key_demand_max": 1}
    async with started(tmp_path, gateway=gateway) as running, running.connect() as socket, running.connect() as other:
        await listed(running, SOL, DOGE)
        assert (await subscribe(socket, str(SOL), BTC))["type"] == "subscribed"
        assert (await subscribe(other, str(SOL)))["type"] == "subscribed"
        refused = await subscribe(other, str(DOGE))
        assert refused["code"] == "subscription_limit"
        assert refused["message"] == "a key may have 1 markets followed beside the usual ones: leave some of them first"


async def test_a_share_outlives_its_last_client_by_a_while_and_is_renewed_meanwhile(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    want = [SOL]
    share = Share(store, "g", lambda: want, leave_s=30.0)
    await share.look(0.0)
    want.clear()
    await share.look(5.0)
    await store.delete(demand.key("g", SOL))
    await share.look(12.0)
    assert await demand.demanded(store) == [SOL], "it is said again while it is held"
    want.append(SOL)
    await share.look(30.0)
    want.clear()
    await share.look(31.0)
    await share.look(60.0)
    assert await demand.demanded(store) == [SOL], "who comes back begins anew"
    await share.look(61.0)
    assert await demand.demanded(store) == []
    await store.close()


def test_settings_markets_cost_nothing_and_what_is_left_is_free_again() -> None:
    made = Demand(Settings().with_(ingest={"markets": ("BTC",)}, gateway={"demand_max": 2, "key_demand_max": 9}))
    assert made.take("a", [BTC, MIDS, str(SOL)]) == ""
    assert made.take("b", [str(SOL), str(DOGE)]) == ""
    assert "this gateway has 2 markets" in made.take("b", [str(XRP)])
    assert made.take("b", [BTC]) == ""
    made.give("a", str(SOL))
    assert "this gateway" in made.take("b", [str(XRP)])
    made.give("b", str(SOL))
    assert made.take("b", [str(XRP)]) == ""
    assert set(made.wanted()) == {Channel("sim", "BTC"), DOGE, XRP}
    for name in (BTC, str(DOGE), str(XRP)):
        made.give("b", name)
    made.give("a", BTC)
    assert made.wanted() == []


async def test_a_client_gets_trades_of_a_market_that_nobody_followed(tmp_path: Path) -> None:
    """Venue, feed and gateway in one: what a client wants reaches the venue, and comes back."""
    async with play(tmp_path) as one, one.serving():
        places = {"bus": {"url": f"sqlite:///{tmp_path}/bus.db"}, "store": {"url": f"sqlite:///{tmp_path}/store.db"}}
        markets = {"ingest": {"markets": COINS}}
        async with (
            started(tmp_path, pubsub=one.pubsub, **places, **markets) as running,
            running.connect(max_queue=None) as socket,
        ):
            avax = str(Channel("sim", "AVAX"))
            await until(lambda: running.gateway._catalog.known(avax))
            assert (await subscribe(socket, {"channel": avax, "types": ["TRADE"]}))["type"] == "subscribed"
            seen: dict[str, dict[str, Any]] = {}
            while len(seen) < 2:  # the gap comes by the log, trades by pub/sub: either may be first
                frame = await hear(socket, lambda frame: frame["type"] in ("event", "gap"))
                seen.setdefault(frame["type"], frame)
            assert seen["gap"]["reason"] == "upstream", "what nobody watched before is said"
            assert (seen["event"]["data"]["coin"], seen["event"]["data"]["seq"]) == ("AVAX", "1")

            async def shown() -> bool:
                async with running.http() as http:
                    found = (await http.get("/v1/markets")).json()["markets"]
                return any(market["coin"] == "AVAX" and market["followed"] for market in found)

            await until(shown)
