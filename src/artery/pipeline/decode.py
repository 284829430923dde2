"""Raw entries of the bus as values, strictly: whatever is wrong with one is a `BadEvent`."""

import msgspec

from artery.errors import BadEvent, BadInput
from artery.model import codec, symbols
from artery.model.events import Candle, FeedEvent, MarketEvent
from artery.model.symbols import Symbol
from artery.wire import history
from artery.wire.artery_pb2 import OHLCBatch
from artery.wire.requests import OWN

Raw = tuple[str, bytes]
"""A position and the JSON of the entry's fields, as the bus's reader gives them."""

_fields = msgspec.json.Decoder(dict[str, str]).decode


def fields(line: bytes) -> dict[str, str]:
    """The entry's fields."""
    try:
        return _fields(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadEvent(f"not an object of strings: {error}") from error


def event(raw: Raw) -> MarketEvent | FeedEvent:
    """The event in an entry of `trade`, `book`, `candle` or `feed`."""
    position, line = raw
    return codec.decode(fields(line), entry_id=position)


def symbol(raw: Raw) -> Symbol:
    """The market's metadata in an entry of `symbol`."""
    return symbols.decode(fields(raw[1]))


def page(raw: Raw) -> tuple[OHLCBatch, int]:
    """The page in an entry of `history`, and when it was written."""
    decoded = fields(raw[1])
    try:
        return history.decode(decoded), int(decoded.get("eventTs", "0"))
    except ValueError as error:
        raise BadEvent(f"OHLC_BATCH: {error}") from error


def candles(batch: OHLCBatch, event_ts: int) -> list[Candle]:
    """The venue's closed candles in a page; one without volume is no candle."""
    try:
        found = history.candles(batch, event_ts=event_ts)
    except BadEvent:
        raise
    except (BadInput, ValueError) as error:
        raise BadEvent(f"OHLC_BATCH: {error}") from error
    for candle in found:
        _check(candle)
    return [candle for candle in found if candle.closed and candle.v > 0]


def closes(page: OHLCBatch) -> bool:
    """Whether the page is the last one of a client's request."""
    return page.last and not page.request_id.startswith(OWN)


def _check(candle: Candle) -> None:
    if candle.start_ts % candle.period.ms or not 0 <= candle.start_ts <= codec.LATEST_MS:
        raise BadEvent(f"OHLC_BATCH: start {candle.start_ts} is not a multiple of {candle.period}")
    if not candle.l <= min(candle.o, candle.c) <= max(candle.o, candle.c) <= candle.h or candle.v < 0:
        raise BadEvent("OHLC_BATCH: open and close must lie between low and high, and volume not below zero")
