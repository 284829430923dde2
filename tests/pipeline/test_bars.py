"""From raw entries to one-second bars: exact, each trade once, and nothing bad stops the rest."""

from decimal import Decimal

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from artery.model import codec, fold
from artery.model.events import Candle, Clock, Mark, Trade
from artery.model.periods import Period
from artery.model.taken import Run
from artery.pipeline import bars
from artery.pipeline.bars import batch_of, feed_rows, history_rows, record_batch
from artery.pipeline.folding import trade_bars
from artery.pipeline.minutes import Span
from artery.wire import history

BASE = 1_730_000_100_000
MINUTES = [Period(60), Period(120)]


def trade(seq: int, ts: int, px: str = "10", sz: str = "1", coin: str = "BTC", epoch: int = 1) -> Trade:
    return Trade(
        provider="sim",
        event_ts=ts,
        epoch=epoch,
        seq=seq,
        coin=coin,
        ts=ts,
        tid=str(seq),
        px=Decimal(px),
        sz=Decimal(sz),
        side="S",
    )


def raw(position: int, fields: dict[str, str]) -> tuple[str, bytes]:
    return str(position), msgspec.json.encode(fields)


def entries(*trades: Trade) -> list[tuple[str, bytes]]:
    return [raw(at, codec.encode(one)) for at, one in enumerate(trades, 1)]


def trade_rows(raws: list[tuple[str, bytes]]) -> list[bars.Row]:
    """Bars of a second, in the order of their markets' first trades."""
    return [row for row in trade_bars(raws, [Period(1)]).to_pylist() if row["kind"] == bars.BAR]


def page(*candles: Candle) -> dict[str, str]:
    batch = history.page("own:first", "sim", "BTC", Period(60), candles, number=1, last=True)
    return history.encode(batch, event_ts=BASE)


def venue(start: int, close: str = "9", closed: bool = True) -> Candle:
    price = Decimal(close)
    return Candle(
        provider="sim",
        coin="BTC",
        period=Period(60),
        start_ts=start,
        o=price,
        h=price,
        l=price,
        c=price,
        v=Decimal(3),
        n=2,
        closed=closed,
        event_ts=0,
    )


def test_trades_of_a_second_become_one_bar_with_its_newest_position() -> None:
    rows = trade_rows(entries(trade(1, BASE + 1), trade(2, BASE + 900, px="7"), trade(3, BASE + 1_000)))
    assert [(row["start_ms"], row["n"], row["up_to"]) for row in rows] == [(BASE, 2, "2"), (BASE + 1_000, 1, "3")]
    assert (rows[0]["o"], rows[0]["l"], rows[0]["c"]) == (Decimal(10), Decimal(7), Decimal(7))


def test_a_trade_that_is_there_twice_counts_once() -> None:
    assert trade_rows(entries(trade(1, BASE), trade(1, BASE)))[0]["n"] == 1


def test_a_foreign_trade_is_not_folded() -> None:
    foreign = codec.encode(trade(1, BASE, epoch=0))
    del foreign["provider"]
    assert trade_rows([raw(1, foreign)]) == []


def test_an_entry_that_cannot_be_decoded_does_not_stop_the_others() -> None:
    good = codec.encode(trade(2, BASE))
    broken = [("1", b"{not json"), raw(2, {"t": "TRADE"}), raw(3, good | {"px": "NaN"}), raw(4, good)]
    assert [row["up_to"] for row in trade_rows(broken)] == ["4"]


def test_an_absurd_size_cannot_overflow_the_sum() -> None:
    assert trade_rows(entries(trade(1, BASE, sz="99999999999999999999"))) == []


def test_only_the_newest_clock_of_each_provider_matters() -> None:
    clocks = [Clock(provider=name, epoch=1, ts=ts) for name, ts in (("sim", 5), ("sim", 9), ("kalshi", 7))]
    rows = feed_rows([raw(at, codec.encode(one)) for at, one in enumerate(clocks, 1)])
    assert batch_of(table(rows))[0].clocks == {"sim": 9, "kalshi": 7}


