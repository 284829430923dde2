"""REST: what is asked, what is read, and that nothing is left out without a word."""

from decimal import Decimal

import pytest

from artery.errors import Unavailable
from artery.model.periods import Period
from artery.providers.hyperliquid_rest import (
    candle_request,
    candle_weight,
    missing,
    read_candles,
    read_markets,
    read_trades,
    tick_size,
)

MINUTE = Period(60)
ROW = b'{"t":%d,"T":0,"s":"BTC","i":"1m","o":"5","c":"6","h":"7","l":"4","v":"%s","n":3}'


def test_a_request_for_candles_names_its_range_with_the_end_left_out() -> None:
    asked = {"coin": "BTC", "interval": "1m", "startTime": 60_000, "endTime": 119_999}
    assert candle_request("BTC", MINUTE, 60_000, 120_000) == {"type": "candleSnapshot", "req": asked}


def test_weight_grows_by_one_for_sixty_rows() -> None:
    assert candle_weight(MINUTE, 0, 4_320 * 60_000) == 20 + 72
    assert candle_weight(Period(86_400), 0, 3 * 86_400_000) == 20


def test_rows_without_volume_are_left_out_but_count_as_answered() -> None:
    body = b"[" + b",".join([ROW % (60_000, b"1.5"), ROW % (120_000, b"0.0"), b'{"t":"x"}']) + b"]"
    candles, starts, bad = read_candles(body, "sim", 10**12)
    assert [candle.start_ts for candle in candles] == [60_000]
    assert (starts, bad) == ([60_000, 120_000], 1)


def test_an_answer_that_is_no_list_can_be_asked_for_again() -> None:
    with pytest.raises(Unavailable):
        read_candles(b"null", "sim", 0)


def test_a_full_page_leaves_what_is_before_and_after_it_to_be_asked_for() -> None:
    starts = [minute * 60_000 for minute in range(100, 600)]
    assert missing(50 * 60_000, 900 * 60_000, MINUTE, starts) == [
        (50 * 60_000, 100 * 60_000),
        (600 * 60_000, 900 * 60_000),
    ]
    assert missing(100 * 60_000 - 5, 600 * 60_000, MINUTE, starts) == []


def test_a_page_that_is_not_full_is_all_there_is() -> None:
    assert missing(0, 10**9, MINUTE, [60_000]) == []


def test_recent_trades_come_oldest_first() -> None:
    row = b'{"coin":"BTC","side":"B","px":"1","sz":"2","time":%d,"tid":%d}'
    trades, bad = read_trades(b"[" + row % (9, 2) + b"," + row % (8, 1) + b",{}]", "sim", 10)
    assert [(trade.ts, trade.tid) for trade in trades] == [(8, "1"), (9, "2")]
    assert bad == 1


@pytest.mark.parametrize(
    ("size_decimals", "price", "tick"),
    [(5, "92000", "1"), (5, "123456", "1"), (4, "3150.5", "0.1"), (2, "165.12", "0.01"), (0, "0.21", "0.00001")],
)
def test_a_tick_has_five_significant_figures_and_never_more_decimals_than_allowed(
    size_decimals: int, price: str, tick: str
) -> None:
    assert tick_size(size_decimals, Decimal(price)) == Decimal(tick)


def test_a_tick_without_a_price_is_the_finest_allowed() -> None:
    assert tick_size(2, None) == Decimal("0.0001")


def test_markets_carry_their_steps_and_say_which_are_delisted() -> None:
    meta = (
        b'{"universe":[{"name":"BTC","szDecimals":5,"maxLeverage":40},{"name":"OLD","szDecimals":0,"isDelisted":true}]}'
    )
    markets = read_markets(meta, b'{"BTC":"92000.5"}', "sim")
    assert [(market.key, market.tick_size, market.size_step, market.status) for market in markets] == [
        ("BTC", Decimal(1), Decimal("0.00001"), "open"),
        ("OLD", Decimal("0.000001"), Decimal(1), "delisted"),
    ]
