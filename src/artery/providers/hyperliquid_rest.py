"""Hyperliquid's REST: what to ask, what it costs, and what the answers say. Pure."""

from decimal import Decimal
from typing import Annotated, Any

import msgspec

from artery.errors import BadInput, Unavailable
from artery.model.channels import check_market
from artery.model.decimals import positive
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.providers.base import Market
from artery.providers.hyperliquid import WireCandle, WireTrade, to_candle, to_trade

PERIODS = tuple(map(Period.parse, ("1m", "3m", "5m", "15m", "30m", "1h", "2h", "4h", "8h", "12h", "1d")))
PAGE_ROWS = 500
PRICE_DECIMALS = 6
SIGNIFICANT_FIGURES = 5


class _Asset(msgspec.Struct):
    name: str
    szDecimals: Annotated[int, msgspec.Meta(ge=0, le=18)]  # noqa: N815 (the wire's own name)
    isDelisted: bool = False  # noqa: N815


class _Meta(msgspec.Struct):
    universe: list[_Asset]


def candle_request(coin: str, period: Period, start_ms: int, end_ms: int) -> dict[str, Any]:
    """Candles that start in [start_ms, end_ms)."""
    asked = {"coin": coin, "interval": str(period), "startTime": start_ms, "endTime": end_ms - 1}
    return {"type": "candleSnapshot", "req": asked}


def candle_weight(period: Period, start_ms: int, end_ms: int) -> int:
    """What such a request costs of the venue's budget."""
    return 20 + max(0, min(end_ms - start_ms, 5_000 * period.ms)) // period.ms // 60


def read_candles(body: bytes, provider: str, now_ms: int) -> tuple[list[Candle], list[int], int]:
    """The candles with volume, the starts of all of them, and how many rows were bad."""
    candles, starts, bad = [], [], 0
    for row in _rows(body):
        try:
            wire = msgspec.json.decode(row, type=WireCandle)
            candle = to_candle(wire, provider, now_ms)
        except (msgspec.DecodeError, UnicodeDecodeError, BadInput):
            bad += 1
            continue
        starts.append(wire.t)
        if candle is not None:
            candles.append(candle)
    return candles, starts, bad


def missing(start_ms: int, end_ms: int, period: Period, starts: list[int]) -> list[tuple[int, int]]:
    """What a full page left out of [start_ms, end_ms), before and after it; a page that is not full is all there is."""
    if len(starts) < PAGE_ROWS:
        return []
    ranges = [(start_ms, min(starts)), (max(starts) + period.ms, end_ms)]
    return [(start, end) for start, end in ranges if -(-start // period.ms) * period.ms < end]


def read_trades(body: bytes, provider: str, now_ms: int) -> tuple[list[Trade], int]:
    """The trades oldest first, and how many rows were bad."""
    trades, bad = [], 0
    for row in _rows(body):
        try:
            trades.append(to_trade(msgspec.json.decode(row, type=WireTrade), provider, now_ms))
        except (msgspec.DecodeError, UnicodeDecodeError, BadInput):
            bad += 1
    return trades[::-1], bad


def read_markets(meta: bytes, mids: bytes, provider: str) -> list[Market]:
    """The venue's markets; mid prices tell how fine their ticks are."""
    try:
        assets = msgspec.json.decode(meta, type=_Meta).universe
        prices = msgspec.json.decode(mids, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"the venue's list of markets cannot be read: {error}") from error
    return [_market(asset, prices.get(asset.name), provider) for asset in assets if _named(asset)]


def tick_size(size_decimals: int, price: Decimal | None) -> Decimal:
    """Five significant figures and at most 6 − szDecimals decimals; whole numbers are always allowed."""
    finest = -max(0, PRICE_DECIMALS - size_decimals)
    if price is None:
        return Decimal(1).scaleb(finest)
    return Decimal(1).scaleb(min(0, max(finest, price.adjusted() - SIGNIFICANT_FIGURES + 1)))


def _market(asset: _Asset, mid: object, provider: str) -> Market:
    try:
        price = positive(mid, what="mid")
    except BadInput:
        price = None
    return Market(
        provider=provider,
        key=asset.name,
        base=asset.name.rpartition(":")[2],
        quote="USDC",
        tick_size=tick_size(asset.szDecimals, price),
        size_step=Decimal(1).scaleb(-asset.szDecimals),
        status="delisted" if asset.isDelisted else "open",
    )


def _named(asset: _Asset) -> bool:
    try:
        check_market(asset.name)
    except BadInput:
        return False
    return True


def _rows(body: bytes) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"the venue's answer cannot be read: {error}") from error
