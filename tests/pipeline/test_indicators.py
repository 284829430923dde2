"""Indicators in batch, by Spark over the lake's rows, are those of the stream, to the bit."""

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from artery.indicators.bar import Bar, bar
from artery.indicators.standard import NAMES
from artery.indicators.track import Outcome, Saved, Track
from artery.indicators.vwap import DAY_MS, MINUTE_MS, State, Vwap
from artery.lake.tables import OHLC, TRADES
from artery.pipeline.indicators import averages, indicators
from tests.pipeline.conftest import House

DAY = 1_730_073_600_000
SERIES = (("SIM:BTC", 60), ("SIM:BTC", 300), ("SIM:ETH", 60))


def when(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def row(ticker: str, period_s: int, start: int, chance: random.Random, *, closed: bool = True, rev: int = 0) -> Any:
    low = Decimal(f"{chance.randrange(1, 10**5)}.{chance.randrange(10**18):018d}")
    o, c, high = low + Decimal(chance.random()).quantize(Decimal("1e-18")), low, low + 2
    volume = Decimal(f"{chance.randrange(10**6)}.{chance.randrange(10**18):018d}")
    return {
        "ticker": ticker, "period_s": period_s, "start": when(start), "open": o, "high": high, "low": low, "close": c,
        "volume": volume, "trades": 3, "closed": closed, "rev": rev, "source": "live", "updated": when(start),
    }  # fmt: skip


def bar_of_row(found: dict[str, Any]) -> Bar:
    start = int(found["start"].timestamp() * 1_000)
    return bar(start, found["rev"], *[found[name] for name in ("open", "high", "low", "close", "volume")])


def streamed(rows: list[dict[str, Any]], chance: random.Random) -> dict[int, tuple[float | None, ...]]:
    """The values after each candle as the engine had them: saved and read again, wrong at first and then corrected."""
    track, found = Track(keep=8), {}
    for at, one in enumerate(rows):
        right = bar_of_row(one)
        if right.rev:
            track.close(msgspec.structs.replace(right, rev=0, c=right.h))
        assert track.close(right) is Outcome.CHANGED
        if chance.random() < 0.3:
            track = Track(msgspec.json.decode(msgspec.json.encode(track.saved()), type=Saved), keep=8)
        closed = track.closed_values()
        assert closed is not None
        found[right.start] = closed[1]
        assert track.count == at + 1
    return found


def test_batch_and_stream_agree_to_the_bit(spark: House) -> None:
    chance = random.Random(7)
    made = {
        (ticker, period_s): [
            row(ticker, period_s, DAY + m * period_s * 1_000, chance, rev=int(chance.random() < 0.2))
            for m in range(120)
            if m % 11
        ]
        for ticker, period_s in SERIES
    }
    everything = [one for rows in made.values() for one in rows]
    everything += [row(*key, DAY + 120 * key[1] * 1_000, chance, closed=False) for key in SERIES]
    chance.shuffle(everything)
    begin = {("SIM:BTC", 60): DAY + 30 * MINUTE_MS}
    frame = spark.session.createDataFrame(pa.Table.from_pylist(everything, schema=OHLC.schema))
    found: dict[tuple[str, int], dict[int, tuple[float | None, ...]]] = {key: {} for key in SERIES}
    for one in indicators(frame.repartition(3), begin).toArrow().to_pylist():
        start = int(one["start"].timestamp() * 1_000)
        found[one["ticker"], one["period_s"]][start] = tuple(one[name] for name in NAMES)
    for key, rows in made.items():
        kept = [one for one in rows if one["start"] >= when(begin.get(key, 0))]
        assert found[key] == streamed(kept, chance)
    assert sum(map(len, found.values())) == 3 * 109 - 27


def test_vwap_in_batch_and_stream_agree_to_the_bit(spark: House) -> None:
    chance = random.Random(8)
    candles = [
        row("SIM:BTC", period_s, DAY + m * period_s * 1_000, chance)
        for period_s, count in ((60, 60), (3_600, 24), (86_400, 2), (25_200, 1))
        for m in range(count)
    ]
    trades = [
        {
            "ticker": "SIM:BTC", "ts": when(DAY + chance.randrange(DAY_MS)), "tid": str(n),
            "price": Decimal(f"{chance.randrange(1, 10**6)}.{chance.randrange(10**18):018d}"),
            "size": Decimal(f"0.{chance.randrange(1, 10**18):018d}"), "side": "B", "provider": "sim",
            "epoch": int(n % 50 > 0), "seq": n, "received": when(DAY),
        }
        for n in range(1, 600)
    ]  # fmt: skip
    frames = [
        spark.session.createDataFrame(pa.Table.from_pylist(rows, schema=table.schema))
        for rows, table in ((candles, OHLC), (trades, TRADES))
    ]
    found = {
        (one["period_s"], int(one["start"].timestamp() * 1_000)): one["vwap"]
        for one in averages(*frames).toArrow().to_pylist()
    }
    live = Vwap()
    wanted: dict[tuple[int, int], float | None] = {}
    ordered = sorted((one for one in trades if one["epoch"]), key=lambda one: one["ts"])
    ends = sorted(((s + p * 1_000, p, s) for p, s in found if p != 25_200), reverse=True)
    for one in ordered:
        ts = int(one["ts"].timestamp() * 1_000)
        while ends and ends[-1][0] <= ts:
            end, period_s, start = ends.pop()
            wanted[period_s, start] = live.at(start, end)
        live.add(ts, one["price"], one["size"])
        live = Vwap(msgspec.json.decode(msgspec.json.encode(live.state()), type=State))
    wanted |= {(period_s, start): live.at(start, end) for end, period_s, start in ends}
    assert found.pop((25_200, DAY)) is None
    assert found == wanted
    assert len([value for value in found.values() if value is not None]) > 60
