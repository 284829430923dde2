"""What may be asked of `/v1/history`, read strictly and answered in our own words."""

from typing import Annotated

from fastapi import Query

from artery.errors import BadInput
from artery.gateway.history import Span
from artery.gateway.limits import HTTP
from artery.model.channels import check_market, check_provider
from artery.model.codec import LATEST_MS
from artery.model.tickers import parse_ticker

_ROWS_USUAL = 1_000


class HistoryQuery:
    """What may be asked of `/v1/history`; numbers are read by us, so that a wrong one is answered in our words."""

    def __init__(
        self,
        provider: Annotated[str, Query(description="venue, as in /v1/markets")] = "",
        market: Annotated[str, Query(description="market, as in /v1/markets")] = "",
        ticker: Annotated[str, Query(description="instead of both: EXCHANGE:SYMBOL")] = "",
        type: Annotated[str, Query(description="candles or trades")] = "candles",  # noqa: A002
        interval: Annotated[str, Query(description="length of a candle, as in 1m")] = "1m",
        start: Annotated[str, Query(description="from here on, Unix milliseconds")] = "",
        end: Annotated[str, Query(description="before this, Unix milliseconds")] = "",
        limit: Annotated[str, Query(description="rows of a page, at most 5000")] = str(_ROWS_USUAL),
        format: Annotated[str, Query(description="json, csv or arrow")] = "json",  # noqa: A002
        cursor: Annotated[str, Query(description="`next` of the page before")] = "",
    ) -> None:
        self.provider, self.market, self.ticker, self.type = provider, market, ticker, type
        self.interval, self.start, self.end, self.limit = interval, start, end, limit
        self.format, self.cursor = format, cursor

    def where(self) -> tuple[str, str]:
        """The provider and the market."""
        if self.ticker and (self.provider or self.market):
            raise BadInput("give either ticker or provider and market")
        if self.ticker:
            return parse_ticker(self.ticker)
        if not self.provider or not self.market:
            raise BadInput("provider and market (or ticker) are needed")
        return check_provider(self.provider), check_market(self.market)

    def span(self) -> Span:
        """The stretch of time; with a start it is read forward, else back from its end."""
        limit = whole("limit", self.limit, 1, HTTP.rows)
        start = whole("start", self.start, 0, LATEST_MS) if self.start else None
        end = whole("end", self.end, 0, LATEST_MS) if self.end else LATEST_MS
        forward = start is not None
        if self.cursor:
            forward, at = _cursor(self.cursor)
            start, end = (at, end) if forward else (start, min(at, end))
        return Span(start or 0, end, limit, forward)


def whole(name: str, text: str, low: int, high: int) -> int:
    """A whole number between two others, or `BadInput` that names it."""
    if not (text.isascii() and text.isdigit() and len(text) <= 15 and low <= int(text) <= high):
        raise BadInput(f"{name} must be a whole number from {low} to {high}, not {text!r:.40}")
    return int(text)


def _cursor(text: str) -> tuple[bool, int]:
    if text[0] not in "se":
        raise BadInput("cursor must be the `next` of the page before")
    return text[0] == "s", whole("cursor", text[1:], 0, LATEST_MS)
