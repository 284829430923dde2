"""Events survive the bus unchanged, and nothing doubtful gets in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artery.errors import BadEvent
from artery.model import codec
from artery.model.events import FeedEvent, MarketEvent, Trade
from tests.model import strategies

TRADE = {
    "ver": "1", "t": "TRADE", "coin": "BTC", "ts": "1730000000789", "px": "43255", "sz": "0.12", "side": "B",
    "eventTs": "1730000000800", "provider": "sim", "epoch": "5", "seq": "9", "tid": "77",
}  # fmt: skip
CANDLE = {
    "ver": "1", "t": "CANDLE", "coin": "BTC", "interval": "1m", "startTs": "1729999980000", "o": "43210",
    "h": "43280", "l": "43190", "c": "43250", "v": "123.45", "isClosed": "false", "eventTs": "1730000000456",
}  # fmt: skip
BOOK = {
    "ver": "1", "t": "BOOK_TOPN", "coin": "BTC", "depth": "20", "bids": '[["43250","1.23"],["43240","0.98"]]',
    "asks": '[["43260","1.01"]]', "eventTs": "1730000000567",
}  # fmt: skip


@given(
    st.one_of(
        strategies.trades, strategies.books, strategies.candle(), strategies.mids, strategies.marks, strategies.clocks
    )
)
def test_an_event_comes_back_from_its_fields_unchanged(event: MarketEvent | FeedEvent) -> None:
    fields = codec.encode(event)
    assert all(isinstance(value, str) for value in fields.values())
    assert codec.decode(fields) == event
    assert codec.encode(codec.decode(fields)) == fields


@pytest.mark.parametrize("fields", [CANDLE, BOOK], ids=["candle", "book"])
def test_an_event_of_the_document_alone_is_accepted_as_external(fields: dict[str, str]) -> None:
    event = codec.decode(fields)
    assert event.provider == "external"
    assert event.epoch == 0


def test_a_foreign_trade_is_named_by_its_entry() -> None:
    foreign = {name: value for name, value in TRADE.items() if name not in ("tid", "epoch", "seq", "provider")}
    event = codec.decode(foreign, entry_id="1730-0")
    assert isinstance(event, Trade)
    assert (event.tid, event.provider, event.epoch) == ("1730-0", "external", 0)
    with pytest.raises(BadEvent, match="tid"):
        codec.decode(foreign)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        (TRADE, "px", "NaN"), (TRADE, "px", "Infinity"), (TRADE, "px", "1e999"), (TRADE, "px", "1e30"),
        (TRADE, "px", "-1"), (TRADE, "px", "0"), (TRADE, "px", ""), (TRADE, "px", " 1"), (TRADE, "px", "1_000"),
        (TRADE, "px", "٣"), (TRADE, "px", "0x10"), (TRADE, "sz", "1" * 40), (TRADE, "sz", "0.0000000000000000001"),
        (TRADE, "side", "A"), (TRADE, "side", "b"), (TRADE, "ts", "1.5"), (TRADE, "ts", "-1"),
        (TRADE, "ts", "1730000000789000"), (TRADE, "coin", "B TC"), (TRADE, "coin", "x" * 129), (TRADE, "ver", "2"),
        (TRADE, "t", "TICK"), (TRADE, "seq", "one"), (TRADE, "provider", "Sim!"), (TRADE, "eventTs", ""),
        (CANDLE, "isClosed", "False"), (CANDLE, "isClosed", "True"), (CANDLE, "isClosed", "1"),
        (CANDLE, "interval", "1w"), (CANDLE, "interval", "0m"), (CANDLE, "startTs", "1729999980001"),
        (CANDLE, "h", "1"), (CANDLE, "v", "-1"), (CANDLE, "rev", "-1"),
        (BOOK, "bids", "[[1,2]]"), (BOOK, "bids", "not json"), (BOOK, "asks", '[["1"]]'), (BOOK, "depth", "x"),
    ],
)  # fmt: skip
def test_a_doubtful_field_is_refused(fields: dict[str, str], name: str, value: str) -> None:
    with pytest.raises(BadEvent):
        codec.decode(fields | {name: value})


@pytest.mark.parametrize("name", ["px", "ts", "coin", "side", "eventTs", "ver", "t"])
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(BadEvent) as error:
        codec.decode({key: value for key, value in TRADE.items() if key != name})
    assert name in str(error.value) or name in ("ver", "t")


@given(st.dictionaries(st.sampled_from([*TRADE, *CANDLE, *BOOK]), st.text(max_size=20)))
def test_any_fields_give_an_event_or_a_bad_event(changes: dict[str, str]) -> None:
    for fields in (TRADE, CANDLE, BOOK):
        try:
            codec.decode(fields | changes)
        except BadEvent as error:
            assert str(error)


def test_decimal_text_is_canonical() -> None:
    fields = codec.encode(codec.decode(TRADE | {"px": "0043255.500", "sz": "1e-3"}))
    assert (fields["px"], fields["sz"]) == ("43255.5", "0.001")
