"""The engine on a real bus and store: its values are one fold's, whatever comes twice, late or corrected."""

from collections.abc import Sequence
from typing import Any

import pytest

from artery.bus.base import DEAD
from artery.engine.service import Engine
from artery.errors import Fenced, Unavailable
from artery.indicators.standard import NAMES
from artery.indicators.vwap import MINUTE_MS
from artery.model.periods import Period
from artery.store.base import Store
from tests.engine.made import T0, House, candle, trade, wanted

pytestmark = pytest.mark.parametrize("home", ["sqlite", "redis"], indirect=True)


async def turned(engine: Engine) -> Engine:
    await engine.begin()
    await engine.turn()
    return engine


async def test_the_record_is_what_the_contract_says(home: House) -> None:
    made = [candle(m) for m in range(40)]
    *_, position = await home.append(*made, candle(40, closed=False))
    await turned(home.engine())
    found = await home.record()
    assert list(found) == ["closed", "open", "from", "position", "warm"]
    assert list(found["closed"]) == list(found["open"]) == ["startTs", "rev", *NAMES, "vwap"]
    assert (found["from"], found["position"], found["warm"]) == (T0, position, True)
    assert (found["closed"]["startTs"], found["open"]["startTs"]) == (T0 + 39 * MINUTE_MS, T0 + 40 * MINUTE_MS)
    assert await home.values() == wanted(made)
    assert await home.values("open") == wanted([*made, candle(40)])
    assert [key for key, _ in await home.store.scan("artery:indicator:")] == ["artery:indicator:sim:BTC:1m"]


async def test_a_series_without_enough_candles_is_not_warm_and_says_null(home: House) -> None:
    await home.append(*[candle(m) for m in range(20)])
    await turned(home.engine())
    found = await home.record()
    assert found["warm"] is False
    assert found["open"] is None
    assert found["closed"]["macd"] is None
    assert found["closed"]["sma_20"] == wanted([candle(m) for m in range(20)])["sma_20"]


async def test_a_higher_revision_rewinds_to_its_candle_and_goes_forward_again(home: House) -> None:
    made = {m: candle(m) for m in range(60)}
    engine = home.engine()
    await home.append(*made.values())
    await turned(engine)
    for minute, rev in ((55, 1), (20, 1), (20, 2), (59, 3)):
        made[minute] = candle(minute, close=f"{90 + rev}", rev=rev)
        await home.append(made[minute], candle(minute, close="1", rev=rev - 1))
        await engine.turn()
        assert await home.values() == wanted(made.values())
    assert (await home.record())["closed"]["rev"] == 3


async def test_a_candle_that_was_missing_is_put_in_its_place(home: House) -> None:
    engine = home.engine()
    await home.append(*[candle(m) for m in range(50) if m != 30])
    await turned(engine)
    await home.append(candle(30))
    await engine.turn()
    assert await home.values() == wanted(candle(m) for m in range(50))


async def test_the_next_candle_opens_before_the_last_one_has_closed(home: House) -> None:
    engine = home.engine()
    await home.append(*[candle(m) for m in range(40)], candle(40, closed=False), candle(41, closed=False))
    await turned(engine)
    everything = wanted(candle(m) for m in range(42))
    assert await home.values("open") == everything
    await home.append(candle(40))
    await engine.turn()
    assert await home.values("open") == everything
    await home.append(candle(40, close="7", closed=False))
    await engine.turn()
    assert await home.values() == wanted(candle(m) for m in range(41))


async def test_vwap_comes_from_the_trades_of_the_day(home: House) -> None:
    engine = home.engine()
    await home.append(
        trade(1, T0 - 1, "999"), trade(2, T0 + 10, "10", "3"), trade(3, T0 + MINUTE_MS - 1, "20", "1"),
        trade(4, T0 + MINUTE_MS, "40", "4"), trade(5, T0 + 5, "1", epoch=0),
    )  # fmt: skip
    await home.append(candle(0), candle(1, closed=False))
    await turned(engine)
    found = await home.record()
    assert found["closed"]["vwap"] == (10 * 3 + 20) / 4
    assert found["open"]["vwap"] == (10 * 3 + 20 + 40 * 4) / 8
    day = Period.parse("1d")
    assert (await home.store.get(f"artery:indicator:sim:BTC:{day}")) is None


