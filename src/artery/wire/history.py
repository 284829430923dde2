"""Pages of a venue's candles, to and from the fields of `md_stream:history`."""

import base64
import binascii
from collections.abc import Mapping, Sequence

from google.protobuf.message import DecodeError

from artery.errors import BadEvent
from artery.model.decimals import canonical, number, positive
from artery.model.events import Candle
from artery.model.periods import Period
from artery.model.tickers import parse_ticker, ticker
from artery.wire.artery_pb2 import DataRequest, OHLCBatch, OHLCRow

PAGE_ROWS = 500


def page(
    request_id: str,
    provider: str,
    coin: str,
    period: Period,
    candles: Sequence[Candle],
    *,
    number: int,
    last: bool,
    client_id: str = "",
) -> OHLCBatch:
    """One page of a request's answer."""
    return OHLCBatch(
        request_id=request_id,
        client_id=client_id,
        ticker=ticker(provider, coin),
        period_s=period.seconds,
        page=number,
        last=last,
        rows=[_row(candle) for candle in candles],
    )


def closing(request: DataRequest, *, number: int, rows_total: int, error: str = "") -> OHLCBatch:
    """The last page of a client's request: no rows, but what was asked for and how it ended."""
    wanted = request.historical
    return OHLCBatch(
        request_id=request.request_id,
        client_id=request.client_id,
        ticker=request.ticker,
        period_s=wanted.period_s,
        page=number,
        last=True,
        status=OHLCBatch.ERROR if error else OHLCBatch.OK,
        error=error,
        start_ms=wanted.start_ms,
        end_ms=wanted.end_ms,
        rows_total=rows_total,
    )


def encode(batch: OHLCBatch, *, event_ts: int) -> dict[str, str]:
    """The fields of the entry; protobuf travels as base64, because every field is a string."""
    return {
        "ver": "1",
        "t": "OHLC_BATCH",
        "request_id": batch.request_id,
        "page": str(batch.page),
        "ticker": batch.ticker,
        "body": base64.b64encode(batch.SerializeToString()).decode(),
        "eventTs": str(event_ts),
    }


def decode(fields: Mapping[str, str]) -> OHLCBatch:
    """The page in these fields, or `BadEvent`."""
    if fields.get("ver") != "1" or fields.get("t") != "OHLC_BATCH":
        raise BadEvent(f"not a page of history: ver {fields.get('ver')!r:.10}, t {fields.get('t')!r:.20}")
    try:
        return OHLCBatch.FromString(base64.b64decode(fields["body"], validate=True))
    except (KeyError, binascii.Error, DecodeError) as error:
        raise BadEvent(f"OHLC_BATCH: {error}") from error


def candles(batch: OHLCBatch, *, event_ts: int) -> list[Candle]:
    """The page's rows as the venue's candles: no epoch, no seq."""
    provider, coin = parse_ticker(batch.ticker)
    period = Period(batch.period_s)
    if period.seconds <= 0:
        raise BadEvent("OHLC_BATCH: period_s must be above zero")
    return [
        Candle(
            provider=provider,
            coin=coin,
            period=period,
            start_ts=row.start_ms,
            o=positive(row.open, what="open"),
            h=positive(row.high, what="high"),
            l=positive(row.low, what="low"),
            c=positive(row.close, what="close"),
            v=number(row.volume, what="volume"),
            n=row.trades,
            closed=row.closed,
            event_ts=event_ts,
        )
        for row in batch.rows
    ]


def _row(candle: Candle) -> OHLCRow:
    return OHLCRow(
        start_ms=candle.start_ts,
        open=canonical(candle.o),
        high=canonical(candle.h),
        low=canonical(candle.l),
        close=canonical(candle.c),
        volume=canonical(candle.v),
        trades=candle.n,
        closed=candle.closed,
    )