def test_a_mark_says_what_was_not_watched() -> None:
    mark = Mark(provider="sim", epoch=1, ts=9, from_ms=3, to_ms=8, cause="stop", coin="BTC")
    found = batch_of(table(feed_rows([raw(1, codec.encode(mark))])))[0]
    assert (found.unwatched, found.clocks) == ([Span("sim", "BTC", 3, 8)], {})


def test_a_venues_closed_candles_pass_and_the_later_page_wins() -> None:
    first, second = page(venue(BASE), venue(BASE + 60_000, closed=False)), page(venue(BASE, close="8"))
    found = batch_of(table(history_rows([raw(1, first), raw(2, second)])))[0].venue
    assert [(candle.start_ts, candle.c) for candle in found] == [(BASE, Decimal(8))]


def test_a_page_with_an_impossible_candle_is_passed_over() -> None:
    crooked = msgspec.structs.replace(venue(BASE), start_ts=BASE + 1)
    assert history_rows([raw(1, page(crooked)), raw(2, {"t": "OHLC_BATCH", "ver": "1", "body": "?"})]) == []


def test_a_batch_says_how_far_it_reaches() -> None:
    assert batch_of(table([]))[1] == {"trade": "7"}


def table(rows: list[bars.Row]) -> bars.pa.Table:
    return bars.pa.Table.from_batches([record_batch(rows, {"trade": "7"})])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5_000), st.decimals("0.000001", "999999", places=6), st.sampled_from(["BTC", "a:b/c"])
        ),
        max_size=40,
    )
)
def test_bars_are_the_fold_of_the_trades_exactly(drawn: list[tuple[int, Decimal, str]]) -> None:
    trades = [trade(i, BASE + ts, px=str(px), sz=str(px), coin=coin) for i, (ts, px, coin) in enumerate(drawn, 1)]
    found = {
        (row["provider"], row["coin"], row["start_ms"]): [row[name] for name in "ohlcvn"]
        for row in trade_rows(entries(*trades))
    }
    wanted = fold.bars(trades, Period(1))
    assert found == {key: [getattr(bar, name) for name in "ohlcvn"] for key, bar in wanted.items()}


def test_the_newest_position_is_by_number_not_by_text() -> None:
    rows = trade_rows([raw(9, codec.encode(trade(1, BASE))), raw(10, codec.encode(trade(2, BASE + 1)))])
    assert [row["up_to"] for row in rows] == ["10"]


def test_every_period_is_folded_and_each_market_says_how_far_it_reaches() -> None:
    made = trade_bars(entries(trade(1, BASE), trade(2, BASE + 59_999), trade(3, BASE + 60_000)), MINUTES)
    rows = made.to_pylist()
    found = {(row["period_s"], row["start_ms"]): row["n"] for row in rows if row["kind"] == bars.BAR}
    assert found == {(60, BASE): 2, (60, BASE + 60_000): 1, (120, BASE - 60_000): 2, (120, BASE + 60_000): 1}
    reached = batch_of(bars.pa.Table.from_pylist([rows[-1]], schema=bars.SCHEMA))[0].reach
    assert reached == {("sim", "BTC"): [Run((1, 1), (1, 3))]}


def test_places_with_holes_are_told_as_they_are() -> None:
    made = trade_bars(entries(*[trade(seq, BASE + seq, epoch=seq // 5 + 1) for seq in (9, 1, 2, 4, 5)]), MINUTES)
    ends = [((1, 1), (1, 2)), ((1, 4), (1, 4)), ((2, 5), (2, 5)), ((2, 9), (2, 9))]
    assert batch_of(made)[0].reach == {("sim", "BTC"): [Run(*each) for each in ends]}


def test_a_trade_that_is_dated_days_ahead_opens_no_candle_and_holds_its_place() -> None:
    ahead = msgspec.structs.replace(trade(2, BASE + 2 * 86_400_000), event_ts=BASE)
    made = batch_of(trade_bars(entries(trade(1, BASE), ahead), [Period(60)]))[0]
    assert [(partial.key[3], partial.bar.n) for partial in made.partials] == [(BASE, 1)]
    assert made.reach == {("sim", "BTC"): [Run((1, 1), (1, 2))]}
