"""Stream, correction and pure fold agree on every candle: trades in any order, repeated, late by up to a day, cut into
any batches."""

import random
from collections.abc import Sequence
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.bus.base import START
from artery.model import codec, fold, taken
from artery.model.events import Candle, Trade
from artery.model.periods import DERIVED, Period
from artery.pipeline.bars import batch_of
from artery.pipeline.candles import KEEP_MS, CandleBook
from artery.pipeline.decode import Raw
from artery.pipeline.folding import sifted, trade_bars
from artery.pipeline.parts import Key
from artery.pipeline.transforms import SLACK_MS
from tests.pipeline.conftest import House, Log
from tests.pipeline.whole import BASE, DAY, Values, Whole, came, newest, scenario, values, wanted


class Corrected:
    """The lake and its correction job as the issue words them, in plain Python."""

    def __init__(self) -> None:
        self.trades: list[Trade] = []
        self.rows: dict[Key, tuple[Values, int]] = {}

    def take(self, trades: Sequence[Trade], shown: Sequence[Candle], owed: Sequence[Key]) -> list[Candle]:
        for candle in shown:
            _, rev = self.rows.get(candle.key, ((), -1))
            if candle.closed and candle.rev > rev:
                self.rows[candle.key] = values(candle), candle.rev
        self.trades += trades
        return [candle for period in DERIVED for candle in self._late(trades, period, owed)]

    def _late(self, trades: Sequence[Trade], period: Period, owed: Sequence[Key]) -> list[Candle]:
        keys = {
            (one.provider, one.coin, period.start(one.ts))
            for one in trades
            if one.event_ts - period.start(one.ts) - period.ms + SLACK_MS >= max(KEEP_MS, 2 * period.ms)
        }
        keys |= {(provider, coin, start) for provider, coin, period_s, start in owed if period_s == period.seconds}
        found = []
        for key, bar in fold.bars(self.trades, period).items():
            if key in keys:
                name: Key = (key[0], key[1], period.seconds, key[2])
                had, rev = self.rows.get(name, ((), 0))
                rev = rev if values(bar) == had else rev + 1
                self.rows[name] = values(bar), rev
                found.append(msgspec.structs.replace(fold.candle(key, period, bar, event_ts=0, closed=True), rev=rev))
        return found


class Flow:
    """The candle query and the correction, without Spark."""

    def __init__(self) -> None:
        self.book, self.lake = CandleBook(1, slow_ms=0), Corrected()
        self.bus: list[Candle] = []
        self.now_ms, self.at = BASE, START

    def take(self, entries: Sequence[Raw], trades: Sequence[Trade], clock_ms: int) -> None:
        self.now_ms += 1_000
        self.at = entries[-1][0] if entries else self.at
        batch = batch_of(trade_bars(entries))[0]
        if self.book.taken.meets(batch.reach):
            found = sifted(entries, DERIVED, self.book.taken)
            batch = msgspec.structs.replace(batch, partials=found.new, doubtful=found.doubtful)
        shown = self.book.apply(msgspec.structs.replace(batch, clocks={"sim": clock_ms}), self.now_ms)
        self.bus += shown
        owed = self.book.owed(self.at)
        self.bus += self.book.announce(self.lake.take(trades, shown, owed))
        self.book.settle(owed, self.at)


steps = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from([0, 1, 999, 60_000, 3_599_000, 3_700_000, 20_000_000, DAY]),
            st.decimals("0.01", "99999", places=2),
            st.sampled_from(["BTC", "ETH"]),
        ),
        st.integers(0, 30),  # once more what was appended so many entries ago
        st.just("held back"),  # the entry before, for the end of the log
    ),
    min_size=12,
    max_size=50,
)


@settings(max_examples=100, deadline=None)
@given(
    steps, st.lists(st.integers(1, 9), max_size=20), st.integers(1, 400_000), st.sampled_from([1, 2, taken.RUNS_MAX])
)
def test_the_stream_with_its_corrections_is_the_pure_fold_whatever_comes_how(
    drawn: list[tuple[int, Decimal, str] | int | str], cuts: list[int], pace_ms: int, runs_max: int
) -> None:
    """Few runs are remembered in some examples, so that what comes low or twice is in doubt."""
    trades: list[Trade] = []
    log: list[Trade] = []
    back: list[Trade] = []
    for at, one in enumerate(drawn):
        if isinstance(one, tuple):
            late_ms, px, coin = one
            seq = sum(trade.coin == coin for trade in trades) + 1
            made = came(seq, BASE + at * pace_ms, late_ms, px, coin)
            trades.append(msgspec.structs.replace(made, tid=str(len(trades))))
            log.append(trades[-1])
        elif log and one == "held back":
            back.append(log.pop())
        elif log and isinstance(one, int):
            log.append(log[max(0, len(log) - 1 - one)])
    log += back
    flow, done = Flow(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taken, "RUNS_MAX", runs_max)
        for size in [*cuts, *[5] * len(log)]:
            part = log[done : done + size]
            if part:
                raws = [(str(done + at), msgspec.json.encode(codec.encode(one))) for at, one in enumerate(part, 1)]
                flow.take(raws, part, max(one.event_ts for one in log[: done + size]) - 1_000)
            done += size
        flow.take([], [], BASE + 10 * DAY)
    found = newest(flow.bus)
    assert {key: values(candle) for key, candle in found.items()} == wanted(trades)
    assert all(candle.closed for candle in found.values()), "a quiet market closes on the clock"


def test_both_queries_with_spark_and_the_lake_give_the_pure_fold(spark: House, log: Log) -> None:
    dice, coin = random.Random(7), "AGREE"
    entries = scenario(7, coin)
    whole, done = Whole(spark, log, number=7_001), 0
    while done < len(entries):
        size = dice.randrange(20, 60)
        part, done = entries[done : done + size], done + size
        whole.take(part, max(one.event_ts for one in entries[:done]) - 1_000)
        whole.run()
    whole.end(BASE + 10 * DAY)
    unique = list({one.tid: one for one in entries}.values())
    assert {key: values(candle) for key, candle in newest(whole.shown()).items()} == wanted(unique)
    assert whole.stored(coin) == wanted(unique), "the lake has what the bus has"
    assert whole.fast._book.stale > 0, "some came too late for the book, and were counted"
