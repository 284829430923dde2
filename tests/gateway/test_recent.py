"""What the lake does not have yet is kept once, in its newest version, and no longer than needed."""

from artery.gateway.recent import Recent
from artery.gateway.rows import CandleRow, candle_row, joined
from artery.gateway.span import Span
from artery.model.events import Candle
from tests.gateway.made import T0, candle

EVER = Span(0, 2**60, 1_000, forward=False)
ALL = ("sim", "BTC", 60, EVER)


def add(recent: Recent, stream: str, position: str, candles: list[Candle]) -> None:
    for made in candles:
        series = (made.provider, made.coin, made.period.seconds)
        recent.add(stream, position, series, [candle_row(made)], made.event_ts)


def closes(rows: list[CandleRow]) -> list[tuple[int, str]]:
    return [((row.start - T0) // 60_000, row.c) for row in rows]


def test_the_newer_version_of_a_candle_holds() -> None:
    recent = Recent()
    add(recent, "candle", "1", [candle(0, close=1, closed=False)])
    add(recent, "candle", "2", [candle(0, close=2, closed=True)])
    add(recent, "candle", "3", [candle(0, close=3, closed=False, event_ts=T0 * 2)])
    add(recent, "candle", "4", [candle(0, close=4, rev=1)])
    add(recent, "candle", "5", [candle(0, close=5, rev=0, event_ts=T0 * 2)])
    assert closes(recent.rows(*ALL)) == [(0, "4")]


def test_history_fills_the_past_and_gives_way_to_a_correction() -> None:
    recent = Recent()
    add(recent, "history", "1", [candle(m, close=10 + m, epoch=0, event_ts=T0 + 10**6) for m in range(3)])
    add(recent, "candle", "1", [candle(2, close=99, rev=1, event_ts=T0), candle(3, close=7, closed=False)])
    assert closes(recent.rows(*ALL)) == [(0, "10"), (1, "11"), (2, "99"), (3, "7")]


def test_a_late_word_of_the_venue_beats_our_first_version() -> None:
    recent = Recent()
    add(recent, "candle", "1", [candle(0, close=1, rev=0, event_ts=T0)])
    add(recent, "history", "1", [candle(0, close=2, epoch=0, event_ts=T0 + 9)])
    assert closes(recent.rows(*ALL)) == [(0, "2")]


def test_rows_are_cut_by_time_market_and_period() -> None:
    recent = Recent()
    add(recent, "candle", "1", [candle(m) for m in range(5)] + [candle(0, coin="ETH")])
    assert [row.start for row in recent.rows("sim", "BTC", 60, Span(T0 + 60_000, T0 + 180_000, 9, forward=True))] == [
        T0 + 60_000,
        T0 + 120_000,
    ]
    assert recent.rows("sim", "BTC", 300, EVER) == []


def test_what_the_lake_has_committed_is_forgotten_by_stream() -> None:
    recent = Recent()
    add(recent, "candle", "9", [candle(0, close=1)])
    add(recent, "candle", "10", [candle(1, close=2)])
    add(recent, "history", "10", [candle(0, close=3, epoch=0, event_ts=T0 * 2)])
    recent.committed("candle", "9")
    assert closes(recent.rows(*ALL)) == [(0, "3"), (1, "2")]
    recent.committed("history", "10")
    recent.committed("candle", "10")
    assert len(recent) == 0
    assert recent.rows(*ALL) == []


def test_a_candle_that_was_written_again_waits_for_its_newest_version() -> None:
    recent = Recent()
    add(recent, "candle", "1", [candle(0, close=1, closed=False)])
    add(recent, "candle", "5", [candle(0, close=2)])
    recent.committed("candle", "4")
    assert closes(recent.rows(*ALL)) == [(0, "2")]


def test_of_too_many_those_written_first_go() -> None:
    recent = Recent(rows_max=10)
    for m in range(25):
        add(recent, "candle", str(m + 1), [candle(m)])
    assert [m for m, _ in closes(recent.rows(*ALL))] == list(range(15, 25))
    assert len(recent) == 10


def test_joining_with_the_lake_keeps_what_is_closed_or_corrected() -> None:
    lake = [candle_row(candle(0, close=1, rev=2)), candle_row(candle(1, close=2)), candle_row(candle(2, closed=False))]
    newer = [
        candle_row(candle(0, close=9, rev=1)),
        candle_row(candle(1, close=8)),
        candle_row(candle(2, close=7)),
        candle_row(candle(3, close=6)),
    ]
    assert closes(joined(lake, newer)) == [(0, "1"), (1, "8"), (2, "7"), (3, "6")]
