"""What a client may ask for. Pure: a request in, work for an ingestor out, or a sentence that says why not."""

import re
import secrets

from artery.errors import BadInput
from artery.model.codec import LATEST_MS
from artery.model.periods import LONGEST_S
from artery.wire.artery_pb2 import DataRequest, SubmitHistoricalRequest
from artery.wire.requests import OWN, Record

ROWS_MAX = 2_000_000
_ID = re.compile(r"[A-Za-z0-9._:@/+=#-]{1,128}", re.ASCII)


def work_of(asked: SubmitHistoricalRequest, now_ms: int) -> DataRequest:
    """The request as ingestors take it: whole candles, the limit applied; its end may be in the future."""
    _check_ids(asked)
    if not 0 < asked.period_s <= LONGEST_S:
        raise BadInput(f"period_s must be 1 to {LONGEST_S} seconds, not {asked.period_s}")
    if asked.limit < 0:
        raise BadInput(f"limit must not be below zero, not {asked.limit}")
    start_ms, end_ms = _range(asked, now_ms)
    period_ms = asked.period_s * 1_000
    last_ms = min(end_ms, -(-now_ms // period_ms) * period_ms)
    if asked.limit:
        start_ms = max(start_ms, last_ms - asked.limit * period_ms)
    rows = (last_ms - start_ms) // period_ms
    if rows > ROWS_MAX:
        raise BadInput(f"that is {rows} candles, more than {ROWS_MAX} at once: ask for a shorter range")
    return DataRequest(
        request_id=asked.request_id or f"r_{secrets.token_hex(12)}",
        client_id=asked.client_id,
        type=DataRequest.HISTORICAL_OHLC,
        ticker=asked.ticker,
        historical=DataRequest.Historical(start_ms=start_ms, end_ms=end_ms, period_s=asked.period_s, limit=asked.limit),
    )


def same(one: DataRequest, other: DataRequest) -> bool:
    """Whether two requests with the same id ask for the same; where a limit counted from now, the start may differ. A
    program that was started anew asks under another client_id: whose the id is, is judged elsewhere."""
    mine, theirs = DataRequest(), DataRequest()
    mine.CopyFrom(one)
    theirs.CopyFrom(other)
    mine.client_id = theirs.client_id
    if mine.historical.limit and theirs.historical.limit:
        mine.historical.start_ms = theirs.historical.start_ms = 0
    return mine == theirs


def is_of(request: DataRequest, record: Record) -> bool:
    """Whether this is the request that the store knows. Where the store was lost in between, it knows the outcome
    alone, which tells of what it is."""
    if record.asked:
        return same(request, record.request)
    outcome = record.notification
    return (outcome.ticker, outcome.period_s) == (request.ticker, request.historical.period_s)


def check_id(text: str, what: str) -> str:
    """`text`, if a topic may carry it."""
    if not _ID.fullmatch(text):
        raise BadInput(f"{what} must be 1 to 128 letters, digits and ._:@/+=#- only, not {text!r:.80}")
    return text


def _check_ids(asked: SubmitHistoricalRequest) -> None:
    if not asked.request_id and not asked.client_id:
        raise BadInput("give a request_id or a client_id: the outcome is announced on its topic")
    if asked.request_id:
        check_id(asked.request_id, "request_id")
    if asked.request_id.startswith(OWN):
        raise BadInput(f"a request_id must not begin with {OWN}")
    if asked.client_id:
        check_id(asked.client_id, "client_id")


def _range(asked: SubmitHistoricalRequest, now_ms: int) -> tuple[int, int]:
    """The first and the last start of whole candles."""
    start_ms, end_ms = asked.start_ms, asked.end_ms
    if not 0 <= start_ms <= LATEST_MS or not 0 <= end_ms <= LATEST_MS:
        raise BadInput("start_ms and end_ms must be Unix milliseconds between 1970 and 2100")
    if start_ms >= end_ms:
        raise BadInput(f"end_ms {end_ms} must be after start_ms {start_ms}")
    if start_ms > now_ms:
        raise BadInput(f"start_ms {start_ms} is in the future: there is no history yet")
    period_ms = asked.period_s * 1_000
    start_ms, end_ms = -(-start_ms // period_ms) * period_ms, -(-end_ms // period_ms) * period_ms
    if start_ms >= end_ms:
        raise BadInput(f"no candle of {asked.period_s} s starts between start_ms and end_ms")
    return start_ms, end_ms
