"""The lake gives a new series its past, and has the last word on what lies far back."""

import pyarrow as pa

from artery.engine.lakeside import AGAIN_S, INSIST, OFTEN_S, SELDOM_S, YOUNG_S, Looks, bars_of, reconciled
from artery.engine.records import Key
from artery.indicators.bar import bar_of
from artery.indicators.standard import fold
from artery.indicators.track import KEEP, Track
from artery.lake.tables import OHLC
from artery.model.events import Candle
from tests.engine.made import MINUTE, T0, House, _row, candle, wanted

KEY = Key("sim", "BTC", MINUTE)


def table(*candles: Candle) -> pa.Table:
    return pa.Table.from_pylist([_row(one) for one in candles], schema=OHLC.schema)


def tracked(*candles: Candle) -> Track:
    return Track.over([bar_of(one) for one in candles])


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_new_series_warms_up_from_the_lake_and_says_from_where(home: House) -> None:
    past = [candle(m) for m in range(100)]
    *_, position = await home.append(*past[90:])
    home.commit(*past, candle(100, closed=False), candle=position)
    await home.append(candle(100))
    engine = home.engine()
    await engine.begin()
    await engine.turn()
    found = await home.record()
    assert (found["from"], found["warm"], found["closed"]["startTs"]) == (T0, True, T0 + 100 * MINUTE.ms)
    assert await home.values() == wanted([*past, candle(100)])
    assert (await home.bus.group("candle", "cg_indicator_candle")).last == str(int(position) + 1)


async def test_a_past_that_comes_to_the_lake_later_is_taken_up(home: House) -> None:
    time = Time()
    engine = home.engine(monotonic=time)
    await home.append(candle(200), candle(201, closed=False))
    await engine.begin()
    await engine.turn()
    assert (await home.record())["warm"] is False
    for known in (50, 150):  # pages of history come one after the other
        home.commit(*[candle(m) for m in range(known - 50, known)])
        time.now += 2 * OFTEN_S
        await engine.turn()
        made = [*[candle(m) for m in range(known) if m < 50 or m >= 100], candle(200)]
        assert await home.values() == wanted(made)
    home.commit(*[candle(m) for m in range(50, 100)])
    time.now += 2 * OFTEN_S
    await engine.turn()
    assert await home.values() == wanted([*[candle(m) for m in range(150)], candle(200)])
    assert await home.values("open") == wanted([*[candle(m) for m in range(150)], candle(200), candle(201)])


async def test_a_correction_that_reaches_far_back_comes_from_the_lake(home: House) -> None:
    time = Time()
    engine = home.engine(monotonic=time)
    made = {m: candle(m) for m in range(KEEP + 100)}
    await home.append(*made.values())
    home.commit(*made.values())
    await engine.begin()
    await engine.turn()
    made[50] = candle(50, close="5", rev=1)
    await home.append(made[50])
    await engine.turn()  # the bus has the correction, the lake not yet
    home.rewrite(*made.values())
    time.now += 2 * AGAIN_S * 1.25
    await engine.turn()
    assert await home.values() == wanted(made.values())


async def test_entries_that_were_trimmed_unread_are_in_the_lake(home: House) -> None:
    time = Time()
    engine = home.engine(monotonic=time)
    made = [candle(m) for m in range(100)]
    await home.append(*made[:50])
    await engine.begin()
    await engine.turn()
    await home.append(*made[50:])
    home.commit(*made)
    await home.bus.trim("candle", keep=1)
    await engine.turn()
    assert await home.values() == wanted(made)


async def test_a_lake_that_is_away_is_no_trouble(home: House) -> None:
    (home.folder / "lake").mkdir()
    (home.folder / "lake" / "catalog.db").write_bytes(b"not a database" * 100)
    engine = home.engine()
    await home.append(*[candle(m) for m in range(40)])
    await engine.begin()
    await engine.turn()
    assert await home.values() == wanted(candle(m) for m in range(40))


def test_the_lake_that_lags_behind_changes_nothing() -> None:
    track = tracked(*[candle(m) for m in range(200)])
    before = track.closed_values()
    assert reconciled(track, table(*[candle(m) for m in range(20, 150)])) is None
    assert reconciled(track, table()) is None
    assert track.closed_values() == before


def test_what_is_newer_here_stays_when_a_series_is_folded_anew() -> None:
    mine = candle(149, close="3", rev=2)
    track = tracked(*[candle(m) for m in range(50, 149)], mine)
    fresh = reconciled(track, table(*[candle(m) for m in range(150)]))
    assert fresh is not None
    assert fresh.first == T0
    assert fresh.closed_values() == list(fold([*[bar_of(candle(m)) for m in range(149)], bar_of(mine)]))[-1]


def test_a_series_that_has_become_long_begins_later() -> None:
    made = [candle(m) for m in range(401)]
    fresh = reconciled(tracked(*made), table(*made), rows=200)
    assert fresh is not None
    assert fresh.count == 200
    assert fresh.first == made[201].start_ts
    assert fresh.closed_values() == list(fold(map(bar_of, made[201:])))[-1]
    assert reconciled(tracked(*made[:400]), table(*made[:400]), rows=200) is None


def test_a_decimal_of_the_lake_is_the_same_float_as_that_of_the_bus() -> None:
    odd = candle(0, close="0.100000000000000006")
    assert bars_of(table(odd))[0].c == float("0.100000000000000006") == bar_of(odd).c
    exact = candle(1, close="64123.45")
    assert bars_of(table(exact)) == [bar_of(exact)]


def test_looks_become_seldom_where_nothing_changes() -> None:
    time = Time()
    looks = Looks(time, lambda low, high: 1.0)
    looks.soon(KEY)
    assert looks.due() == [KEY]
    waits = []
    for reached in range(40):
        looks.looked(KEY, str(reached), changed=False)
        began = time.now
        while not looks.due():
            time.now += 1.0
        waits.append(time.now - began)
    assert waits[:3] == [2 * AGAIN_S, 4 * AGAIN_S, OFTEN_S]
    assert max(wait for wait, at in zip(waits, range(40), strict=True) if at * OFTEN_S < YOUNG_S / 2) <= OFTEN_S
    assert waits[-1] == SELDOM_S
    assert looks.seldom(KEY)
    looks.looked(KEY, "99", changed=True)
    time.now += AGAIN_S
    assert looks.due() == [KEY]
    assert looks.is_seen(KEY, "99")
    assert not looks.is_seen(KEY, "100")
    assert not looks.seldom(KEY)


def test_what_is_awaited_is_looked_for_several_times_even_if_the_lake_says_nothing_new() -> None:
    looks = Looks(Time(), lambda low, high: 1.0)
    looks.soon(KEY)
    for _ in range(INSIST):
        assert not looks.is_seen(KEY, "7")
        looks.looked(KEY, "7", changed=False)
    assert looks.is_seen(KEY, "7")
