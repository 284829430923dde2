"""Hyperliquid's frames become events exactly, and nothing that a venue says can raise."""

from decimal import Decimal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artery.model.events import Book, Candle, Mids, Trade
from artery.model.periods import Period
from artery.providers.frames import Ack, Complaint, Data, Garbage, Greeting, Pong, Stream
from artery.providers.hyperliquid import HyperliquidDialect

DIALECT = HyperliquidDialect("hyperliquid_perp")
NOW = 1_794_800_000_000
CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TRADE = (
    '{"coin":"BTC","side":"A","px":"92431.0","sz":"0.00120","time":1794799999123,"hash":"0x00","tid":907359904431134,'
    '"users":["0xb","0xs"],"new":{"field":[1]}}'
)
BOOK = (
    '{"channel":"l2Book","data":{"coin":"BTC","time":1794799999500,"levels":'
    '[[{"px":"92430.0","sz":"1.5","n":3},{"px":"92429.0","sz":"0.2","n":1}],[{"px":"92431.0","sz":"0.7","n":2}]]}}'
)


def data(frame: str | bytes) -> Data:
    heard = DIALECT.parse(frame.encode() if isinstance(frame, str) else frame, NOW)
    assert isinstance(heard, Data), heard
    return heard


def trades_frame(*rows: str) -> str:
    return f'{{"channel":"trades","data":[{",".join(rows)}]}}'


def test_a_trade_keeps_its_exact_price_its_id_as_text_and_its_side_as_ours() -> None:
    [event] = data(trades_frame(TRADE)).events
    assert event == Trade(
        provider="hyperliquid_perp",
        event_ts=NOW,
        coin="BTC",
        ts=1_794_799_999_123,
        tid="907359904431134",
        px=Decimal("92431.0"),
        sz=Decimal("0.00120"),
        side="S",
    )
    [buy] = data(trades_frame(TRADE.replace('"A"', '"B"'))).events
    assert isinstance(buy, Trade)
    assert buy.side == "B"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"side":"A"', '"side":"X"'),
        ('"px":"92431.0"', '"px":92431.0'),
        ('"px":"92431.0"', '"px":"NaN"'),
        ('"px":"92431.0"', '"px":"0"'),
        ('"sz":"0.00120"', '"sz":"-1"'),
        ('"time":1794799999123', '"time":"1794799999123"'),
        ('"time":1794799999123', '"time":1794799999123000'),
        ('"tid":907359904431134', '"tid":9.5'),
        ('"tid":907359904431134,', ""),
    ],
)
def test_one_bad_trade_does_not_lose_the_good_ones_beside_it(old: str, new: str) -> None:
    heard = data(trades_frame(TRADE, TRADE.replace(old, new), TRADE.replace("134,", "135,")))
    assert [event.tid for event in heard.events if isinstance(event, Trade)] == ["907359904431134", "907359904431135"]
    assert heard.bad == 1
    assert heard.torn == {"BTC"}


def test_a_trade_without_a_readable_coin_tears_no_known_market() -> None:
    heard = data(trades_frame(TRADE, '{"coin":5}', '"?"'))
    assert len(heard.events) == 1
    assert (heard.bad, heard.torn) == (2, {""})


def test_trades_that_are_no_list_are_a_hole_for_every_market() -> None:
    heard = data('{"channel":"trades","data":{"coin":"BTC"}}')
    assert (heard.events, heard.bad, heard.torn) == ([], 1, {""})


def test_a_book_is_taken_whole_and_in_order() -> None:
    [book] = data(BOOK).events
    assert isinstance(book, Book)
    assert book.bids == ((Decimal("92430.0"), Decimal("1.5")), (Decimal("92429.0"), Decimal("0.2")))
    assert book.asks == ((Decimal("92431.0"), Decimal("0.7")),)
    assert (book.coin, book.ts, book.depth) == ("BTC", 1_794_799_999_500, 20)


def test_a_book_is_cut_at_twenty_levels() -> None:
    levels = [{"px": str(100 - n), "sz": "1", "n": 1} for n in range(30)]
    frame = msgspec.json.encode({"channel": "l2Book", "data": {"coin": "X", "time": 1, "levels": [levels, []]}})
    [book] = data(frame).events
    assert isinstance(book, Book)
    assert (len(book.bids), book.bids[-1][0], book.asks) == (20, Decimal(81), ())


def test_a_book_out_of_order_is_refused() -> None:
    assert isinstance(DIALECT.parse(BOOK.replace("92429.0", "92431.0").encode(), NOW), Garbage)


def test_mids_keep_every_good_price_and_count_the_bad_ones() -> None:
    frame = '{"channel":"allMids","data":{"mids":{"BTC":"92430.5","@107":"38.1","#421":"0.00012","!":"1","X":7}}}'
    heard = data(frame)
    [mids] = heard.events
    assert isinstance(mids, Mids)
    assert mids.mids == {"BTC": Decimal("92430.5"), "@107": Decimal("38.1"), "#421": Decimal("0.00012")}
    assert heard.bad == 2


