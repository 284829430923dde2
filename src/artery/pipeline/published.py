"""What is on the log, as the messages that ZeroMQ clients get. Pure."""

from collections.abc import Iterator, Mapping

from artery.errors import BadEvent
from artery.model import codec, symbols
from artery.model.decimals import canonical
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.model.symbols import Symbol
from artery.model.tickers import ticker
from artery.wire import topics
from artery.wire.artery_pb2 import OHLC, Market, Tick

MARKET = "|market"


def topic_of(fields: Mapping[str, str]) -> str:
    """Where an entry of `trade`, `candle` or `symbol` is published; nothing, if it is none of them."""
    try:
        name = ticker(fields.get("provider", "external"), fields["coin"])
        if fields["t"] == "TRADE":
            return topics.tick(name)
        if fields["t"] == "SYMBOL":
            return topics.market(name)
        return topics.ohlc(name, Period.parse(fields["interval"])) if fields["t"] == "CANDLE" else ""
    except (KeyError, BadEvent):
        return ""


def message_of(fields: Mapping[str, str], position: str) -> Tick | OHLC | Market | None:
    """An entry of `trade`, `candle` or `symbol` as a message; what cannot be read is the storage's to bury."""
    try:
        if fields.get("t") == "SYMBOL":
            return market(symbols.decode(fields))
        event = codec.decode(fields, entry_id=position)
    except BadEvent:
        return None
    if isinstance(event, Trade):
        return tick(event)
    return ohlc(event) if isinstance(event, Candle) else None


def tick(trade: Trade) -> Tick:
    return Tick(
        ticker=ticker(trade.provider, trade.coin),
        ts_ms=trade.ts,
        trade_id=trade.tid,
        price=canonical(trade.px),
        size=canonical(trade.sz),
        side=trade.side,
        epoch=trade.epoch,
        seq=trade.seq,
    )


def ohlc(candle: Candle) -> OHLC:
    return OHLC(
        ticker=ticker(candle.provider, candle.coin),
        period_s=candle.period.seconds,
        start_ms=candle.start_ts,
        open=canonical(candle.o),
        high=canonical(candle.h),
        low=canonical(candle.l),
        close=canonical(candle.c),
        volume=canonical(candle.v),
        trades=candle.n,
        closed=candle.closed,
        rev=candle.rev,
        epoch=candle.epoch,
        seq=candle.seq,
    )


def market(symbol: Symbol) -> Market:
    return Market(
        ticker=symbol.ticker,
        provider=symbol.provider,
        market=symbol.coin,
        base=symbol.base,
        quote=symbol.quote,
        tick_size=canonical(symbol.tick_size),
        size_step=canonical(symbol.size_step),
        status=symbol.status,
        version=symbol.version,
    )


def market_asked_for(topic: str) -> Iterator[str]:
    """The ticker whose metadata a subscription is for."""
    name, sign, rest = topic.partition(MARKET)
    if sign and rest in ("", "|"):
        yield name