async def test_what_cannot_be_decoded_goes_to_the_dead_letters_and_the_rest_goes_on(home: House) -> None:
    await home.bus.append("candle", [{"ver": "1", "t": "CANDLE", "coin": "BTC"}])
    await home.append(candle(0))
    await home.bus.append("candle", [{"ver": "9", "t": "CANDLE"}, {**_fields(trade(1, T0, "5"))}])
    await home.bus.append("trade", [{"ver": "1", "t": "TRADE", "px": "nan"}])
    await turned(home.engine())
    letters = await home.bus.read(DEAD)
    assert sorted((one.fields["stream"], one.fields["group"]) for one in letters) == [
        *[("candle", "cg_indicator_candle")] * 3,
        ("trade", "cg_indicator_trade"),
    ]
    assert (await home.record())["closed"]["startTs"] == T0
    for stream, group in (("candle", "cg_indicator_candle"), ("trade", "cg_indicator_trade")):
        state = await home.bus.group(stream, group)
        assert (state.lag, state.pending) == (0, 0)


def _fields(event: Any) -> dict[str, str]:
    from artery.model import codec

    return codec.encode(event)


async def test_what_was_not_acked_is_read_again_and_counted_once(home: House) -> None:
    made = [candle(m) for m in range(40)]
    await home.append(*made, *[trade(n, T0 + 39 * MINUTE_MS + n, "50") for n in range(1, 5)])
    first = await turned(home.engine(save_s=1e9))
    assert (await home.bus.group("candle", "cg_indicator_candle")).pending == 40
    before = await home.record()
    del first  # it died before it acked
    second = await turned(home.engine())
    assert await home.record() == before
    assert (await home.bus.group("trade", "cg_indicator_trade")).pending == 0
    await home.append(trade(5, T0 + 39 * MINUTE_MS + 5, "100"), candle(40))
    await second.turn()
    assert (await home.record())["closed"]["vwap"] == (4 * 50 + 100) / 5
    assert await home.values() == wanted([*made, candle(40)])


class Dying:
    """A store that works for some writes and is away from then on."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self.left = writes

    async def scan(self, prefix: str, limit: int = 10_000) -> Sequence[tuple[str, bytes]]:
        return await self._store.scan(prefix, limit)

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        if self.left == 0:
            raise Unavailable("the store has died")
        self.left -= 1
        return await self._store.compare_and_set(key, expected, value, ttl_s)


@pytest.mark.parametrize("writes", range(4))
async def test_a_death_between_any_two_writes_loses_and_repeats_nothing(home: House, writes: int) -> None:
    made = [candle(m) for m in range(40)]
    await home.append(*made[:39], trade(1, T0 + 39 * MINUTE_MS, "50"))
    await turned(home.engine())
    await home.append(made[39], trade(2, T0 + 39 * MINUTE_MS + 1, "70"))
    dying = Dying(home.store, writes)
    engine = home.engine(store=dying)
    await engine.begin()
    if writes < 3:
        with pytest.raises(Unavailable):
            await engine.turn()
    else:
        await engine.turn()
        assert dying.left == 0
    await turned(home.engine())
    assert await home.values() == wanted(made)
    assert (await home.record())["closed"]["vwap"] == 60.0


async def test_a_leader_that_was_frozen_writes_nothing_when_it_comes_back(home: House) -> None:
    await home.append(*[candle(m) for m in range(40)])
    frozen = await turned(home.engine())
    await home.append(candle(40))
    await turned(home.engine())
    good = await home.record()
    frozen.board.candle("999", candle(41, close="1"))
    with pytest.raises(Fenced, match="another engine"):
        await frozen.turn()
    assert await home.record() == good


async def test_a_state_that_cannot_be_read_is_made_anew(home: House) -> None:
    await home.store.put("artery:engine:series:sim:BTC:1m", b'["sim","BTC",60]')
    await home.append(*[candle(m) for m in range(40)])
    await turned(home.engine())
    assert await home.values() == wanted(candle(m) for m in range(40))


async def test_a_foreign_producers_candles_have_indicators_too(home: House) -> None:
    fields = {"ver": "1", "t": "CANDLE", "coin": "GOLD", "interval": "1h", "startTs": str(T0), "o": "1", "h": "2",
              "l": "1", "c": "2", "v": "3", "isClosed": "true", "eventTs": str(T0)}  # fmt: skip
    await home.bus.append("candle", [fields])
    await turned(home.engine())
    assert (await home.record("GOLD", Period.parse("1h"), "external"))["closed"]["startTs"] == T0
