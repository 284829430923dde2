"""VWAP from the lake where the log does not have the day's trades any more: the same as in batch, each trade once."""

from decimal import Context, Decimal

import msgspec

from artery.engine.service import Engine
from artery.indicators.vwap import DAY_MS, MINUTE_MS, Vwap
from artery.model.events import Trade
from artery.model.taken import Run
from tests.engine.made import T0, House, candle, trade

MORNING = [trade(seq, T0 + seq * 7_000, f"{100 + seq % 17}.{seq % 10}", f"0.{1 + seq % 9}") for seq in range(1, 41)]
_EXACT = Context(prec=200)
NOW = {"clock": lambda: (T0 + DAY_MS // 2) / 1_000}


def batch(trades: list[Trade], minute: int) -> float | None:
    """As `averages` does it: one fold over the day's trades."""
    sums = Vwap(fine_ms=2 * DAY_MS)
    for one in trades:
        sums.add(one.ts, one.px, one.sz)
    return sums.at(T0 + minute * MINUTE_MS, T0 + (minute + 1) * MINUTE_MS)


async def vwap(home: House) -> float | None:
    found: float | None = (await home.record())["closed"]["vwap"]
    return found


async def started(home: House) -> Engine:
    engine = home.engine(**NOW)
    await engine.begin()
    await engine.turn()
    return engine


async def test_an_engine_that_starts_in_mid_day_on_a_trimmed_log_has_the_vwap_of_batch(home: House) -> None:
    await home.append(*MORNING, candle(4))
    home.commit_trades(*MORNING[:30], trade="30")
    await home.bus.trim("trade", keep=15)
    await started(home)
    assert await vwap(home) == batch(MORNING, 4) is not None


async def test_trades_of_which_the_lake_has_a_part_of_the_next_batch_are_counted_once(home: House) -> None:
    await home.append(*MORNING, candle(4))
    home.commit_trades(*MORNING[:30], trade="30")
    home.commit_trades(*MORNING[30:33], trade="30")  # one day of a batch that spans two
    await started(home)
    assert await vwap(home) == batch(MORNING, 4)


async def test_trades_that_were_trimmed_before_they_were_read_come_from_the_lake(home: House) -> None:
    await home.append(*MORNING[:10], candle(4))
    engine = await started(home)
    await home.append(*MORNING[10:])
    home.commit_trades(*MORNING[:35], trade="35")
    await home.bus.trim("trade", keep=8)
    await engine.turn()
    assert await vwap(home) == batch(MORNING, 4)
    again = await started(home)  # and what was saved is as good
    await home.append(candle(4, rev=1))
    await again.turn()
    assert await vwap(home) == batch(MORNING, 4)


async def test_a_trade_that_is_on_the_bus_a_second_time_is_counted_once_also_after_a_restart(home: House) -> None:
    await home.append(*MORNING[:10], *MORNING[5:9], candle(4))
    await started(home)
    await home.append(*MORNING[7:], candle(4, rev=1))
    await started(home)
    assert await vwap(home) == batch(MORNING, 4)


async def test_a_trade_with_a_lower_place_than_one_before_it_is_in_the_average_as_in_batch(home: House) -> None:
    low, rest = MORNING[10:14], [*MORNING[:10], *MORNING[14:]]
    await home.append(*rest[:20], low[1], candle(4))
    await started(home)
    await home.append(low[0], low[1], *rest[20:], low[0], candle(4, rev=1))
    await started(home)  # what was summed is known to the next one too
    await home.append(*low[2:], rest[3], candle(4, rev=2))
    await started(home)
    assert await vwap(home) == batch(MORNING, 4)


async def test_a_lower_place_that_the_lake_has_not_counts_after_the_sums_were_made_anew(home: House) -> None:
    await home.append(*MORNING[1:30], candle(4))
    home.commit_trades(*MORNING[1:30], trade="29")
    await home.bus.trim("trade", keep=1)
    await started(home)
    await home.append(*MORNING[30:], MORNING[0], MORNING[5], candle(4, rev=1))
    await started(home)
    assert await vwap(home) == batch(MORNING, 4)


async def test_an_absurd_trade_spoils_no_average_live_or_counted_anew(home: House) -> None:
    odd = [trade(21, T0 + 30 * DAY_MS, "5"), trade(22, T0 + 60_000, "5", "99999999999999999999")]
    odd[0] = msgspec.structs.replace(odd[0], event_ts=T0 + 140_000)
    later = [msgspec.structs.replace(one, seq=one.seq + 2) for one in MORNING[20:]]
    made = [*MORNING[:20], *odd, *later]
    await home.append(*made, candle(4))
    await started(home)
    assert await vwap(home) == batch(MORNING, 4) is not None
    home.commit_trades(*made[:35], trade="35")
    await home.bus.trim("trade", keep=10)
    for key, _ in await home.store.scan("artery:engine:"):
        await home.store.delete(key)
    await home.append(candle(4, rev=1))
    await started(home)
    assert await vwap(home) == batch(MORNING, 4)


async def test_a_store_that_was_lost_costs_no_trade_of_the_day(home: House) -> None:
    await home.append(*MORNING[:20], candle(4))
    await started(home)
    home.commit_trades(*MORNING[:12], trade="12")
    for prefix in ("artery:engine:", "artery:indicator:"):
        for key, _ in await home.store.scan(prefix):
            await home.store.delete(key)
    await home.append(*MORNING[20:], candle(4, rev=1))
    await started(home)
    assert await vwap(home) == batch(MORNING, 4)


def test_sums_of_the_lake_are_exact(home: House) -> None:
    fine = [trade(seq, T0 + seq, f"12345678901.{'1' * 17}{seq}", f"0.{'0' * 16}{seq}") for seq in range(1, 10)]
    home.commit_trades(*fine, trade="9")
    found = home.lake.traded(T0)
    wanted = Decimal(0)
    for one in fine:
        wanted = _EXACT.add(wanted, _EXACT.multiply(one.px, one.sz))
    assert found.sums["SIM:BTC"][T0] == (wanted, sum(one.sz for one in fine))
    assert (found.position, found.taken) == ("9", {"SIM:BTC": [Run((1, 1), (1, 9))]})
