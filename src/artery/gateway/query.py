"""What may be asked of `/v1/history`, and what it means."""

from collections.abc import Mapping
from typing import Any

from artery.errors import BadInput
from artery.gateway.asks import Choice, Param, Text, Whole
from artery.gateway.limits import HTTP
from artery.gateway.span import Span
from artery.model.codec import LATEST_MS
from artery.model.tickers import parse_ticker

_ROWS_USUAL = 1_000
_MARKET = r"[A-Za-z0-9._/@#+:\-]{1,128}"
_LETTERS = "letters, digits and ._/@#+:- only, at most 128"
_TIME = Whole(0, LATEST_MS)

PROVIDER = Text(r"[a-z0-9_]{1,40}", "a provider: small letters, digits and _ only, at most 40")
MARKET = Text(_MARKET, f"a market: {_LETTERS}")
TICKER = Text(r"[A-Z0-9_]{1,40}:" + _MARKET, "EXCHANGE:SYMBOL, as in SIM:BTC")

PARAMS = (
    Param(name="provider", kind=PROVIDER, doc="venue, as in /v1/markets", example="sim"),
    Param(name="market", kind=MARKET, doc="market, as in /v1/markets", example="BTC"),
    Param(name="ticker", kind=TICKER, doc="in the place of both: EXCHANGE:SYMBOL", example="SIM:BTC"),
    Param(
        name="type", kind=Choice(("candles", "trades")), doc="candles or trades", example="candles", default="candles"
    ),
    Param(
        name="interval",
        kind=Text(r"[1-9][0-9]{0,5}[smhd]", "a whole number and s, m, h or d, as in 1m, 15m, 4h"),
        doc="length of a candle",
        example="1m",
        default="1m",
    ),
    Param(name="start", kind=_TIME, doc="from here on, Unix milliseconds", example=1_730_000_040_000),
    Param(name="end", kind=_TIME, doc="before this, Unix milliseconds", example=1_730_003_640_000),
    Param(name="limit", kind=Whole(1, HTTP.rows), doc="rows of a page", example=500, default=_ROWS_USUAL),
    Param(
        name="format",
        kind=Choice(("json", "csv", "arrow")),
        doc="prices are text in JSON and CSV, exact decimals in Arrow",
        example="json",
        default="json",
    ),
    Param(
        name="cursor",
        kind=Text(r"[se][0-9]{1,13}", "the `next` of the page before"),
        doc="`next` of the page before",
        example="s1730000100000",
    ),
)


def where(values: Mapping[str, Any]) -> tuple[str, str]:
    """The provider and the market."""
    provider, market, ticker = values["provider"], values["market"], values["ticker"]
    if ticker and (provider or market):
        raise BadInput("give either ticker or provider and market")
    if ticker:
        return parse_ticker(ticker)
    if not provider or not market:
        raise BadInput("provider and market (or ticker) are needed")
    return provider, market


def span(values: Mapping[str, Any]) -> Span:
    """The stretch of time; with a start it is read forward, else back from its end."""
    start, end = values["start"], LATEST_MS if values["end"] is None else values["end"]
    forward = start is not None
    if values["cursor"]:
        forward, at = values["cursor"][0] == "s", _TIME.read("cursor", values["cursor"][1:])
        start, end = (at, end) if forward else (start, min(at, end))
    return Span(start or 0, end, values["limit"], forward)
