"""Rows of the lake become the very bytes that were live."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from artery.gateway import frames
from artery.gateway.columns import candle_frames, trade_frames
from artery.gateway.hub import message_of
from artery.lake.tables import OHLC, TRADES
from artery.model.channels import Channel
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from tests.gateway.test_history import lake_candle, lake_trade

BTC = Channel("sim", "BTC")
MS = st.integers(1_000_000_000_000, 1_900_000_000_000)
NUMBERS = st.decimals("0.000000000000000001", "99999999999999999999", places=18).map(lambda n: n.normalize())
COUNTS = st.integers(1, 2**53)
TIDS = st.text(min_size=1, max_size=64) | st.integers(1, 10**12).map(str)


@st.composite
def trades(draw: st.DrawFn) -> Trade:
    return Trade(
        provider="sim", coin="BTC", event_ts=draw(MS), epoch=draw(COUNTS), seq=draw(COUNTS),
        ts=draw(MS), tid=draw(TIDS), px=draw(NUMBERS), sz=draw(NUMBERS), side=draw(st.sampled_from(("B", "S"))),
    )  # fmt: skip


@given(st.lists(trades(), max_size=8))
def test_trades_of_the_lake_are_the_bytes_that_were_live(made: list[Trade]) -> None:
    rows = [lake_trade(each) for each in made]
    stretch = trade_frames(pa.Table.from_pylist(rows, schema=TRADES.schema), BTC)
    live = [frames.event(message_of(each)).wire for each in made]
    assert [stretch.bytes_of(i, i + 1) for i in range(len(stretch))] == live
    assert [stretch.place(i) for i in range(len(stretch))] == [each.position for each in made]
    assert stretch.moments.tolist() == [each.ts for each in made]


@given(st.lists(st.tuples(st.integers(1, 10**6), NUMBERS, st.booleans(), st.integers(0, 9)), max_size=8))
def test_candles_of_the_lake_are_those_of_the_bus_without_their_place(
    found: list[tuple[int, Decimal, bool, int]],
) -> None:
    made = [
        Candle(provider="sim", coin="BTC", period=Period(60), start_ts=minute * 60_000, o=price, h=price, l=price,
               c=price, v=price, n=minute, closed=closed, rev=rev, event_ts=minute * 60_001)
        for minute, price, closed, rev in found
    ]  # fmt: skip
    table = pa.Table.from_pylist([lake_candle(each) for each in made], schema=OHLC.schema)
    stretch = candle_frames(table, BTC, Period(60))
    assert [stretch.bytes_of(i, i + 1) for i in range(len(stretch))] == [
        frames.event(message_of(each)).wire for each in made
    ]
    assert stretch.moments.tolist() == [each.start_ts for each in made]


def test_many_rows_are_made_in_slices_and_stay_in_order() -> None:
    when = datetime.fromtimestamp(1_730_000_000, UTC)
    rows = 45_001
    table = pa.table(
        {
            "ts": [when] * rows, "tid": [str(n) for n in range(rows)], "price": [Decimal(1)] * rows,
            "size": [Decimal(2)] * rows, "side": ["B"] * rows, "epoch": [1] * rows, "seq": list(range(1, rows + 1)),
            "received": [when] * rows,
        },
        schema=pa.schema([field for field in TRADES.schema if field.name not in ("ticker", "provider")]),
    )  # fmt: skip
    stretch = trade_frames(table, BTC)
    assert len(stretch) == rows
    for index in (0, 19_999, 20_000, 45_000):
        assert f'"seq":"{index + 1}"'.encode() in stretch.bytes_of(index, index + 1)
    assert stretch.bytes_of(0, rows) == stretch.wire