def test_a_candle_is_closed_once_its_end_has_passed() -> None:
    row = '{"t":1794799980000,"T":1794800039999,"s":"BTC","i":"1m","o":"5","c":"6","h":"7","l":"4","v":"1.5","n":3}'
    [candle] = data(f'{{"channel":"candle","data":{row}}}').events
    assert isinstance(candle, Candle)
    assert (candle.period, candle.start_ts, candle.h, candle.n) == (Period(60), 1_794_799_980_000, Decimal(7), 3)
    assert not candle.closed
    [older] = data(f'{{"channel":"candle","data":{row.replace("1794799980000", "1794799920000")}}}').events
    assert isinstance(older, Candle)
    assert older.closed


def test_a_candle_without_volume_is_left_out() -> None:
    row = '{"t":1794799980000,"T":1794800039999,"s":"BTC","i":"1m","o":"5","c":"5","h":"5","l":"5","v":"0.0","n":0}'
    assert data(f'{{"channel":"candle","data":{row}}}').events == []


def test_an_acknowledgement_is_known_by_type_and_coin_not_by_equality() -> None:
    frame = (
        b'{"channel":"subscriptionResponse","data":{"method":"subscribe","subscription":'
        b'{"type":"l2Book","coin":"BTC","nSigFigs":null,"mantissa":null,"fast":false}}}'
    )
    assert DIALECT.parse(frame, NOW) == Ack("subscribe", Stream("book", "BTC"))


def test_being_subscribed_already_is_as_good_as_an_acknowledgement() -> None:
    frame = rb'{"channel":"error","data":"Already subscribed: {\"type\":\"trades\",\"coin\":\"ETH\"}"}'
    assert DIALECT.parse(frame, NOW) == Ack("subscribe", Stream("trades", "ETH"))


@pytest.mark.parametrize(
    ("frame", "heard"),
    [
        (b'{"channel":"pong"}', Pong()),
        (b"Websocket connection established.", Greeting()),
        (b'{"channel":"error","data":"Error parsing JSON"}', Complaint("Error parsing JSON")),
        (b"{nope", Garbage("not a message")),
        (b"\xff\xfe", Garbage("not a message")),
        (b"[" * 100_000, Garbage("not a message")),
        (b"[1,2,3]", Garbage("not a message")),
        (b'{"channel":"weather","data":1}', Garbage("unknown channel")),
        (b'{"channel":"l2Book","data":{"coin":"BTC","time":"soon"}}', Garbage("bad l2Book")),
        (b'{"channel":"allMids","data":{"mids":[1]}}', Garbage("bad allMids")),
    ],
)
def test_every_other_frame_is_named_for_what_it_is(frame: bytes, heard: object) -> None:
    assert DIALECT.parse(frame, NOW) == heard


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
_NAMES = ("coin", "side", "px", "sz", "time", "tid", "levels", "mids", "method", "subscription", "t", "i")
_FIELDS = st.fixed_dictionaries({}, optional=dict.fromkeys(_NAMES, _JSON))
_CHANNELS = ["trades", "l2Book", "allMids", "candle", "subscriptionResponse", "error", "pong", "?"]


@CALM
@given(st.binary(max_size=200))
def test_no_bytes_can_make_parsing_raise(frame: bytes) -> None:
    assert DIALECT.parse(frame, NOW) is not None


@CALM
@given(st.sampled_from(_CHANNELS), _JSON | _FIELDS | st.lists(_FIELDS, max_size=4))
def test_no_message_can_make_parsing_raise_nor_invent_an_event(channel: str, body: object) -> None:
    heard = DIALECT.parse(msgspec.json.encode({"channel": channel, "data": body}), NOW)
    if isinstance(heard, Data) and channel in ("trades", "l2Book"):
        assert all(isinstance(event, (Trade, Book)) and event.coin for event in heard.events)


def test_subscriptions_are_one_object_a_frame() -> None:
    assert DIALECT.subscribe(Stream("trades", "BTC")) == (
        '{"method":"subscribe","subscription":{"type":"trades","coin":"BTC"}}'
    )
    assert DIALECT.unsubscribe(Stream("book", "xyz:XYZ100")) == (
        '{"method":"unsubscribe","subscription":{"type":"l2Book","coin":"xyz:XYZ100"}}'
    )
    assert DIALECT.subscribe(Stream("mids")) == '{"method":"subscribe","subscription":{"type":"allMids"}}'
    fast = HyperliquidDialect("hyperliquid_perp", fast_books=True)
    assert fast.subscribe(Stream("book", "BTC")) == (
        '{"method":"subscribe","subscription":{"type":"l2Book","coin":"BTC","fast":true}}'
    )
