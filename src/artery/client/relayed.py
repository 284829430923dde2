"""What the relay's messages mean to a client: trades, gaps between them, candles. Pure."""

from collections.abc import Iterator
from decimal import Decimal

from artery.client.frames import Gap
from artery.model.channels import Channel
from artery.model.events import Candle, Trade
from artery.model.periods import Period
from artery.model.series import Position
from artery.wire.artery_pb2 import OHLC, Tick

MISSED = "missed"
"""Why a tick or a candle is not there: it was lost between the relay and this client."""


class Ticks:
    """Puts a market's ticks in order: each once, and what is missing between two said as a gap."""

    def __init__(self, market: Channel) -> None:
        self._market = market
        self._last: Position | None = None

    def take(self, tick: Tick) -> Iterator[Trade | Gap]:
        here, last = Position(tick.epoch, tick.seq, tick.ts_ms), self._last
        if last is not None and (here.epoch, here.seq) <= (last.epoch, last.seq):
            return
        if last is not None and not here.follows(last):
            yield Gap(self._market, "TRADE", MISSED, str(last), str(here), last.event_ts, here.event_ts)
        self._last = here
        yield trade_of(tick, self._market)


class Candles:
    """Puts the versions of a market's candles in order: each once, and what is missing between two said as a gap, from
    the older one's start to the newer one's end."""

    def __init__(self, market: Channel) -> None:
        self._market = market
        self._last: Position | None = None

    def take(self, message: OHLC) -> Iterator[Candle | Gap]:
        candle = candle_of(message, self._market)
        here, last = candle.position, self._last
        if last is not None and (here.epoch, here.seq) <= (last.epoch, last.seq):
            return
        if last is not None and not here.follows(last):
            first_ms, last_ms = sorted((last.event_ts, here.event_ts))
            end_ms = last_ms + candle.period.ms
            yield Gap(self._market, candle.series, MISSED, str(last), str(here), first_ms, end_ms)
        self._last = here
        yield candle


def trade_of(tick: Tick, market: Channel) -> Trade:
    return Trade(
        provider=market.provider,
        coin=market.market,
        event_ts=tick.ts_ms,
        epoch=tick.epoch,
        seq=tick.seq,
        ts=tick.ts_ms,
        tid=tick.trade_id,
        px=Decimal(tick.price),
        sz=Decimal(tick.size),
        side="B" if tick.side == "B" else "S",
    )


def candle_of(message: OHLC, market: Channel) -> Candle:
    return Candle(
        provider=market.provider,
        coin=market.market,
        event_ts=message.start_ms,
        epoch=message.epoch,
        seq=message.seq,
        period=Period(message.period_s),
        start_ts=message.start_ms,
        o=Decimal(message.open),
        h=Decimal(message.high),
        l=Decimal(message.low),
        c=Decimal(message.close),
        v=Decimal(message.volume),
        n=message.trades,
        closed=message.closed,
        rev=message.rev,
    )
