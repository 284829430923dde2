"""Channels, tickers, periods and positions are written in one way and read in one way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artery.errors import BadInput
from artery.model.channels import Channel
from artery.model.periods import DERIVED, Period, parse_periods
from artery.model.series import Position
from artery.model.tickers import parse_ticker, ticker
from tests.model import strategies


@given(strategies.providers, strategies.coins)
def test_a_channel_is_split_at_the_first_three_colons(provider: str, market: str) -> None:
    assert Channel.parse(str(Channel(provider, market))) == Channel(provider, market)


def test_a_market_key_may_hold_a_colon_and_a_star_is_literal() -> None:
    assert Channel.parse("artery:stream:hyperliquid_perp:xyz:XYZ100").market == "xyz:XYZ100"
    assert Channel.parse("artery:stream:sim:*") == Channel("sim", "*")


@pytest.mark.parametrize(
    "text",
    ["", "artery", "artery:stream", "artery:stream:sim", "artery:stream:sim:", "artery:stream::BTC",
     "other:stream:sim:BTC", "artery:stream:sim:B*", "artery:stream:SIM:BTC", "artery:stream:sim:B\n"],
)  # fmt: skip
def test_what_is_not_a_channel_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        Channel.parse(text)


@pytest.mark.parametrize(
    ("provider", "market", "text"),
    [
        ("hyperliquid_perp", "BTC", "HYPERLIQUID:BTC"),
        ("hyperliquid_perp", "xyz:XYZ100", "HYPERLIQUID:xyz:XYZ100"),
        ("hyperliquid_spot", "PURR/USDC", "HYPERLIQUID:PURR/USDC"),
        ("hyperliquid_spot", "@107", "HYPERLIQUID:@107"),
        ("polymarket", "71321", "POLYMARKET:71321"),
        ("kalshi", "KXBTC-26", "KALSHI:KXBTC-26"),
        ("binance", "BTC/USDT", "BINANCE:BTC/USDT"),
        ("sim", "BTC", "SIM:BTC"),
        ("external", "BTC", "EXTERNAL:BTC"),
    ],
)
def test_a_ticker_and_its_market_are_two_names_of_one_thing(provider: str, market: str, text: str) -> None:
    assert ticker(provider, market) == text
    assert parse_ticker(text) == (provider, market)


@pytest.mark.parametrize("text", ["", "BTC", ":BTC", "SIM:", "sim:BTC", "SIM:B TC"])
def test_what_is_not_a_ticker_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_ticker(text)


@given(st.integers(1, 300), st.sampled_from("smhd"))
def test_a_period_keeps_its_length_when_written_and_read(count: int, unit: str) -> None:
    period = Period.parse(f"{count}{unit}")
    assert Period.parse(str(period)) == period


def test_periods_start_at_multiples_of_themselves() -> None:
    assert [str(period) for period in DERIVED] == ["1m", "5m", "15m", "1h", "4h", "1d"]
    assert Period.parse("60s") == Period.parse("1m")
    assert Period.parse("4h").start(1_730_000_000_789) == 1_729_987_200_000


@pytest.mark.parametrize("text", ["", "m", "1", "0m", "-1m", "1.5h", "1w", "1M", "1 m", "366d", "٣m", "01m"])
def test_what_is_not_a_period_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        Period.parse(text)


@given(strategies.whole, strategies.whole, strategies.times)
def test_a_position_survives_its_text(epoch: int, seq: int, event_ts: int) -> None:
    position = Position(epoch, seq, event_ts)
    assert Position.parse(str(position)) == position
    assert Position(epoch, seq + 1, event_ts).follows(position)
    assert not Position(epoch + 1, seq + 1, event_ts).follows(position)


@pytest.mark.parametrize("text", ["", "1.2", "1.2.3.4", "a.b.c", "1.-2.3", " 1.2.3"])
def test_what_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        Position.parse(text)


def test_several_periods_are_each_there_once_the_shortest_first_and_none_is_refused() -> None:
    assert [str(period) for period in parse_periods(["2h", "5s", "60s", "1m"])] == ["5s", "1m", "2h"]
    with pytest.raises(BadInput, match="at least one period"):
        parse_periods([])
